"""Whether there will be something to do: asked by a worker that ends when it is idle."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from torpor.core.lease import Proof
from torpor.engine import leases
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.protocol import Store, Tx
    from torpor.store.rows import WorkerRow


async def coming(store: Store, served: Sequence[int], *, worker: int, until: float) -> bool:
    """Whether a run of these programs is ready or about to be: due by `until`, about to hear of another, left by the dead."""
    ready, due = await store.transact(leases.coming, served, lane=Lane.READ)
    if ready or (due is not None and due < until):
        return True
    holders = await store.transact(_holders)
    return await asyncio.to_thread(
        lambda: any(store.prove_death(row) is Proof.PROCESS_GONE for row in holders if row.id != worker)
    )


def _holders(tx: Tx) -> list[WorkerRow]:
    """Return the workers that hold a lease."""
    return [row for row in tx.workers() if tx.leases_of(row.id, limit=1)]
