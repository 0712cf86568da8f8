"""G20: how workers share what is ready, seen from those who wait.

What is promised: a claim takes a bounded number of runs, of one tenant; each tenant that has ready runs has its turn before a
worker comes to another one twice, so that it waits for a claim or two; within a tenant a lower priority number goes first, then
the oldest. A claim whose answer was lost is one that the worker knows nothing of: it counts for no turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.worker.worker import CLAIM_AT_ONCE

if TYPE_CHECKING:
    from tests.simulation.world import World
    from torpor.store.rows import RunRow


def g20_bounded(world: World) -> list[str]:
    """No claim takes more than it asked for, none asks for more than its worker has places, or than a claim may."""
    most = min(CLAIM_AT_ONCE, world.plan.places)
    return [
        f"G20: {turn.process} claimed {len(turn.taken)} runs at once, asked for {turn.limit}, may have {most}"
        for turn in world.history.turns
        if len(turn.taken) > turn.limit or turn.limit > most
    ]


def g20_turns(world: World) -> list[str]:
    """No worker comes to a tenant twice while a run of another one is ready and waits all the time."""
    broken = []
    passed_by: dict[str, dict[tuple[int, int], frozenset[int]]] = {}
    for turn in world.history.turns:
        tenants = {run.tenant for run in turn.taken}
        if len(tenants) > 1:
            broken.append(f"G20: {turn.process} claimed runs of {len(tenants)} tenants at once")
        if turn.place in world.history.unheard:
            passed_by.pop(turn.process, None)
            continue
        before, now = passed_by.get(turn.process, {}), {}
        for run in turn.left:
            if run.tenant not in tenants:
                seen = before.get((run.id, run.epoch), frozenset())
                if seen & tenants:
                    broken.append(
                        f"G20: {turn.process} passed run {run.id} of tenant {run.tenant} by for {tenants} twice"
                    )
                now[run.id, run.epoch] = seen | tenants
        passed_by[turn.process] = now
    return broken


def g20_order(world: World) -> list[str]:
    """Whoever was left of a claim's tenant comes after everybody who was taken."""
    broken = []
    for turn in world.history.turns:
        tenants = {run.tenant for run in turn.taken}
        last = max(map(_rank, turn.taken))
        broken += [
            f"G20: run {run.id} {_rank(run)} was left for one {last}"
            for run in turn.left
            if run.tenant in tenants and _rank(run) < last
        ]
    return broken


def _rank(run: RunRow) -> tuple[int, int, int]:
    return run.priority, run.due_at or 0, run.id
