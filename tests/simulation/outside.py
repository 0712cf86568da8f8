"""The outside world: what effects do to it, when, and under which key. It outlives every worker and forgets nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.process import pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.machines import Machines
    from tests.simulation.process import Process
    from torpor import EffectContext


class Start(NamedTuple):
    """An effect that was started: when, by which process, in what number of event."""

    at: int
    process: str
    kind: str
    run: str
    tag: str
    key: str
    attempt: int
    place: int


class Outside:
    """A far side that knows keys."""

    def __init__(self, machines: Machines, slow: float) -> None:
        """Begin with nothing done; `slow` is how long an effect takes at most, in seconds."""
        self._machines = machines
        self._slow = slow
        self.strike: Callable[[Process], str] = lambda _process: ""
        """Asked at the start of each effect whether its process dies: `before` it happens, `after` it, or not at all."""
        self.die: Callable[[Process], object] = lambda _process: None
        """Ends a process."""
        self.starts: list[Start] = []
        self.results: dict[str, str] = {}
        """What was done, by key."""
        self.tokens: dict[str, str] = {}
        """The callbacks that somebody is to answer, and what they are about."""
        self.steps = 0
        self.mended: set[str] = set()

    async def act(self, kind: str, ctx: EffectContext, tag: str, n: int = 0) -> str:
        """Do something. A shadow takes as long and does nothing."""
        process = self._machines.present
        assert process is not None
        struck = ""
        before, after = process.rng.random() * self._slow, process.rng.random() * self._slow
        if process.follows is None:
            if kind == "step":
                self.steps += 1
            else:
                at, place = self._machines.schedule.now, self._machines.schedule.events
                self.starts.append(Start(at, process.name, kind, ctx.run_id, tag, ctx.key, ctx.attempt, place))
                struck = self.strike(process)
        if struck == "before":
            await process.create_future()  # it is dead: nobody goes on here
        if process.rng.random() < 0.5:
            await pause(before)
        result = f"{kind}:{tag}:{n}"
        if kind != "step" and process.follows is None and not process.dead:
            self.results.setdefault(ctx.key, result)
        if struck == "after":
            self.die(process)
            await process.create_future()
        if process.rng.random() < 0.3:
            await pause(after)
        return result

    async def found(self, key: str) -> str | None:
        """Return what was done under a key."""
        process = self._machines.present
        assert process is not None
        await pause(process.rng.random() * 0.01)
        return self.results.get(key)
