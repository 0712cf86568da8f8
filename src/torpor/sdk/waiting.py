"""What a flow waits for when it waits for time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torpor.clock import as_micros
from torpor.errors import UsageError
from torpor.sdk.calling import Calling
from torpor.sdk.steps import seconds_of

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime, timedelta


class Waiting(Calling):
    """Time."""

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
