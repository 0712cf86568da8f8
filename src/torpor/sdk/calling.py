"""How flow code calls: a call is promised, made through the port, and settled in journal order.

Nothing here imports asyncio beforehand: that is half of what `from torpor import App, Context` would cost, and whoever
calls something has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from torpor.core.names import storable
from torpor.errors import UsageError
from torpor.sdk.port import Request
from torpor.sdk.steps import seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Unpack

    from torpor.core.rate import Rate
    from torpor.core.replay import CallKind
    from torpor.sdk.port import Port
    from torpor.sdk.steps import Definition


class Wish(TypedDict, total=False):
    """What only some calls ask for (`port.Request`)."""

    expires_seconds: float | None
    rate: Rate | None
    fits: object
    lets_go: bool
    ahead: bool


class Calling:
    """What every part of a `Context` stands on."""

    __slots__ = ("_made", "_port")

    def __init__(self, port: Port) -> None:
        """Speak through a port; made by torpor for each turn."""
        self._port = port
        self._made = 0

    @property
    def port(self) -> Port:
        """What this speaks through: torpor's own."""
        return self._port

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
        stubborn: bool = False,
        **wish: Unpack[Wish],
    ) -> Any:
        self._port.unbegun.pop(number, None)
        request = self._begin(kind, name, values, definition, step_id, stubborn=stubborn, **wish)
        return await self._result(request, stubborn=stubborn)

    def _begin(
        self,
        kind: CallKind,
        name: str,
        values: dict[str, Any],
        definition: Definition | None = None,
        step_id: str = "",
        *,
        stubborn: bool = False,
        **wish: Unpack[Wish],
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
        request = Request(kind, name, values, future, definition, step_id, **wish)
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


def expiry(expires: float | timedelta | None) -> float | None:
    """Return after how many seconds a wait expires. Raises UsageError for a moment that is over or no duration."""
    seconds = seconds_of(expires, "expires")
    if seconds == 0:
        message = f"expires={expires!r}: it would be over before anybody could answer"
        raise UsageError(message, hint="expires=hours(1), or none")
    return seconds
