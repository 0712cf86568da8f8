"""Signals and decisions: what wakes a run from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.client.connected import Connected
from torpor.core.family import RESERVED
from torpor.core.ids import wait_name
from torpor.core.wait import INTERRUPT, WaitKind
from torpor.engine import waits
from torpor.engine.decisions import Decision, decide, find_run
from torpor.engine.large import put_aside
from torpor.errors import Conflict, NotFound, UsageError
from torpor.store import values
from torpor.store.rows import Kept, NewSignal

if TYPE_CHECKING:
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
        if not 0 < len(name) <= 200 or "\0" in name:  # noqa: PLR2004 - said in the message
            raise UsageError(f"a signal's name is a text of 1 to 200 letters without U+0000, not {name!r}")
        if name.startswith(RESERVED):
            raise UsageError(f"a signal's name {name!r} begins with {RESERVED}: such names are torpor's own")
        body, blob = put_aside(values.encode(value, path="value"))
        return await self.store.transact(_signal, run, NewSignal(0, name, body, key, sender), blob)

    async def interrupt(self, run: str, *, reason: str = "", by: str = "", key: str | None = None) -> bool:
        """End the calls that are open in a run's turn; each raises `torpor.Interrupted` in the flow, which may catch it.

        The run lives on. An effect that has begun is waited for first. It is kept like a signal until there is something
        to end, or the turn is over. False: the run has seen this `key` before. Raises Conflict if the run has ended.
        """
        body = values.encode({"reason": reason, "by": by}, path="reason")
        kept = None if key is None else f"{INTERRUPT}:{key}"
        return await self.store.transact(_signal, run, NewSignal(0, INTERRUPT, body, kept, by or None), None)

    async def approve(self, wait: str, *, by: str, note: str = "", digest: str | None = None) -> str:
        """Approve what a wait shows; with `digest` only if that is still what it shows. Returns the wait's id.

        The first decision wins (G10): Conflict says who was first, or that it changed since the caller looked.
        """
        return await self._decide(wait, {"approved": True, "by": by, "note": note}, WaitKind.APPROVAL, digest)

    async def deny(self, wait: str, *, by: str, note: str = "") -> str:
        """Deny what a wait shows. Raises as `approve`."""
        return await self._decide(wait, {"approved": False, "by": by, "note": note}, WaitKind.APPROVAL)

    async def answer(
        self, wait: str, *, by: str, happened: Any = _NOT_GIVEN, again: bool = False, fail: str | None = None
    ) -> str:
        """Settle a trouble, with exactly one of three answers. Returns the wait's id; raises as `approve`.

        `happened`: the effect did happen, and this is what it gave back (None if nothing). `again`: do it again, or try
        the run again. `fail`: it failed, for this reason.
        """
        said = [not isinstance(happened, _NotGiven), again, fail is not None]
        if sum(said) != 1:
            raise UsageError("an answer is exactly one of: it happened, do it again, it failed")
        content: dict[str, Any] = {"happened": happened} if said[0] else {"again": True} if again else {"fail": fail}
        return await self._decide(wait, {**content, "by": by}, WaitKind.ATTENTION)

    async def _decide(self, wait: str, content: dict[str, Any], kind: WaitKind, digest: str | None = None) -> str:
        row = await self.store.transact(decide, Decision(wait, content, kind, digest=digest))
        return wait_name(row.run_id, row.seq)


def _signal(tx: Tx, run: str, signal: NewSignal, blob: Blob | None) -> bool:
    row, name = find_run(tx, run)
    if blob is not None:
        tx.put_blobs([(row.id, blob)])
    kept = waits.signal(tx, [signal._replace(run_id=row.id)])[0]
    if kept is Kept.FINAL:
        raise Conflict(f"{name} is {row.state.word}: nothing was kept", hint=f"torpor show {name}")
    if kept is Kept.NO_RUN:
        raise NotFound(f"there is no run {run}", hint="torpor ps lists them")
    return kept is Kept.NEW
