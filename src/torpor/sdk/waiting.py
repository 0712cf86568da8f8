"""What a flow waits for: time, people and messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torpor.clock import as_micros
from torpor.core.replay import CallKind
from torpor.errors import UsageError
from torpor.sdk.calling import Calling, check_name
from torpor.sdk.steps import seconds_of

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime, timedelta


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


class Waiting(Calling):
    """Time, people, messages."""

    __slots__ = ()

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
        import asyncio

        seconds = max(0.0, due_at / 1e6 - asyncio.get_running_loop().time())
        return self._sleep(self._promise("until", str(moment)), seconds)

    async def _sleep(self, number: int, seconds: float) -> None:
        import asyncio

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
        check_name(name, "a signal's name")
        return self._call(self._promise("receive", name), CallKind.MESSAGE, name, {})

    def send(self, run_id: str, name: str, value: Any = None) -> Coroutine[Any, Any, None]:
        """Send a signal to another run. It leaves with this run's commit and arrives exactly once, in order per sender."""
        check_name(name, "a signal's name")
        return self._call(self._promise("send", name), CallKind.SEND, name, {"to": run_id, "value": value})
