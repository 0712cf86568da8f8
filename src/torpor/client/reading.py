"""What people and programs read about runs and the store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from torpor.client.connected import Connected
from torpor.client.places import place_of
from torpor.core.lease import Proof
from torpor.engine.decisions import find_run
from torpor.engine.queries import facts, people
from torpor.engine.queries.doctor import diagnose
from torpor.engine.queries.fleet import fleet, listed, run_lines
from torpor.engine.queries.show import show
from torpor.errors import UsageError
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.core.run import State
    from torpor.engine.queries.doctor import Diagnosis
    from torpor.engine.queries.facts import ClockReset
    from torpor.engine.queries.fleet import Fleet, RunLine
    from torpor.engine.queries.show import RunShown
    from torpor.store.protocol import Store, Tx
    from torpor.store.rows import WorkerRow


class Reading(Connected):
    """Runs, the inbox, the fleet, the doctor."""

    async def get(self, run: str) -> RunLine:
        """Return how a run stands, with its reason and its open waits."""
        return await self.store.transact(_get, run, await self._gone(), lane=Lane.READ)

    async def show(self, run: str) -> RunShown:
        """Return a run in full: its story, its effects, its state and its result."""
        return await self.store.transact(show, run, gone=await self._gone(), lane=Lane.READ)

    async def inbox(self, *, limit: int = 100) -> people.Inbox:
        """Return every open wait for a person, oldest first, a bounded number."""
        return await self.store.transact(people.inbox, limit=limit, lane=Lane.READ)

    async def wait(self, wait: str) -> people.InboxItem:
        """Return one open wait for a person, in full. Raises NotFound; Conflict, with who decided it, if it is over."""
        return await self.store.transact(people.item, wait, lane=Lane.READ)

    async def edited(self, wait: str, edits: Mapping[str, Any]) -> Any:
        """Return what an approval would show with these edits, as `approve` takes them; nothing is decided.

        Raises as `wait`; UsageError with the path of what cannot be, or if its program allowed no edit.
        """
        return await self.store.transact(people.as_edited, wait, edits, lane=Lane.READ)

    async def fleet(self, *, limit: int = 50) -> Fleet:
        """Return the runs that are not asleep, the next to wake, the last that ended, and how many there are of each."""
        return await self.store.transact(fleet, gone=await self._gone(), limit=limit, lane=Lane.READ)

    async def doctor(self, *, check: bool | None = None) -> Diagnosis:
        """Return everything that is wrong or would be stuck in silence (G13), and whether it is safe to stop now.

        `check` reads an SQLite file whole to find damage; None does so while it is small.
        """
        found = await self.store.transact(facts.facts, lane=Lane.READ)
        gone = await asyncio.to_thread(_gone, self.store, found.workers)
        place = await self.store.transact(place_of, self.store, check, lane=Lane.READ)
        schema = await asyncio.to_thread(self.store.schema)
        return diagnose(found, place._replace(schema=schema), gone)

    async def reset_clock(self) -> ClockReset:
        """Bring stored times that are far ahead of this machine's clock back to it; say which runs will wake late.

        SQLite only, where the host's clock is the store's: UsageError elsewhere.
        """
        if self.store.kind != "sqlite":
            raise UsageError("this store's clock is its server's own", hint="set the server's clock right")
        return await self.store.transact(facts.reset_clock)

    async def list(
        self,
        *,
        states: Sequence[State] | None = None,
        program: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[RunLine]:
        """Return the newest runs that pass a filter, older than the run `before`; at most 200."""
        gone = await self._gone()
        return await self.store.transact(
            _list, gone=gone, states=states, program=program, limit=limit, before=before, lane=Lane.READ
        )

    async def _gone(self) -> frozenset[int]:
        """Return the workers whose death is proven, so that a run is not said to be on one of them."""
        rows = await self.store.transact(lambda tx: tx.workers(), lane=Lane.READ)
        return await asyncio.to_thread(_gone, self.store, rows)


def _get(tx: Tx, run: str, gone: frozenset[int]) -> RunLine:
    return run_lines(tx, [find_run(tx, run)[0]], gone=gone)[0]


def _list(
    tx: Tx, *, gone: frozenset[int], states: Sequence[State] | None, program: str | None, limit: int, before: str | None
) -> Sequence[RunLine]:
    below = None if before is None else find_run(tx, before)[0].id
    return listed(tx, gone=gone, states=states, program=program, limit=limit, before=below)


def _gone(store: Store, workers: Sequence[WorkerRow]) -> frozenset[int]:
    """Return the workers whose death is proven. Blocking: a lock each."""
    return frozenset(row.id for row in workers if store.prove_death(row) is not Proof.NONE)
