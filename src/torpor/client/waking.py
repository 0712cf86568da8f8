"""Signals and decisions: what wakes a run from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.client.checking import check_key
from torpor.client.connected import Connected
from torpor.core.ids import parse_run, wait_name
from torpor.core.names import check_name, storable
from torpor.core.wait import INTERRUPT, WaitKind
from torpor.engine import waits
from torpor.engine.decisions import Decision, decide, find_run
from torpor.engine.large import put_aside
from torpor.errors import Conflict, NotFound, UsageError
from torpor.store import values
from torpor.store.rows import Kept, NewSignal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torpor.core.commit import Blob
    from torpor.store.protocol import Tx


class _NotGiven:
    """What `happened` is when it was not said: None is an outcome too."""


_NOT_GIVEN = _NotGiven()


class Waking(Connected):
    """Signal, approve, deny, answer."""

    async def signal(
        self, run: str, name: str, value: Any = None, *, key: str | None = None, sender: str | None = None
    ) -> bool:
        """Send a signal; it is kept if it comes early (G7). False: the run has seen this `key` before.

        Raises Conflict if the run has ended.
        """
        check_name(name, "a signal's name")
        check_key(key, "a signal's key")
        if sender is not None and "~" in sender:
            raise UsageError(
                f"a sender has no ~ in it, as {sender!r} has: torpor writes behind it where an answer goes"
            )
        body, blob = put_aside(values.encode(value, path="value"))
        return await self.store.transact(_signal, run, NewSignal(0, name, body, key, sender), blob)

    async def interrupt(self, run: str, *, reason: str = "", by: str = "", key: str | None = None) -> bool:
        """End the calls that are open in a run's turn; each raises `torpor.Interrupted` in the flow, which may catch it.

        The run lives on. An effect that has begun is waited for first. It is kept like a signal until there is something
        to end, or the turn is over. False: the run has seen this `key` before. Raises Conflict if the run has ended.
        """
        check_key(key, "an interrupt's key")
        body = values.encode({"reason": reason, "by": by}, path="reason")
        kept = None if key is None else f"{INTERRUPT}:{key}"
        return await self.store.transact(_signal, run, NewSignal(0, INTERRUPT, body, kept, by or None), None)

    async def approve(
        self,
        wait: str,
        *,
        by: str,
        note: str = "",
        digest: str | None = None,
        edits: Mapping[str, Any] | None = None,
    ) -> str:
        """Approve what a wait shows; with `digest` only if that is still what it shows. Returns the wait's id.

        `edits` are JSON values by path (`to`, `items[0].amount`, empty for the whole): what runs is what was shown with
        these in it, if the program allowed that and they fit its schema; UsageError names the path otherwise, and the wait
        stays open. The first decision wins (G10): Conflict says who was first, or that it changed since the caller looked.
        """
        content = {"approved": True, "by": by, "note": note}
        return await self._decide(Decision(wait, content, WaitKind.APPROVAL, digest=digest, edits=edits))

    async def deny(self, wait: str, *, by: str, note: str = "") -> str:
        """Deny what a wait shows. Raises as `approve`."""
        return await self._decide(Decision(wait, {"approved": False, "by": by, "note": note}, WaitKind.APPROVAL))

    async def answer(
        self,
        wait: str,
        *,
        by: str,
        value: Any = _NOT_GIVEN,
        happened: Any = _NOT_GIVEN,
        again: bool = False,
        fail: str | None = None,
    ) -> str:
        """Answer a question with a `value`, or settle a trouble with one of three answers. Returns the wait's id.

        A value that is none of the choices, or does not fit the schema, is refused with the path and what is allowed
        (UsageError); the question stays open. Else it raises as `approve`.

        `happened`: the effect did happen, and this is what it gave back (None if nothing). `again`: do it again, or try
        the run again. `fail`: it failed, for this reason.
        """
        said = [not isinstance(happened, _NotGiven), again, fail is not None]
        if sum(said) + (not isinstance(value, _NotGiven)) != 1:
            raise UsageError("an answer is exactly one of: a value, it happened, do it again, it failed")
        if not any(said):
            return await self._decide(Decision(wait, {"value": value, "by": by}, WaitKind.QUESTION))
        content: dict[str, Any] = {"happened": happened} if said[0] else {"again": True} if again else {"fail": fail}
        return await self._decide(Decision(wait, {**content, "by": by}, WaitKind.ATTENTION))

    async def _decide(self, decision: Decision) -> str:
        row = await self.store.transact(decide, decision)
        if isinstance(row, Conflict):
            raise row
        return wait_name(row.run_id, row.seq)


def _signal(tx: Tx, run: str, signal: NewSignal, blob: Blob | None) -> bool:
    """Keep a signal for a run that is named by its public id; the statement that keeps it asks whether that is its name."""
    program, number = parse_run(run)
    if blob is not None or not storable(program):  # a blob is written for a run that is there
        number = find_run(tx, run)[0].id
    if blob is not None:
        tx.put_blobs([(number, blob)])
    kept = waits.signal(tx, [signal._replace(run_id=number, program=program)])[0]
    if kept is Kept.FINAL:
        row, name = find_run(tx, run)
        raise Conflict(f"{name} is {row.state.word}: nothing was kept", hint=f"torpor show {name}")
    if kept is Kept.NO_RUN:
        find_run(tx, run)  # it says which run has these letters
        raise NotFound(f"there is no run {run}", hint="torpor ps lists them")
    return kept is Kept.NEW
