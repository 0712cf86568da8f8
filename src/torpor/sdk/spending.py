"""What a flow shares with others: money of a budget, places in a rate bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from torpor.clock import micros
from torpor.core.budget import Lost
from torpor.core.money import decimal_of, micros_of
from torpor.core.names import check_name
from torpor.core.rate import Rate
from torpor.core.replay import CallKind
from torpor.errors import UsageError
from torpor.sdk.calling import Calling
from torpor.sdk.steps import seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from datetime import timedelta
    from decimal import Decimal

_MOST_UNITS = 1_000_000


class Held:
    """A reservation. Settle it once; what is never settled ends with the turn, as `lost` said.

    As a block (`async with`) it ends with the block: settled, or as `lost` said.
    """

    __slots__ = ("_allowance", "_hold", "_lost", "_micros", "_settled")

    def __init__(self, allowance: Allowance, hold: str, amount: int, lost: Lost) -> None:
        """Made by `reserve`."""
        self._allowance = allowance
        self._hold = hold
        self._micros = amount
        self._lost = lost
        self._settled = False

    @property
    def amount(self) -> Decimal:
        """How much is reserved, in dollars."""
        return decimal_of(self._micros)

    def settle(self, cost: Decimal | str | int) -> Coroutine[Any, Any, None]:
        """Say what it really cost; the rest is free again. More than was reserved is spent all the same.

        Raises UsageError for a second time, and for an amount that is negative or no decimal.
        """
        amount = micros_of(cost, "settle")
        if self._settled:
            raise UsageError("this reservation was settled before", hint="reserve again for what comes next")
        self._settled = True
        return self._allowance.settle(self._hold, amount)

    async def end(self) -> None:
        """End it as `lost` says, unless it was settled."""
        if not self._settled and not self._allowance.closing:
            await self.settle(self.amount if self._lost is Lost.SPENT else 0)


class Reserving:
    """A reservation that is asked for: to be awaited, or entered with `async with`."""

    __slots__ = ("_ask", "_held")

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, Held]]) -> None:
        """Ask for nothing before it is awaited."""
        self._ask = ask
        self._held: Held | None = None

    def __await__(self) -> Generator[Any, Any, Held]:
        """Wait until it is reserved."""
        return self._ask().__await__()

    async def __aenter__(self) -> Held:
        """Wait until it is reserved."""
        self._held = await self._ask()
        return self._held

    async def __aexit__(self, *_: object) -> None:
        """End what was not settled."""
        if self._held is not None:
            await self._held.end()


class Allowance:
    """The budget that a run spends from: its own, or the nearest ancestor's; its program's and its tenant's as well."""

    __slots__ = ("_closing", "_spend")

    def __init__(
        self, spend: Callable[[str, dict[str, Any]], Coroutine[Any, Any, Any]], closing: Callable[[], bool]
    ) -> None:
        """Made by `ctx.budget`."""
        self._spend = spend
        self._closing = closing

    @property
    def closing(self) -> bool:
        """Whether the body is being put away: nothing ends then."""
        return self._closing()

    def reserve(self, amount: Decimal | str | int, *, lost: Literal["spent", "free"] = "spent") -> Reserving:
        """Reserve dollars before something costs them, in every budget above this run at once, or wait for a person.

        What does not fit is never reserved: the run asks in `torpor inbox` for more, and sleeps. Raises BudgetExceeded if
        a person says no. `lost` says what becomes of it if it is never settled: it counts as spent, or is free again.
        Raises UsageError for an amount that is negative or no decimal.
        """
        wanted = micros_of(amount, "reserve")
        if lost not in {"spent", "free"}:
            raise UsageError(f'lost={lost!r}: it is "spent" or "free"')
        return Reserving(lambda: self._reserve(wanted, Lost.SPENT if lost == "spent" else Lost.FREE))

    async def _reserve(self, amount: int, lost: Lost) -> Held:
        found = await self._spend("reserve", {"micros": amount, "lost": lost.name.lower()})
        return Held(self, str(found["hold"]), amount, lost)

    def settle(self, hold: str, amount: int) -> Coroutine[Any, Any, None]:
        """Settle a reservation; use `Held.settle`."""
        return self._spend("settle", {"hold": hold, "micros": amount})

    async def limit(self, amount: Decimal | str | int) -> None:
        """Give this run a budget of its own, in dollars, unless it has one with a limit already.

        One that does not fit below that of the run's parent is left out: the parent's holds. Raises UsageError for an amount
        that is negative or no decimal.
        """
        await self._spend("limit", {"micros": micros_of(amount, "limit")})

    async def left(self) -> Decimal | None:
        """Return how many dollars may still be reserved, now; None if no budget above this run has a limit."""
        found = await self._spend("left", {})
        return None if found is None else decimal_of(int(found))


class Spending(Calling):
    """Budgets and rates."""

    __slots__ = ()

    @property
    def budget(self) -> Allowance:
        """The budget that this run spends from."""
        return Allowance(self._spend, lambda: self._port.loop.closing)

    def _spend(self, what: str, values: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        return self._call(self._promise(f"budget.{what}", ""), CallKind.BUDGET, what, values)

    def rate(
        self, name: str, n: int = 1, *, limit: int, per: float | timedelta, burst: int = 1
    ) -> Coroutine[Any, Any, None]:
        """Take `n` units of a rate bucket that all runs and workers share; sleep until it is this run's turn.

        At most `limit` units are taken in `per` seconds or timedelta, in the order in which they were asked for. `burst`
        units may come at once, which adds `burst - 1` to what one such time can see; so does an `n` above the burst. The
        limit stands in the code: a changed one holds from its first use on. Raises UsageError for what is no limit.
        """
        check_name(name, "a rate's name")
        asked: dict[str, object] = {"n": n, "limit": limit, "burst": burst}
        for word, number in asked.items():
            if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= _MOST_UNITS:
                raise UsageError(f"{word} of rate {name} is {number!r}: a whole number from 1 to {_MOST_UNITS:,}")
        if n > limit or burst > limit:
            raise UsageError(f"rate {name} is limited to {limit}: n={n} or burst={burst} never fits")
        seconds = seconds_of(per, f"per of rate {name}")
        if not seconds:
            raise UsageError(f"per of rate {name} is {per!r}: it takes more than nothing", hint="per=minutes(1)")
        number = self._promise("rate", name)
        return self._taken(number, name, n, Rate(limit, micros(seconds), burst))

    async def _taken(self, number: int, name: str, n: int, rate: Rate) -> None:
        await self._call(number, CallKind.RATE, name, {"n": n}, rate=rate)

    def rate_retry_after(self, name: str, duration: float | timedelta) -> Coroutine[Any, Any, None]:
        """Let nobody take from a rate bucket for seconds or a timedelta: a provider said so (Retry-After)."""
        check_name(name, "a rate's name")
        seconds = seconds_of(duration, "ctx.rate_retry_after") or 0.0
        values = {"pause": micros(seconds)}
        return self._call(self._promise("rate_retry_after", name), CallKind.RATE, name, values)
