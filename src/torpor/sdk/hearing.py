"""What a flow hears from outside, and says to others: messages, callbacks, events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from torpor.clock import as_datetime
from torpor.core.names import check_name
from torpor.core.replay import CallKind
from torpor.errors import Conflict, StepFailed, UsageError
from torpor.sdk.calling import Calling, expiry

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Mapping
    from datetime import datetime, timedelta

    from torpor.sdk.port import Request

_EXPIRED = "Expired"
_MOST_LETTERS = 8 * 1024


@dataclass(frozen=True, slots=True)
class Message:
    """A signal with everything about it: its value, who sent it, when the store took it. `ctx.reply` answers it."""

    name: str
    value: Any
    sender: str | None
    at: datetime
    reply_to: str = ""
    """Where an answer goes; empty if nobody waits for one."""


class Callback:
    """Something outside is waited for. `token` is secret and good for one answer; await the callback to get that."""

    __slots__ = ("_calling", "_number", "_request", "_token")

    def __init__(self, calling: Hearing, number: int, request: Request, token: str) -> None:
        """Made by `ctx.callback`."""
        self._calling = calling
        self._number = number
        self._request = request
        self._token = token

    @property
    def token(self) -> str:
        """The secret with which `client.deliver` or `torpor answer` answers it. Stored nowhere, the same in every replay."""
        return self._token

    def __await__(self) -> Generator[Any, Any, Any]:
        """Return the answer. Raises TimeoutError if it expired."""
        return self._calling.answered(self._number, self._request).__await__()

    def __repr__(self) -> str:
        """Keep the token out of logs."""
        return f"<callback {self._request.values['title']!r}>"


class Hearing(Calling):
    """Messages, callbacks, events."""

    __slots__ = ()

    # messages

    @overload
    def receive(self, name: str, *, whole: Literal[False] = False) -> Coroutine[Any, Any, Any]: ...
    @overload
    def receive(self, name: str, *, whole: Literal[True]) -> Coroutine[Any, Any, Message]: ...
    def receive(self, name: str, *, whole: bool = False) -> Coroutine[Any, Any, Any]:
        """Return the value of the next signal of this name, in the order they came; sleep until there is one (G7).

        With `whole` it is a `Message`: the value, its sender, its moment, and where an answer goes.
        """
        check_name(name, "a signal's name")
        number = self._promise("receive", name)
        return self._receive(number, name) if whole else self._call(number, CallKind.MESSAGE, name, {})

    def heard(self, name: str) -> bool:
        """Whether a signal of this name lies unread now, so that `receive` would not sleep. Recorded, so a replay agrees."""
        check_name(name, "a signal's name")
        self._refuse_if_closing()
        return self._port.heard(name)

    async def _receive(self, number: int, name: str) -> Message:
        heard = await self._call(number, CallKind.MESSAGE, name, {"whole": True})
        return Message(**{**heard, "at": as_datetime(heard["at"])})

    def send(self, run_id: str, name: str, value: Any = None) -> Coroutine[Any, Any, None]:
        """Send a signal to another run. It leaves with this run's commit and arrives exactly once, in order per sender."""
        check_name(name, "a signal's name")
        return self._call(self._promise("send", name), CallKind.SEND, name, {"to": run_id, "value": value})

    def reply(self, message: Message, value: Any = None) -> Coroutine[Any, Any, None]:
        """Answer a message that somebody waits with; the first answer counts. Nothing happens if nobody waits."""
        given: object = message
        if not isinstance(given, Message):
            raise UsageError(f"ctx.reply answers a Message, not {message!r}", hint="ctx.receive(name, whole=True)")
        values = {"to": message.reply_to, "value": value}
        return self._call(self._promise("reply", message.name), CallKind.REPLY, message.name, values)

    def request(self, run_id: str, name: str, value: Any = None) -> Coroutine[Any, Any, Any]:
        """Send a signal to another run and return what it replies; sleep until it does.

        It leaves with this run's commit, once. Raises Conflict if that run has ended or there is none; use asyncio.timeout
        to give up sooner.
        """
        check_name(name, "a signal's name")
        return self._asked(self._promise("request", name), name, {"to": run_id, "value": value})

    async def _asked(self, number: int, name: str, values: dict[str, Any]) -> Any:
        said = await self._call(number, CallKind.REQUEST, name, values)
        if "refused" in said:
            raise Conflict(f"{values['to']} does not answer {name}: {said['refused']}")
        return said["value"]

    # callbacks

    def callback(self, title: str, *, expires: float | timedelta | None = None) -> Callback:
        """Begin to wait for an answer from outside. Hand `token` to whoever will give it, then await the callback.

        The wait is durable before the next effect starts; an answer that is faster is kept. Only the first one counts.
        """
        words = str(title)
        if not words.strip():
            raise UsageError("a callback's title is empty", hint="say what is waited for in one line")
        number = self._promise("callback", words)
        values = {"title": words}
        request = self._begin(CallKind.CALLBACK, "callback", values, expires_seconds=expiry(expires))
        return Callback(self, number, request, self._port.token(request))

    async def answered(self, number: int, request: Request) -> Any:
        """Wait for a callback that was begun."""
        self._port.unbegun.pop(number, None)
        try:
            return await self._result(request)
        except StepFailed as failed:
            raise _in_time(failed) from None

    # events

    def event(
        self, name: str, *, where: Mapping[str, Any] | None = None, expires: float | timedelta | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Return the value of an event that was published under this name and has these top-level fields.

        One event satisfies one wait of a run, in the order they were published; one that was published before is kept for
        a day. Raises TimeoutError if none came in time.
        """
        check_name(name, "an event's name")
        fields = dict(where or {})
        for field in fields:
            check_name(field, "a field in where=")
        if len(repr(fields)) > _MOST_LETTERS:
            raise UsageError(f"where= of event {name} is larger than {_MOST_LETTERS} letters", hint="compare an id")
        shown = " ".join([name, *(f"{field}={value}" for field, value in fields.items())])
        return self._event(self._promise("event", name), name, {"title": shown, "where": fields}, expiry(expires))

    async def _event(self, number: int, name: str, values: dict[str, Any], expires_seconds: float | None) -> Any:
        try:
            return await self._call(number, CallKind.EVENT, name, values, expires_seconds=expires_seconds)
        except StepFailed as failed:
            raise _in_time(failed) from None


def _in_time(failed: StepFailed) -> Exception:
    """Return the error a flow sees: TimeoutError if nothing came in time."""
    return TimeoutError(failed.detail) if failed.kind == _EXPIRED else failed
