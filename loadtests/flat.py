"""Is what a deployment uses level after its warm-up, or does it grow? Judged from the samples of a long run. Pure.

The first third of a run is warm-up and says nothing. Connections and the store's size are compared by their medians in
the second and the last third: a median is moved neither by a restart nor by a single peak.

A replica's memory can not be judged like that, as replicas are killed: it is low after each start and climbs while
caches fill. So only samples that can be compared are: two of *different lives* at the same age (what a new process
begins with may grow with what is stored), and two of the *same life*, both long after its start (else its climb would
be taken for a leak). The median of the slopes between all such pairs (Theil-Sen) is right as long as fewer than three
of ten samples are far off. Where replicas are killed so often that none lives long, a slow leak within a process can
not be seen, and `unseen` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median

from loadtests.target import Sample

MEGABYTE = 1_000_000
SAMPLE_SECONDS = 5.0
"""From one sample to the next, if the deployment can be asked."""
SAMPLED_SHARE_MIN = 0.5
"""Of the samples that the time of the load has room for. A real soak had 99 % of them."""
GAP_SECONDS_MAX = 60.0
"""Without a sample: a tenth of a soak. In a real one the longest was 10 s, while its store was restarted."""
SPARED_SHARE_MIN = 0.9
"""Of the samples: those in which the replica has a memory that no fault strikes. In a real soak it had in all."""
WATCHED_SECONDS_MIN = 540.0
"""A soak of ten minutes, less what its last sample may be short of it."""
SLOPE_MAX = 0.5 * MEGABYTE
"""Bytes in a minute. Half of the smallest leak that has to be seen, 1 MB a minute; 30 MB in an hour."""
CLIMB_SECONDS = 120.0
"""A host that was started fills its pools and caches for so long: under load the first minute costs it 6 MB, the second
0.7 MB, each later one 0.3 MB."""
PAIRS_MIN = 300
"""Fewer pairs say nothing. One life has so many when it was watched for two minutes after its climb."""
SAME_AGE_SECONDS = SAMPLE_SECONDS
FALL_SHARE = 0.02
"""A host's memory does not fall by so much between two samples while it lives; after a start it is lower by more."""
SAMPLES_MAX = 400
"""Of one replica; of more, every second, third … is taken, so that an hour costs no more than half of it."""
GROWTH_SHARE = 0.1
CONNECTIONS_SPARE = 2.0
STORE_BYTES_SPARE = 1.0 * MEGABYTE
"""What a third may be above the one before, beside a tenth: a pool's spare connections; one step of a growing file."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """A replica's memory at one moment; `life` numbers its processes, `age_seconds` is since that one began."""

    at: float
    memory_bytes: int
    life: int
    age_seconds: float


def growing(samples: Sequence[Sample]) -> list[str]:
    """Return what grows in a run of ten minutes or more; of a shorter one nothing is said, and `unseen` tells why."""
    watched_seconds = _watched_seconds(samples)
    if watched_seconds < WATCHED_SECONDS_MIN:
        return []
    warm_at, last_third_at = (samples[0].at + watched_seconds * share for share in (1 / 3, 2 / 3))
    middle = [each for each in samples if warm_at <= each.at < last_third_at]
    last = [each for each in samples if each.at >= last_third_at]
    connections = [each.connections for each in middle], [each.connections for each in last]
    store_bytes = [each.store_bytes for each in middle], [each.store_bytes for each in last]
    return [
        *_memory(_replicas(samples)),
        *_risen("connections", *connections, spare=CONNECTIONS_SPARE),
        *_risen("bytes in the store", *store_bytes, spare=STORE_BYTES_SPARE),
    ]


