"""How flow code calls: a call is promised, made through the port, and settled in journal order.

Nothing here imports asyncio beforehand: that is half of what `from torpor import App, Context` would cost, and whoever
calls something has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.core.family import RESERVED
from torpor.errors import UsageError
from torpor.sdk.port import Request
from torpor.sdk.steps import seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from torpor.core.rate import Rate
    from torpor.core.replay import CallKind
    from torpor.sdk.port import Port
    from torpor.sdk.steps import Definition


class Calling:
    """What every part of a `Context` stands on."""

    __slots__ = ("_made", "_port")

    def __init__(self, port: Port) -> None:
        """Speak through a port; made by torpor for each turn."""
        self._port = port
        self._made = 0

    def _value(self, name: str, draw: Callable[[], Any]) -> Any:
        self._refuse_if_closing()
        return self._port.value(name, draw)

    def _promise(self, what: str, name: str) -> int:
        """Remember a call that is not awaited yet; what is never awaited fails the turn instead of being left out."""
        self._made = number = self._made + 1
        self._port.unbegun[number] = what, name
        return number

    async def _call(  # noqa: PLR0913 - everything about a call
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
        rate: Rate | None = None,
        fits: object = None,
    ) -> Any:
        self._port.unbegun.pop(number, None)
        request = self._begin(
            kind,
            name,
            values,
            definition,
            step_id,
            expires_seconds=expires_seconds,
            stubborn=stubborn,
            rate=rate,
            fits=fits,
        )
        return await self._result(request, stubborn=stubborn)

    def _begin(  # noqa: PLR0913 - everything about a call
        self,
        kind: CallKind,
        name: str,
        values: dict[str, Any],
        definition: Definition | None = None,
        step_id: str = "",
        *,
        expires_seconds: float | None = None,
        stubborn: bool = False,
        rate: Rate | None = None,
        fits: object = None,
    ) -> Request:
        """Make a call. Its result is for `_result`."""
        import asyncio

        port = self._port
        loop = port.loop
        if loop.closing:
            self._refuse_if_closing()
        if asyncio._get_running_loop() is not loop:  # noqa: SLF001 - the same without the exception
            message = f"ctx.{kind.name.lower()} was called outside its flow"
            raise UsageError(message, hint="a step or effect cannot use ctx; do it in the flow, before or after")
        if step_id and (any(letter in step_id for letter in "#@~") or not storable(step_id)):
            message = (
                f"step_id={step_id!r}: # @ ~ are used in keys, U+0000 and half of a surrogate pair cannot be stored"
            )
            raise UsageError(message, hint="take a plain text")
        future = loop.future(stubborn=stubborn)
        request = Request(kind, name, values, future, definition, step_id, expires_seconds, rate=rate, fits=fits)
        port.ask(request)
        return request

    async def _result(self, request: Request, *, stubborn: bool = False) -> Any:
        """Wait for the result of a call, and withdraw it if the code stops waiting."""
        try:
            return await request.future
        except BaseException:
            if not stubborn and request.future.cancelled():
                request.withdrawn = True
                self._port.withdraw(request)
            raise

    def _refuse_if_closing(self) -> None:
        if self._port.loop.closing:
            message = "the run is being put away: ctx cannot be used in `finally` while its body is closed"
            raise self._port.loop.refuse(message, hint="do it in a step before; the body runs again when the run wakes")


def storable(text: str) -> bool:
    """Whether both stores can keep a name or key: without U+0000 and halves of surrogate pairs."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


def check_name(name: str, what: str) -> None:
    """Refuse what cannot be a name that others see."""
    given: object = name
    if not isinstance(given, str) or not 0 < len(given) <= 200 or not storable(given):  # noqa: PLR2004 - said below
        message = f"{what} is a text of 1 to 200 letters without U+0000 or half of a surrogate pair, not {name!r}"
        raise UsageError(message, hint="take a name that is plain and short text")
    if name.startswith(RESERVED):
        message = f"{what} is {name!r}: what begins with {RESERVED} is torpor's own"
        raise UsageError(message)


def expiry(expires: float | timedelta | None) -> float | None:
    """Return after how many seconds a wait expires. Raises UsageError for a moment that is over or no duration."""
    seconds = seconds_of(expires, "expires")
    if seconds == 0:
        message = f"expires={expires!r}: it would be over before anybody could answer"
        raise UsageError(message, hint="expires=hours(1), or none")
    return seconds
