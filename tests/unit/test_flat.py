import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp

import pytest

from loadtests.flat import MEGABYTE, growing, unseen
from loadtests.target import Sample

REPLICAS = ("host-1", "host-2", "host-3")
EVERY_SECONDS = 5.0
SOAK_SECONDS = 600.0
AWAY_SECONDS = 6.0
"""Longer than from one sample to the next, so that each restart is seen as one in which the replica is missing."""

Level = Callable[[float, float], float]
"""Megabytes at so many seconds of the run, in a life of so many."""


def warm(_at: float, age: float) -> float:
    """What a host does that has no leak: most within seconds, the rest within a minute."""
    return 95 + 15 * (1 - exp(-age / 12))


def leaking(at: float, age: float) -> float:
    return warm(at, age) + age / 60


def climbing_slowly(_at: float, age: float) -> float:
    return 95 + 60 * (1 - exp(-age / 60))


def starting_higher(at: float, age: float) -> float:
    return warm(at, age) + at / 60


def soak(
    level: Level,
    *,
    lives: Sequence[float] = (10 * SOAK_SECONDS,),
    noise: float = 0.0,
    seed: int = 0,
    away_seconds: float = AWAY_SECONDS,
) -> list[Sample]:
    """Sample three replicas that are killed after lives of these lengths, over and over."""
    rng = random.Random(seed)
    samples = []
    begins = dict.fromkeys(REPLICAS, -200.0)
    left = {name: [length * (0.7 + 0.3 * number) for length in lives] for number, name in enumerate(REPLICAS)}
    for number in range(int(SOAK_SECONDS / EVERY_SECONDS) + 1):
        at = number * EVERY_SECONDS
        memory = {}
        for name in REPLICAS:
            if at >= begins[name] + left[name][0]:
                begins[name] = at + away_seconds
                left[name].append(left[name].pop(0))
            if at >= begins[name]:
                megabytes = level(at, at - begins[name]) + rng.uniform(-noise, noise)
                memory[name] = int(MEGABYTE * megabytes)
        samples.append(Sample(1_700_000_000 + at, memory, 30, 20 * MEGABYTE))
    return samples


def with_memory_of(name: str, other: Sequence[Sample], *, in_place_of_that_in: Sequence[Sample]) -> list[Sample]:
    pairs = zip(in_place_of_that_in, other, strict=True)
    return [replace(a, memory_bytes={**a.memory_bytes, name: b.memory_bytes[name]}) for a, b in pairs]


def stored(samples: Sequence[Sample], megabytes: Callable[[float], float]) -> list[Sample]:
    begun = samples[0].at
    return [replace(each, store_bytes=int(MEGABYTE * megabytes(each.at - begun))) for each in samples]


def connected(samples: Sequence[Sample], connections: Callable[[float], float]) -> list[Sample]:
    begun = samples[0].at
    return [replace(each, connections=int(connections(each.at - begun))) for each in samples]


def not_told_by(samples: Sequence[Sample]) -> list[str]:
    """Return what the samples of a soak can not show."""
    return unseen(samples, seconds=SOAK_SECONDS, spared="host-1")


def test_a_level_run_is_flat() -> None:
    samples = soak(lambda _at, _age: 110)
    assert (growing(samples), not_told_by(samples)) == ([], [])


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    "lives", [(9000,), (260, 35, 300, 20), (30, 20, 150, 20, 20, 90), (15, 20, 20, 25, 15)], ids=str
)
def test_the_noise_of_restarts_is_no_growth(lives: tuple[float, ...], seed: int) -> None:
    lengths = random.Random(seed).sample(lives, len(lives))
    assert growing(soak(warm, lives=lengths, noise=1, seed=seed)) == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lives", [(9000,), (560, 20)], ids=str)
def test_a_leak_of_one_megabyte_a_minute_is_seen_in_every_replica(lives: tuple[float, ...], seed: int) -> None:
    found = growing(soak(leaking, lives=lives, noise=1, seed=seed))
    assert [each.split(":")[0] for each in found] == [f"memory of {name} grows while it lives" for name in REPLICAS]


def test_a_leak_in_one_replica_names_that_one_only() -> None:
    samples = with_memory_of("host-2", soak(leaking, noise=1), in_place_of_that_in=soak(warm, noise=1))
    [found] = growing(samples)
    assert found.startswith("memory of host-2 grows while it lives: 1.0 MB a minute")


def test_processes_that_begin_with_more_and_more_are_seen_although_none_of_them_grows() -> None:
    found = growing(soak(starting_higher, lives=(40, 30, 50), noise=1))
    assert [each.split(":")[0] for each in found] == [f"memory of {name} grows from life to life" for name in REPLICAS]


