"""Scenes: the shortest way to bring a run into each situation, so that an operation meets it there. No choice is left open.

What random histories have not met is met here, so that the end does not depend on luck. A scene begins with a run that is
claimed; while it is held, whatever the operation needs is arranged (a child that will end, an event that is awaited, money
that is short); then the run is put where it is wanted, and the operation comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tests.simulation.differential.coverage import act
from tests.simulation.differential.operations import OPERATIONS, About
from tests.simulation.differential.situations import (
    ASKING,
    CANCELLED,
    COMPLETED,
    COPIED,
    DOOMED,
    ENDED_CANCELLED,
    FAILED,
    GONE,
    JOINING,
    LATER,
    LISTENING,
    NEW,
    OVERDUE,
    QUEUED,
    READY,
    RUNNING,
    SLEEPING,
    TAKEN_OVER,
    UNDOING,
)
from tests.simulation.differential.world import World
from torpor.core.lease import Proof
from torpor.core.run import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.differential.coverage import Coverage
    from tests.simulation.differential.stores import Stores

T = TypeVar("T")
SECOND = 1_000_000
_PARKED = {
    SLEEPING: ("sleep",),
    LISTENING: ("listen",),
    ASKING: ("question",),
    JOINING: ("join",),
    READY: ("give_back",),
    COMPLETED: ("complete",),
    FAILED: ("fail",),
    ENDED_CANCELLED: ("end_cancelled",),
    RUNNING: (),
    NEW: (),
    CANCELLED: ("cancel",),
    UNDOING: ("cancel", "undo"),
    DOOMED: ("give_back", "cancel"),
    OVERDUE: ("wait",),
    COPIED: ("step",),
    TAKEN_OVER: ("wait", "reap", "claim"),
    QUEUED: (),
    LATER: (),
    GONE: (),
}
"""What is done to a run that is held to bring it into a situation."""


class Plain:
    """The first of all choices, the plain one, unless one is among them that is wanted."""

    def __init__(self, *wanted: object) -> None:
        """Want something."""
        self._wanted = wanted

    def one(self, options: Sequence[T]) -> T:
        """Choose."""
        return next(
            (one for one in options for want in self._wanted if type(one) is type(want) and one == want), options[0]
        )

    def maybe(self) -> bool:
        """Say no."""
        return False


class Scene:
    """One scene, on empty stores."""

    def __init__(self, stores: Stores, coverage: Coverage) -> None:
        """Set it."""
        self.world, self.coverage = World(stores), coverage

    def do(self, name: str, target: Any = None, *wanted: object) -> None:
        """Do one operation."""
        act(self.world, self.coverage, name, target, Plain(*wanted))

    def start(self, *wanted: object) -> int:
        """Start a run; return it."""
        self.do("start", None, *wanted)
        return self.world.model.last

    def held(self, *wanted: object) -> int:
        """Start a run and claim it."""
        number = self.start(*wanted)
        self.do("claim", None, 1 if "acme" in wanted else 10)
        return number

    def put(self, number: int, where: str) -> None:
        """Bring a run that is held into a situation."""
        for name in _PARKED[where]:
            wanted: tuple[object, ...] = (45 * SECOND,) if name == "wait" else (State.WAITING, self.world.now + SECOND)
            about = OPERATIONS[name].about
            target: Any = number if about is About.RUN else (number, 0) if about is About.LEASE else None
            self.do(name, target, *wanted)

    def meet(self, name: str, where: str) -> None:
        """Let an operation meet a run that stands somewhere."""
        about = OPERATIONS[name].about
        gone = where == GONE and about is About.LEASE
        number = _pruned(self) if gone else _ARRANGED.get(name, _nothing)(self, where)
        if about is About.LEASE:
            age = 1 if where in {COPIED, TAKEN_OVER} else 0
            self.do(name, (number, age))
        elif about is About.RUN:
            self.do(name, number)
        else:
            self.do(name, None, *_WANTED.get(name, ()))

    def succeed(self, name: str) -> None:
        """Let an operation succeed that needs more than a run that is held."""
        for other, target, *wanted in _PLOTS.get(name, ()):
            self.do(other, target, *wanted)
        if name not in _PLOTS:
            self.meet(name, RUNNING)

    def refuse(self, name: str) -> None:
        """Let an operation be refused, or find nothing to do: on stores where nothing is, with what there is not."""
        if name == "publish":
            self.do(name, None, "e1")
        about = OPERATIONS[name].about
        target: Any = self.world.numbers()[-1] if about is About.RUN else None
        if about is About.LEASE:
            target = (self.held(), 1)
            self.do("step", (target[0], 0))
        self.do(name, target, "none", "program:none", "e1")


_HELD: tuple[tuple[Any, ...], ...] = (("start", None), ("claim", None, 10))
_PLOTS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "settle_late": (*_HELD, ("intent", (1, 0)), ("trouble", (1, 0)), ("settle_late", 1)),
    "decide": (*_HELD, ("question", (1, 0)), ("decide", 1)),
    "retry": (*_HELD, ("fail", (1, 0)), ("retry", 1)),
    "callback": (*_HELD, ("hook", (1, 0)), ("callback", 1)),
    "schedule": (("schedule", None),),
    "tend": (("schedule", None), ("tend", None)),
    "fire_slots": (("schedule", None), ("wait", None, 11 * SECOND), ("fire_slots", None)),
    "tidy": (("publish", None), ("wait_long", None), ("tidy", None)),
    **{name: ((name, None),) for name in ("start", "limit", "wait", "wait_long", "publish")},
}
"""What comes before an operation that succeeds then; run 1 is the one that was started."""
_WANTED: dict[str, tuple[object, ...]] = {"reap": (Proof.PROCESS_GONE,), "publish": (1,)}


def _begun(scene: Scene, where: str) -> int | None:
    """Start a run that was never claimed, or one that is not there."""
    if where in {GONE, NEW, LATER, QUEUED}:
        if where == QUEUED:
            scene.start("till")
        wanted = {LATER: (scene.world.now + 10 * SECOND,), QUEUED: ("till",)}.get(where, ())
        number = scene.start(*wanted)
        return number if where != GONE else scene.world.numbers()[-1]
    return None


def _nothing(scene: Scene, where: str, *wanted: object) -> int:
    number = _begun(scene, where)
    if number is None:
        number = scene.held(*wanted)
        if where == JOINING:
            scene.do("spawn", (number, 0))
            scene.do("deliver")
        scene.put(number, where)
    return number


def _pruned(scene: Scene) -> int:
    """A run that somebody held and that is gone."""
    number = scene.held()
    for name in ("complete", "wait_long", "prune"):
        scene.do(name, (number, 0) if name == "complete" else None)
    return number


def _due(scene: Scene, where: str) -> int:
    """A run that waits for a moment, which has come."""
    number = _nothing(scene, where)
    scene.do("wait", None, 11 * SECOND)
    return number


def _late(scene: Scene, where: str) -> int:
    """A run with a deadline, which has passed."""
    moment = (scene.world.now + (10 * SECOND if where == LATER else 0)) + 20 * SECOND
    if where in {NEW, LATER, QUEUED}:
        if where == QUEUED:
            scene.start("till")
        number = scene.start(moment, *{LATER: (scene.world.now + 10 * SECOND,), QUEUED: ("till",)}.get(where, ()))
    else:
        number = _nothing(scene, where, moment)
    scene.do("wait", None, 11 * SECOND if where == RUNNING else 45 * SECOND)
    if where == RUNNING:
        scene.do("renew", (number, 0))
        scene.do("wait", None, 11 * SECOND)
    return number


def _message(scene: Scene, where: str) -> int:
    """A run to which a message is on its way."""
    number = _nothing(scene, where)
    sender = scene.held("acme")
    scene.do("send", (sender, 0), number)
    return number


def _money(scene: Scene, where: str) -> int:
    """A run that was short of money, which came back."""
    number = scene.held(10)
    scene.do("reserve", (number, 0), 4)
    scene.do("reserve", (number, 0), 9)
    scene.do("withdraw", (number, 0))
    scene.do("settle", (number, 0))
    return _parked(scene, number, where)


def _event(scene: Scene, where: str) -> int:
    """A run that waits for an event, beside what else it does."""
    number = scene.held()
    scene.do("expect", (number, 0), State.RUNNING)
    return _parked(scene, number, where)


def _going(scene: Scene, where: str) -> int:
    """The same, behind another run that the event reaches first."""
    first = scene.held("acme")
    scene.do("expect", (first, 0), State.RUNNING)
    number = _event(scene, where)
    scene.do("publish", None, 1)
    return number


def _parked(scene: Scene, number: int, where: str) -> int:
    if where == JOINING:
        scene.do("spawn", (number, 0))
        scene.do("deliver")
    scene.put(number, where)
    return number


def _parent(scene: Scene, where: str) -> int:
    """A parent of whose child's end it has not been told; or the child of a parent that ended."""
    number = scene.held()
    scene.do("spawn", (number, 0))
    scene.do("deliver")
    child = scene.world.model.last
    if where == NEW:
        scene.do("complete", (number, 0))
        return child
    scene.do("claim", None, 10)
    scene.do("complete", (child, 0))
    scene.put(number, where)
    return number


def _place(scene: Scene, where: str) -> int:
    """A run that waits for a place, which is free now."""
    del where
    holder = scene.held("till")
    number = scene.start("till")
    scene.do("complete", (holder, 0))
    scene.do("follow")
    return number


def _old(scene: Scene, where: str) -> int:
    """A run that ended long ago."""
    number = _nothing(scene, where)
    scene.do("wait_long")
    return number


_ARRANGED = {
    "fire_timers": _due,
    "cancel_late": _late,
    "deliver": _message,
    "wake_short": _money,
    "admit": _place,
    "publish": _event,
    "fan_out": _going,
    "follow": _parent,
    "prune": _old,
}
