"""Puts the approval authority and the limits of runs together from the settings, for every host alike."""

from __future__ import annotations

from app.authority import ApprovalAuthority
from app.claims import Claims
from app.commits import Commits
from app.doubt_alarm import DoubtAlarm
from app.effects import EffectLimits
from app.ledger import Ledger
from app.metrics import Metrics
from app.open_approvals import OpenLimits
from app.releases import Releases
from app.replicas import Replica
from app.run_request import RequestLimits
from app.runner import RunLimits
from app.settings import Settings
from app.steps import OnStep
from app.upkeep import Upkeep
from stores.ports import Stores


def approval_authority(
    settings: Settings, stores: Stores, replica: Replica, releases: Releases, on_step: OnStep, metrics: Metrics
) -> ApprovalAuthority:
    """Return what decides for one replica which run may work on a thread."""
    ledger = Ledger(stores.effects, replica)
    alarm = DoubtAlarm(age_seconds=settings.retention_indeterminate_seconds)
    retries_max = settings.reconcile_retries_max
    upkeep = Upkeep(stores, ledger, retries_max=retries_max, alarm=alarm, on_step=on_step, metrics=metrics)
    claim_seconds = settings.run_seconds + settings.claim_margin_seconds
    claims = Claims(
        stores, ledger, upkeep, releases, holder=replica.holder, claim_seconds=claim_seconds, on_step=on_step
    )
    commits = Commits(
        stores,
        claims,
        upkeep,
        snapshot_bytes_max=settings.snapshot_bytes_max,
        open_limits=OpenLimits(settings.open_approvals_per_thread_max, settings.open_approvals_per_scope_max),
        on_step=on_step,
    )
    return ApprovalAuthority(
        stores,
        replica,
        claims,
        commits,
        upkeep,
        releases,
        snapshot_bytes_max=settings.snapshot_bytes_max,
        on_step=on_step,
    )


def run_limits(settings: Settings) -> RunLimits:
    """Return the limits of one run."""
    transaction_seconds = min(settings.tool_seconds, settings.lease_seconds)
    return RunLimits(
        run_seconds=settings.run_seconds,
        claim_seconds=settings.run_seconds + settings.claim_margin_seconds,
        approval_seconds=settings.approval_seconds,
        effects=EffectLimits(settings.tool_seconds, settings.tool_retries_max, transaction_seconds),
        request=RequestLimits(
            settings.id_length_max, settings.messages_max, settings.nesting_max, settings.state_bytes_max
        ),
        stream_events_max=settings.stream_events_max,
    )
