"""Schedules: making them, and what people do to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.client.connected import Connected
from torpor.client.starting import Started
from torpor.engine import schedules
from torpor.engine.queries.schedules import SHOWN, schedule_line, schedule_lines
from torpor.sdk.schedules import rule
from torpor.store import values
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from torpor.engine.queries.schedules import ScheduleLine


class Scheduling(Connected):
    """Create, list, pause, resume, run now, remove."""

    async def create_schedule(
        self,
        name: str,
        program: str,
        cron: str = "",
        *,
        every: float | timedelta | None = None,
        zone: str = "UTC",
        input: Any = None,  # noqa: A002 - the word that authors use
        tenant: str = "default",
        priority: int = 0,
        **more: Any,
    ) -> schedules.Registered:
        """Make a schedule be so; `outcome` is `created`, `unchanged` or `changed`, `what` the parts that changed.

        `more` are `missed`, `up_to`, `grace`, `jitter`, `stagger`, as in `App.schedule`. A paused one stays paused. Raises
        UsageError for an unknown program or zone, a malformed cron line (naming the field), numbers out of range.
        """
        made = rule(cron, every=every, zone=zone, name=name, **more)
        body = values.encode(input, path="input")
        wanted = schedules.Definition(name, program, made, body, tenant, priority)
        return (await self.store.transact(schedules.register, [wanted]))[0]

    async def schedules(self, *, after: str = "", limit: int = 100, slots: int = SHOWN) -> Sequence[ScheduleLine]:
        """Return schedules by name, each with what comes next and the fates of its last `slots`."""
        return await self.store.transact(schedule_lines, after=after, limit=limit, shown=slots, lane=Lane.READ)

    async def schedule(self, name: str, *, slots: int = SHOWN) -> ScheduleLine:
        """Return one schedule. Raises NotFound."""
        return await self.store.transact(schedule_line, name, shown=slots, lane=Lane.READ)

    async def pause_schedule(self, name: str, *, by: str = "") -> bool:
        """Start nothing until it is resumed. False: it was paused already. Raises NotFound."""
        return await self.store.transact(schedules.pause, name, by=by)

    async def resume_schedule(self, name: str) -> bool:
        """Go on with the next slot; those of the pause are recorded as skipped. False: it was not paused. Raises NotFound."""
        return await self.store.transact(schedules.resume, name)

    async def run_schedule(self, name: str, *, by: str = "") -> Started:
        """Start a run now, as an extra slot; the next slot comes as ever. Raises NotFound."""
        started = await self.store.transact(schedules.run_now, name, by=by)
        return Started(started.name, started.created)

    async def remove_schedule(self, name: str) -> None:
        """Remove a schedule and what is known of its slots; its runs stay. Raises NotFound.

        One that an app declares is made again by the next worker of that app.
        """
        await self.store.transact(schedules.remove, name)
