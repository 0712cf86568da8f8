"""Every crash of a flow: its worker killed at each point in turn, another one going on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from torpor.testing.mortal import KILLS, Place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from datetime import datetime, timedelta

    from torpor.testing.mortal import Plan
    from torpor.testing.run import Run
    from torpor.testing.showing import Effect, Line, Wait


class Laboratory(Protocol):
    """What a crash needs of a lab."""

    plan: Plan

    @property
    def now(self) -> datetime:
        """The store's time."""

    async def start(self, flow: Callable[..., Any] | str, state: Any = None) -> Run:
        """Start a run."""

    async def settle(self) -> None:
        """Work until nothing is ready or running."""

    def advance(self, duration: float | timedelta) -> None:
        """Move the clock."""

    def crash(self, place: Place, point: int = 1) -> None:
        """Kill the worker at a point."""

    async def state(self, run: Run) -> str:
        """Return a run's state."""

    async def result(self, run: Run) -> Any:
        """Return a run's result."""

    async def waits(self, run: Run) -> list[Wait]:
        """Return a run's open waits."""

    async def journal(self, run: Run) -> list[Line]:
        """Return a run's journal."""

    async def effects(self, run: Run) -> list[Effect]:
        """Return a run's effects."""


L = TypeVar("L", bound=Laboratory)


@dataclass(frozen=True, slots=True)
class Crash(Generic[L]):
    """A run that ended although its worker was killed once. `what` says what the worker was doing."""

    lab: L
    run: Run
    place: Place
    point: int
    what: str

    def __str__(self) -> str:
        """Say where it was, for a failing assertion."""
        return f"killed {self.place} ({self.what or 'undisturbed'}, point {self.point})"

    async def result(self) -> Any:
        """Return the run's result. Raises as `Lab.result`."""
        return await self.lab.result(self.run)

    async def state(self) -> str:
        """Return the run's state."""
        return await self.lab.state(self.run)

    async def journal(self) -> list[Line]:
        """Return the run's journal."""
        return await self.lab.journal(self.run)

    async def effects(self) -> list[Effect]:
        """Return what became of the run's effects."""
        return await self.lab.effects(self.run)


async def every_crash(
    lab: L,
    flow: Callable[..., Any] | str,
    state: Any,
    *,
    drive: Callable[[L, Run], Awaitable[object]] | None,
    before: Callable[[], object] | None,
    places: tuple[Place, ...] | None,
) -> AsyncIterator[Crash[L]]:
    """Do what `Lab.every_crash` says. A place has one point more than the last run had: that one is undisturbed."""
    crash = await _one(lab, flow, state, Place.UNDISTURBED, 0, drive, before)
    yield crash
    for place in KILLS if places is None else places:
        point = 1
        while (crash := await _one(lab, flow, state, place, point, drive, before)).what:
            yield crash
            point += 1


async def _one(
    lab: L,
    flow: Callable[..., Any] | str,
    state: Any,
    place: Place,
    point: int,
    drive: Callable[[L, Run], Awaitable[object]] | None,
    before: Callable[[], object] | None,
) -> Crash[L]:
    if before is not None:
        before()
    lab.crash(place, point)  # before the start: a worker that waits for work takes it up at once
    plan = lab.plan
    run = await lab.start(flow, state)
    try:
        await (drive or _patiently)(lab, run)
    finally:
        lab.crash(Place.UNDISTURBED, 0)
    return Crash(lab, run, place, point, plan.what)


async def _patiently(lab: Laboratory, run: Run) -> None:
    """Settle, and let time pass while the run waits for nothing else."""
    await lab.settle()
    while open_waits := await lab.waits(run):
        if any(wait.kind not in {"timer", "retry", "rate"} for wait in open_waits) or await lab.state(run) != "waiting":
            return
        due = min(wait.due_at for wait in open_waits if wait.due_at is not None)
        lab.advance(max(0.0, (due - lab.now).total_seconds()))
        await lab.settle()
