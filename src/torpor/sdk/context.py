"""What a flow's code calls. Everything it asks for is recorded once and answered from the record ever after."""

from __future__ import annotations

import asyncio
import os
import random as machine_random
import uuid as machine_uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from torpor.clock import as_datetime, as_micros
from torpor.core.replay import CallKind
from torpor.errors import UsageError
from torpor.sdk.port import Request
from torpor.sdk.steps import definition_of, seconds_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from torpor.core.effect import Safety
    from torpor.sdk.port import Port
    from torpor.sdk.steps import Definition

T = TypeVar("T")


class Again(Generic[T]):
    """What a flow returns to end its turn: torpor checkpoints `state` and calls the flow again with it."""

    __slots__ = ("state",)

    def __init__(self, state: T) -> None:
        """Carry the state of the next turn."""
        self.state = state


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's decision, or that none came in time. True in a condition exactly if it was approved."""

    approved: bool
    by: str = ""
    note: str = ""
    at: datetime | None = None
    expired: bool = False

    def __bool__(self) -> bool:
        """Whether it was approved. Anything else, expiry included, is not consent (G10)."""
        return self.approved


class Log:
    """The author's log lines: written once, not again while a turn is replayed."""

    __slots__ = ("_port",)

    def __init__(self, port: Port) -> None:
        """Write through the port."""
        self._port = port

    def __call__(self, event: str, **fields: object) -> None:
        """Write an info line."""
        self._port.log("info", event, fields)

    def debug(self, event: str, **fields: object) -> None:
        """Write a debug line."""
        self._port.log("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Write an info line."""
        self._port.log("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Write a warning line."""
        self._port.log("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Write an error line."""
        self._port.log("error", event, fields)


class Context:
    """The first argument of every flow."""

    __slots__ = ("_made", "_port", "log")

    def __init__(self, port: Port) -> None:
        """Speak through a port; made by torpor for each turn."""
        self._port = port
        self._made = 0
        self.log = Log(port)

    @property
    def run_id(self) -> str:
        """The run's public id."""
        return self._port.run_id

    @property
    def turn(self) -> int:
        """The number of this turn, from 1."""
        return self._port.turn

    # what runs outside

    @overload
    def step(
        self, function: Callable[..., Awaitable[T]], /, *args: Any, step_id: str = "", **more: Any
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self, function: Callable[..., T], /, *args: Any, step_id: str = "", **more: Any
    ) -> Coroutine[Any, Any, T]: ...
    def step(
        self, function: Callable[..., Any], /, *args: Any, step_id: str = "", **more: Any
    ) -> Coroutine[Any, Any, Any]:
        """Run a function that may be run again, and keep what it returns.

        It runs outside the flow: on the worker's loop if it is `async def`, else in a thread. Its arguments and result
        must be storable (`UnstorableValue` names the path). Raises StepFailed once its retries are used up.
        """
        definition = definition_of(function, effect=False, safety=None)
        number = self._promise("step", definition.name)
        return self._call(number, CallKind.STEP, definition.name, _arguments(args, more), definition, step_id)

    @overload
    def effect(
        self,
        function: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        step_id: str = "",
        safety: Safety | str | None = None,
        **more: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def effect(
        self,
        function: Callable[..., T],
        /,
        *args: Any,
        step_id: str = "",
        safety: Safety | str | None = None,
        **more: Any,
    ) -> Coroutine[Any, Any, T]: ...
    def effect(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        step_id: str = "",
        safety: Safety | str | None = None,
        **more: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Run a function that changes the world, as its safety allows, and keep what it returns.

        Its intent is durable before it starts (G4). `safety` is for a function that is not yours; your own says it where
        it is defined, with `@app.effect`. Raises StepFailed; a `once` effect whose outcome is not known waits for a person.
        """
        definition = definition_of(function, effect=True, safety=safety)
        number = self._promise("effect", definition.name)
        values = _arguments(args, more)
        return self._call(number, CallKind.EFFECT, definition.name, values, definition, step_id, stubborn=True)

    # waits

    def sleep(self, duration: float | timedelta) -> Coroutine[Any, Any, None]:
        """Sleep for seconds or a timedelta. No process is needed meanwhile."""
        return self._sleep(self._promise("sleep", str(duration)), seconds_of(duration, "ctx.sleep") or 0.0)

    def until(self, moment: datetime) -> Coroutine[Any, Any, None]:
        """Sleep until a moment, which needs a time zone. One that has passed returns at once."""
        try:
            due_at = as_micros(moment)
        except (ValueError, AttributeError, TypeError) as error:
            message = f"ctx.until takes a datetime with a time zone, not {moment!r}"
            raise UsageError(message, hint="datetime(..., tzinfo=ZoneInfo('Europe/Berlin'))") from error
        seconds = max(0.0, due_at / 1e6 - asyncio.get_running_loop().time())
        return self._sleep(self._promise("until", str(moment)), seconds)

    async def _sleep(self, number: int, seconds: float) -> None:
        self._port.unbegun.pop(number, None)
        await asyncio.sleep(seconds)

    def approval(
        self, title: str, *, show: Any = None, expires: float | timedelta | None = None
    ) -> Coroutine[Any, Any, Approval]:
        """Ask a person to approve what is shown, and sleep until one decides or it expires.

        The decision is bound to exactly `title` and `show`, used once, and the first one wins (G10).
        """
        values = {"title": str(title), "show": show}
        return self._approval(self._promise("approval", str(title)), values, seconds_of(expires, "expires"))

    async def _approval(self, number: int, values: dict[str, Any], expires_seconds: float | None) -> Approval:
        decision = await self._call(number, CallKind.APPROVAL, "approval", values, expires_seconds=expires_seconds)
        return Approval(**decision)

    def receive(self, name: str) -> Coroutine[Any, Any, Any]:
        """Return the value of the next signal of this name, in the order they came; sleep until there is one (G7)."""
        _check_name(name, "a signal's name")
        return self._call(self._promise("receive", name), CallKind.MESSAGE, name, {})

    def send(self, run_id: str, name: str, value: Any = None) -> Coroutine[Any, Any, None]:
        """Send a signal to another run. It leaves with this run's commit and arrives exactly once, in order per sender."""
        _check_name(name, "a signal's name")
        return self._call(self._promise("send", name), CallKind.SEND, name, {"to": run_id, "value": value})

    # values, recorded with the next commit

    def now(self) -> datetime:
        """Return the store's time, UTC."""
        return as_datetime(self._value("now", self._port.now))

    def random(self) -> float:
        """Return a random float in [0, 1), from the operating system's entropy."""
        return float(self._value("random", machine_random.SystemRandom().random))

    def uuid(self) -> machine_uuid.UUID:
        """Return a random UUID, from the operating system's entropy."""
        return machine_uuid.UUID(self._value("uuid", lambda: str(machine_uuid.UUID(bytes=os.urandom(16), version=4))))

    def secret(self, name: str) -> str:
        """Return a secret by name, resolved now; torpor stores it nowhere (G15). Raises NotFound."""
        self._refuse_if_closing()
        return self._port.secret(name)

    def again(self, state: T) -> Again[T]:
        """End the turn: return this from the flow."""
        return Again(state)

    # inside

    def _value(self, name: str, draw: Callable[[], Any]) -> Any:
        self._refuse_if_closing()
        return self._port.value(name, draw)

    def _promise(self, what: str, name: str) -> int:
        """Remember a call that is not awaited yet; what is never awaited fails the turn instead of being left out."""
        self._made = number = self._made + 1
        self._port.unbegun[number] = what, name
        return number

    async def _call(
        self,
        number: int,
        kind: CallKind,
        name: str,
        values: dict[str, Any],
        definition: Definition | None = None,
        step_id: str = "",
        *,
        expires_seconds: float | None = None,
        stubborn: bool = False,
    ) -> Any:
        port = self._port
        loop = port.loop
        port.unbegun.pop(number, None)
        if loop.closing:
            self._refuse_if_closing()
        if asyncio._get_running_loop() is not loop:  # noqa: SLF001 - the same without the exception
            message = f"ctx.{kind.name.lower()} was called outside its flow"
            raise UsageError(message, hint="a step or effect cannot use ctx; do it in the flow, before or after")
        if step_id and any(letter in step_id for letter in "#@~\0"):
            message = f"step_id={step_id!r}: # @ ~ are used in keys"
            raise UsageError(message)
        future = loop.future(stubborn=stubborn)
        request = Request(kind, name, values, future, definition, step_id, expires_seconds)
        port.ask(request)
        try:
            return await future
        except asyncio.CancelledError:
            if not stubborn and future.cancelled():
                request.withdrawn = True
                port.withdraw(request)
            raise

    def _refuse_if_closing(self) -> None:
        if self._port.loop.closing:
            message = "the run is being put away: ctx cannot be used in `finally` while its body is closed"
            raise self._port.loop.refuse(message, hint="do it in a step before; the body runs again when the run wakes")


def _arguments(args: tuple[Any, ...], more: dict[str, Any]) -> dict[str, Any]:
    return {"args": [*args], "more": more} if more else {"args": [*args]}


def _check_name(name: str, what: str) -> None:
    given: object = name
    if not isinstance(given, str) or not 0 < len(given) <= 200 or "\0" in given:  # noqa: PLR2004 - said in the message
        message = f"{what} is a text of 1 to 200 letters without U+0000, not {name!r}"
        raise UsageError(message)


def seconds(n: float) -> timedelta:
    """Return n seconds."""
    return timedelta(seconds=n)


def minutes(n: float) -> timedelta:
    """Return n minutes."""
    return timedelta(minutes=n)


def hours(n: float) -> timedelta:
    """Return n hours."""
    return timedelta(hours=n)


def days(n: float) -> timedelta:
    """Return n days."""
    return timedelta(days=n)
