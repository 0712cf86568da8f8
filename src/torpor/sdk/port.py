"""The port: what a `Context` asks of whoever drives it. The worker's executor is one; a test may be another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from torpor.core.rate import Rate
    from torpor.core.replay import CallKind
    from torpor.sdk.loop import FlowLoop, Timer
    from torpor.sdk.steps import Definition


class Guest(Protocol):
    """A guest, to the driver."""

    @property
    def busy(self) -> bool:
        """Whether it does something of its own, other than waiting for calls."""


class Kept(Protocol):
    """What guests keep from turn to turn."""

    def end(self) -> asyncio.Future[Any] | None:
        """Let it go: the run is put away, or lost. What is returned is waited for before the worker ends."""


@dataclass(slots=True, eq=False)
class Request:
    """One call of flow code. `future` belongs to the flow's loop and is settled by the driver.

    `values` are what the call is about and what identifies it: a step's arguments, an approval's title and content, a
    message's target and value. `withdrawn` is set when the code stopped waiting for it.
    """

    kind: CallKind
    name: str
    values: dict[str, Any]
    future: asyncio.Future[Any]
    definition: Definition | None = None
    step_id: str = ""
    expires_seconds: float | None = None
    timer: Timer | None = None
    rate: Rate | None = None
    withdrawn: bool = False
    fits: object = None
    """What a person's answer or edit must fit: a type, or a JSON schema."""
    lets_go: bool = False
    """Whether an interrupt ends the wait for an effect that acts, instead of being kept until it has an outcome."""
    ahead: bool = False
    """Whether a guest may be given its outcome before that is durable (`worker.ahead`)."""
    key: str = field(default="", init=False)


class Port(Protocol):
    """What a turn's code can reach."""

    run_id: str
    turn: int
    replaying: bool
    loop: FlowLoop
    unbegun: dict[int, tuple[str, str]]
    """Calls that were made and not awaited so far: what and of which name."""

    @property
    def kept(self) -> dict[str, Kept]:
        """What guests keep while this worker goes on with the run."""

    def ask(self, request: Request) -> None:
        """Take a call. Its future is settled later, in journal order."""

    def withdraw(self, request: Request) -> None:
        """Say that the code no longer waits for this call."""

    def has(self, kind: CallKind, name: str, step_id: str) -> bool:
        """Say whether an earlier stretch recorded the answer to a call that has a `step_id`."""

    def value(self, name: str, draw: Callable[[], Any]) -> Any:
        """Return the recorded value of this call, or draw one, to be recorded with the next commit."""

    def heard(self, name: str) -> bool:
        """Say whether a signal of this name lies unread, as it was said the first time."""

    def emit(self, part: object, step_id: str = "") -> None:
        """Put a part into the run's stream, once: not again while replaying. It is known by its order, or by a name."""

    def struck(self, text: str) -> str:
        """Return a text without any secret that was resolved."""

    def show(self, value: object) -> None:
        """Overwrite what people see of the run now."""

    def token(self, request: Request) -> str:
        """Return the secret token of a callback that was asked for."""

    def now(self) -> int:
        """Return the store's time as this worker knows it, in microseconds."""

    def fetch(self, field: str, first: int, most: int) -> asyncio.Future[list[Any]]:
        """Read elements of a `Rows` field. Settled before anything else is, so that its place in the order is fixed."""

    def outside(self, guest: Guest, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Run a coroutine on the worker's loop as a guest of this turn (`sdk.guest`)."""

    def enter(self, call: Callable[[], object]) -> None:
        """Call something on the flow's loop, asked from the worker's; nothing happens once the turn is over."""

    def secret(self, name: str) -> str:
        """Resolve a secret by name. Raises NotFound."""

    def log(self, level: str, event: str, fields: dict[str, Any]) -> None:
        """Write a line of the author's log, once: not while replaying."""