@pytest.mark.parametrize("away_seconds", [0, AWAY_SECONDS])
def test_processes_that_live_longer_and_longer_are_not_taken_for_growing_ones(away_seconds: float) -> None:
    lives = (20, 20, 25, 25, 30, 30, 40, 50, 60, 70, 80, 90, 110)
    assert growing(soak(climbing_slowly, lives=lives, away_seconds=away_seconds)) == []


@pytest.mark.parametrize("seed", range(10))
def test_a_slope_that_few_noisy_samples_seem_to_have_is_not_judged(seed: int) -> None:
    assert growing(soak(warm, lives=(200, 15), noise=1, seed=seed)) == []


def test_what_memory_did_in_the_first_third_is_not_judged() -> None:
    assert growing(soak(lambda at, _age: 80 + min(at, 190) * 2, lives=(30, 40))) == []


def test_lives_too_short_to_show_a_leak_are_not_taken_for_proof_that_there_is_none() -> None:
    samples = soak(leaking, lives=(20, 30), noise=1)
    assert growing(samples) == []
    limit = not_told_by(samples)[-1]
    assert limit == "no replica lived long enough to show a slow leak within one process"


def test_one_replica_that_lives_long_enough_speaks_for_those_that_do_not() -> None:
    short = soak(warm, lives=(20, 30), noise=1)
    assert not_told_by(with_memory_of("host-1", soak(warm, noise=1), in_place_of_that_in=short)) == []


def test_connections_that_pile_up_are_seen() -> None:
    [found] = growing(connected(soak(warm), lambda at: 30 + at / 20))
    assert found.startswith("connections grow")


def test_connections_that_fall_and_come_back_with_every_restart_are_flat() -> None:
    assert growing(connected(soak(warm), lambda at: 30 - 10 * (at % 25 < 10) + at % 3)) == []


def test_a_spare_connection_more_and_one_high_peak_are_flat() -> None:
    assert growing(connected(soak(warm), lambda at: 30 + (at > 400) + 500 * (at == 500))) == []


def test_a_store_that_levels_off_once_retention_has_passed_is_flat() -> None:
    assert growing(stored(soak(warm), lambda at: 8 + min(at, 150) / 10 + at % 4)) == []


def test_a_store_that_never_stops_growing_is_seen() -> None:
    [found] = growing(stored(soak(warm), lambda at: 8 + at / 40))
    assert found.startswith("bytes in the store grow: 15,")


@pytest.mark.parametrize("count", [0, 1, 60])
def test_a_run_that_was_not_watched_long_enough_is_called_neither_flat_nor_growing(count: int) -> None:
    samples = soak(leaking)[:count]
    assert growing(samples) == []
    [limit] = not_told_by(samples)
    assert "it takes 540 s to tell" in limit


def test_a_run_that_was_watched_for_a_part_of_its_load_can_not_tell() -> None:
    [limit] = unseen(soak(warm), seconds=3600, spared="host-1")
    assert limit == "the run was watched for 600 s; it takes 1800 s to tell"


def test_a_real_soak_which_lacks_a_sample_now_and_then_can_tell() -> None:
    assert not_told_by([each for number, each in enumerate(soak(warm)) if number % 9]) == []


def test_too_few_samples_can_not_tell() -> None:
    assert "there are only 41 samples, of 120" in not_told_by(soak(leaking)[::3])


def test_how_many_samples_are_enough_is_of_the_load_and_not_of_the_time_that_was_watched() -> None:
    samples = [each for number, each in enumerate(soak(warm)) if number % 5]
    assert not_told_by(samples) == []
    [limit] = unseen(samples, seconds=1180, spared="host-1")
    assert limit == "there are only 96 samples, of 236"


def test_a_time_without_samples_can_not_tell() -> None:
    samples = soak(warm)
    assert not_told_by(samples[:40] + samples[60:]) == ["for 105 s there is no sample"]


def test_a_spared_replica_that_is_not_seen_can_not_tell() -> None:
    samples = with_memory_of("host-2", soak(warm), in_place_of_that_in=soak(warm))
    gone = [replace(each, memory_bytes={"host-2": each.memory_bytes["host-2"]}) for each in samples]
    [limit] = not_told_by(gone)
    assert limit == "only 0 of 121 samples have the memory of host-1, which nothing was to strike"


def test_samples_without_memory_from_the_middle_on_can_not_tell() -> None:
    samples = soak(warm)
    gone = [replace(each, memory_bytes={}) for each in samples[60:]]
    assert len(not_told_by(samples[:60] + gone)) == 2


def test_a_leak_within_lives_that_all_are_short_is_not_called_flat() -> None:
    samples = soak(lambda _at, age: 95 + age, lives=(160,))
    assert growing(samples) == []
    assert "no replica lived long enough" in not_told_by(samples)[-1]
