"""The small flow that undoes what a cancelled run registered (`sdk.compensating`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.core.replay import CallKind
from torpor.errors import StepFailed
from torpor.sdk.app import Flow
from torpor.sdk.port import Request

if TYPE_CHECKING:
    from torpor.sdk.context import Context
    from torpor.sdk.port import Port
    from torpor.sdk.steps import Definition

MARK = "~"
"""Begins the step_id of a compensation, in which an author's has none: no call of theirs has such a key (G5)."""


class Undo(NamedTuple):
    """One compensation: the entry that registered it, its effect, and its arguments as an effect's."""

    n: int
    definition: Definition
    values: dict[str, Any]


async def _undo(ctx: Context, state: list[Undo]) -> None:
    port: Port = ctx._port  # noqa: SLF001 - not an author's flow
    for one in sorted(state, reverse=True):
        future = port.loop.future(stubborn=True)
        name, step_id = one.definition.name, f"{MARK}{one.n}"
        port.ask(Request(CallKind.EFFECT, name, one.values, future, one.definition, step_id))
        try:
            await future
        except StepFailed:
            continue  # a person said that it failed, and knows; the others are still to be undone


UNDO = Flow("cancel", 1, _undo, f"{__name__}:_undo", takes_state=True)
"""The flow that a cancelled run with compensations goes on with."""


def belongs(key: str | None) -> bool:
    """Whether an entry's key is a compensation's."""
    return key is not None and f"@{MARK}" in key
