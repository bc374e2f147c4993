"""Each decision of the lifecycle, and what its events make of the state."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cardsign.keys import lifecycle, rotation
from cardsign.keys.lifecycle import TimelineSettings
from cardsign.keys.log import fold_all
from cardsign.keys.model import StoreState
from cardsign.keys.rotation import Step
from tests.keys.states import change, enter, record

__all__ = ["enter", "record"]


def _applied(decide: Any) -> Any:
    def applied(state: StoreState, *arguments: Any, **how: Any) -> StoreState:
        return change(state, decide, *arguments, **how)

    return applied


activate, retire, revoke, destroy, keep_keyset, revoke_custody = map(
    _applied,
    (
        lifecycle.activate,
        lifecycle.retire,
        lifecycle.revoke,
        lifecycle.destroy,
        lifecycle.keep_keyset,
        lifecycle.revoke_custody,
    ),
)
end_told_releases, replace_key = map(_applied, (lifecycle.end_told_releases, lifecycle.replace_key))
record_publication = record


def take(state: StoreState, step: Step, settings: TimelineSettings, now: datetime) -> StoreState:
    """Take a due step."""
    return fold_all(state, rotation.take(state, step, settings, now), now)