def unseen(samples: Sequence[Sample], *, seconds: float, spared: str) -> list[str]:
    """Return what these samples of so many seconds of load can not show.

    `spared` is the replica that is meant to live all that time.
    """
    watched_seconds, least_seconds = _watched_seconds(samples), max(WATCHED_SECONDS_MIN, SAMPLED_SHARE_MIN * seconds)
    if watched_seconds < least_seconds:
        return [f"the run was watched for {watched_seconds:.0f} s; it takes {least_seconds:.0f} s to tell"]
    found = []
    count, expected = len(samples), max(seconds, watched_seconds) / SAMPLE_SECONDS
    if count < SAMPLED_SHARE_MIN * expected:
        found.append(f"there are only {count} samples, of {expected:.0f}")
    gap_seconds = max(later.at - earlier.at for earlier, later in pairwise(samples))
    if gap_seconds > GAP_SECONDS_MAX:
        found.append(f"for {gap_seconds:.0f} s there is no sample")
    lived = sum(bool(each.memory_bytes.get(spared)) for each in samples)
    if lived < SPARED_SHARE_MIN * count:
        found.append(f"only {lived} of {count} samples have the memory of {spared}, which nothing was to strike")
    slopes = [list(_slopes_of_lives(moments)) for moments in _replicas(samples).values()]
    # Replicas run the same program: one of them that lives long enough speaks for all.
    if not any(len(each) >= PAIRS_MIN for each in slopes):
        found.append("no replica lived long enough to show a slow leak within one process")
    return found


def _watched_seconds(samples: Sequence[Sample]) -> float:
    return samples[-1].at - samples[0].at if samples else 0.0


def _risen(what: str, middle: Sequence[int], last: Sequence[int], *, spare: float) -> Iterator[str]:
    if not middle or not last:
        return
    before, after = median(middle), median(last)
    if after > before * (1 + GROWTH_SHARE) + spare:
        yield f"{what} grow: {before:,.0f} in the second third, {after:,.0f} in the last (medians)"


def _memory(replicas: Mapping[str, Sequence[_Moment]]) -> Iterator[str]:
    for name, moments in replicas.items():
        for where, slopes in (
            ("while it lives", list(_slopes_of_lives(moments))),
            ("from life to life", list(_slopes_between_lives(moments))),
        ):
            if len(slopes) >= PAIRS_MIN and (slope := median(slopes)) > SLOPE_MAX:
                yield f"memory of {name} grows {where}: {slope / MEGABYTE:.1f} MB a minute"


def _slopes_of_lives(moments: Sequence[_Moment]) -> Iterator[float]:
    """Return bytes a minute between samples of one life that are long after its start."""
    settled = [each for each in moments if each.age_seconds >= CLIMB_SECONDS]
    return (_slope(a, b) for a, b in combinations(settled, 2) if a.life == b.life)


def _slopes_between_lives(moments: Sequence[_Moment]) -> Iterator[float]:
    """Return bytes a minute between samples of two lives at the same age."""
    pairs = ((a, b) for a, b in combinations(moments, 2) if a.life != b.life)
    return (_slope(a, b) for a, b in pairs if abs(a.age_seconds - b.age_seconds) <= SAME_AGE_SECONDS)


def _slope(earlier: _Moment, later: _Moment) -> float:
    return 60.0 * (later.memory_bytes - earlier.memory_bytes) / (later.at - earlier.at)


def _replicas(samples: Sequence[Sample]) -> dict[str, list[_Moment]]:
    """Return the memory of each replica after the first third."""
    names = sorted({name for each in samples for name in each.memory_bytes})
    return {name: _moments(samples, name) for name in names}


def _moments(samples: Sequence[Sample], name: str) -> list[_Moment]:
    warm_at = samples[0].at + (samples[-1].at - samples[0].at) / 3
    found: list[_Moment] = []
    life, begins_at, before = 0, 0.0, 0
    for sample in samples:
        memory_bytes = sample.memory_bytes.get(name, 0)
        if not before or 0 < memory_bytes < before * (1 - FALL_SHARE):
            life, begins_at = life + 1, sample.at
        if memory_bytes and sample.at >= warm_at:
            found.append(_Moment(sample.at, memory_bytes, life, sample.at - begins_at))
        before = memory_bytes
    return found[:: max(1, -(-len(found) // SAMPLES_MAX))]
