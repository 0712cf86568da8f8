"""Waiting for the end of a run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from torpor.client.connected import Connected
from torpor.client.listening import until
from torpor.core.ids import wait_name
from torpor.core.run import Flag, State
from torpor.engine.decisions import find_run, refuse_pruned
from torpor.engine.large import read_whole
from torpor.engine.queries.fleet import first_line
from torpor.errors import NeedsPerson, RunCancelled, RunFailed
from torpor.store import values
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from torpor.store.protocol import Tx


class Awaiting(Connected):
    """Results."""

    async def result(
        self, run: str, *, timeout_seconds: float | None = None, person: Literal["wait", "raise"] = "wait"
    ) -> Any:
        """Wait until a run has ended and return its result.

        Raises RunFailed with the recorded error, RunCancelled, TimeoutError (the run goes on), Conflict if it is being
        pruned, and with `person="raise"` NeedsPerson as soon as only a person can help it on.
        """
        ended = await self.ended(run, timeout_seconds=timeout_seconds, person=person)
        return values.decode(ended)

    async def ended(
        self, run: str, *, timeout_seconds: float | None = None, person: Literal["wait", "raise"] = "wait"
    ) -> bytes:
        """Wait as `result` does, and return the result's body as it is stored: for callers without its classes."""

        async def look() -> _Outcome | None:
            found = await self.store.transact(_outcome, run, lane=Lane.READ)
            if not found.ended and found.asks and person == "raise":
                raise NeedsPerson(f"{found.name} needs a person: {found.asks}", hint="torpor inbox")
            return found if found.ended else None

        async with asyncio.timeout(timeout_seconds):
            return _result(await until(self.store, {"ended"}, look))


class _Outcome(NamedTuple):
    """How a run stands: its state, whom it asks for what, and how it ended."""

    name: str
    state: State
    asks: str
    body: bytes

    @property
    def ended(self) -> bool:
        """Whether nothing can follow."""
        return self.state.final


def _outcome(tx: Tx, run: str) -> _Outcome:
    row, name = find_run(tx, run)
    if not row.state.final:
        asked = [w for w in tx.waits([row.id]) if w.kind.for_person and w.answered_at is None]
        waiting = row.state is State.WAITING and Flag.PERSON in row.flags
        asks = ", ".join(f"{wait.title} ({wait_name(row.id, wait.seq)})" for wait in asked)
        return _Outcome(name, row.state, asks if waiting else "", b"")
    refuse_pruned(tx, row, name)
    last = tx.entries([(row.id, row.head)]).get((row.id, row.head))
    return _Outcome(name, row.state, "", read_whole(tx, last.body) if last is not None and last.body else b"null")


def _result(found: _Outcome) -> bytes:
    if found.state is State.COMPLETED:
        return found.body
    if found.state is State.CANCELLED:
        raise RunCancelled(f"{found.name} was cancelled", hint=f"torpor show {found.name}")
    recorded = values.plain(found.body)
    said = recorded if isinstance(recorded, dict) else {}
    kind, detail, where = (str(said.get(name, "")) for name in ("kind", "detail", "where"))
    place = f" ({where})" if where else ""
    message = f"{found.name} failed: {kind}: {detail}{place}"
    advice = f"{first_line(str(said['hint']))}; " if said.get("hint") else ""
    raise RunFailed(message, kind=kind, detail=detail, hint=f"{advice}torpor show {found.name}")
