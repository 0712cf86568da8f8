"""Steps and effects: what is known about a function that runs outside the flow, and the context an effect gets."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from torpor.core.effect import Safety
from torpor.core.retry import RetryPolicy
from torpor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from contextvars import Context
    from datetime import datetime

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")
_MARK = "__torpor_definition__"


class Voice(Protocol):
    """What an attempt emits with; the driver's."""

    def emit(self, part: object) -> None:
        """Put a part into the run's stream."""

    def struck(self, text: str) -> str:
        """Return a text without any secret that was resolved."""

    def ended(self, *, cancelled: bool) -> None:
        """Take note that the attempt is over."""


class LentThreads(Protocol):
    """Threads of the worker for one call (`concurrent.futures.Executor`)."""

    def submit(self, function: Callable[..., T], /, *args: Any, **more: Any) -> Future[T]:
        """Call a function in one."""

    def give_up(self) -> list[Future[Any]]:
        """Wait for none of them any more; return what still runs."""


@dataclass(frozen=True, slots=True)
class EffectContext:
    """What an effect is told about itself; a parameter named `ctx` of an effect or step receives it.

    `key` is equal in every attempt of this one logical call, in every worker (G5). `attempt` counts from 1 those whose end is
    on record: one whose worker died has none, and the next has its number. `deadline` is when its timeout ends, UTC, or None.
    """

    key: str
    attempt: int
    deadline: datetime | None
    run_id: str
    _secret: Callable[[str], str]
    voice: Voice = field(repr=False)
    """What `emit` speaks with: torpor's."""
    settles: list[tuple[str, int]] = field(default_factory=list, repr=False)
    """Reservations of money, and what each cost in micro-units: settled in the commit that records how this attempt ended."""

    threads: LentThreads | None = field(default=None, repr=False, compare=False)
    """Threads for what it does not run itself: torpor's."""

    def emit(self, part: object) -> None:
        """Put a text or a storable value into the run's stream, readable within moments (`torpor tail -f`).

        It is kept with the outcome of this attempt. An attempt that fails or loses its worker is taken back, so whoever
        reads ends with exactly what the last one emitted. May be called from any thread. Raises UnstorableValue, and
        UsageError for more than a megabyte at once and in a `transactional` effect.
        """
        self.voice.emit(part)

    def struck(self, text: str) -> str:
        """Return a text without any secret that this worker resolved, for whoever shows it elsewhere (G15)."""
        return self.voice.struck(text)

    def secret(self, name: str) -> str:
        """Return a secret by name, resolved now; it is never stored (G15). Raises NotFound."""
        return self._secret(name)


@dataclass(frozen=True, slots=True)
class Definition:
    """A step or effect as declared. `is_async` functions run on the worker's loop, others in a thread."""

    name: str
    function: Callable[..., Any]
    safety: Safety
    retry: RetryPolicy
    timeout_seconds: float | None
    verify: Callable[..., Any] | None
    is_async: bool
    takes_context: bool
    within: Context | None = field(default=None, repr=False, compare=False)
    """The context variables it runs with, if they are not those of whoever starts it."""
    settled: Callable[[Any, str], Any] | None = field(default=None, repr=False, compare=False)
    """Makes an outcome of the result that a person says it had, and of who says so; None: the result is the outcome."""
    paid: bool = False
    """Whether an attempt costs money, so that a worker that drains lets one that is under way end."""


def seconds_of(duration: float | timedelta | None, what: str) -> float | None:
    """Return a duration as seconds. Raises UsageError if it is negative or no duration."""
    if duration is None:
        return None
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    given: object = seconds
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < 100 * 366 * 86_400:
        message = f"{what} is {duration!r}: it takes seconds or a timedelta, not negative, under a century"
        raise UsageError(message, hint="minutes(5), or 300 for as many seconds")
    return float(given)


def define(
    function: Callable[..., Any],
    *,
    safety: Safety | str,
    name: str = "",
    retries: int | RetryPolicy = 0,
    timeout: float | timedelta | None = None,
    verify: Callable[..., Any] | None = None,
) -> Definition:
    """Return the definition of a function. Raises UsageError for what cannot be kept."""
    given: object = function
    if not callable(given):
        message = f"{function!r} cannot be called"
        raise UsageError(
            message, hint="give ctx.step or ctx.effect the function itself and its arguments: ctx.step(scan, path)"
        )
    kind = _safety(safety, verify)
    policy = retries if isinstance(retries, RetryPolicy) else RetryPolicy(retries=retries)
    label = name or getattr(function, "__name__", "") or type(function).__name__
    if any(letter in label for letter in "#@~\0"):
        message = f"a step cannot be named {label!r}: # @ ~ are used in its key"
        raise UsageError(message)
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - callable objects
    if kind is Safety.ONCE and policy.retries:
        message = f"{label} is `once` and has retries={policy.retries}: what cannot be repeated is not retried"
        raise UsageError(message, hint='drop retries=, or declare safety="keyed" or verify=')
    if kind is Safety.TRANSACTIONAL and (is_async or timeout is not None):
        message = f"{label} is `transactional`: it runs inside the commit, so it is a plain function without a timeout"
        raise UsageError(message, hint="def, not async def; it has 2 seconds")
    return Definition(
        label,
        function,
        kind,
        policy,
        seconds_of(timeout, f"timeout of {label}"),
        verify,
        is_async,
        _takes_context(function),
    )


def _safety(safety: Safety | str, verify: Callable[..., Any] | None) -> Safety:
    if verify is not None:
        return Safety.VERIFY
    try:
        kind = Safety(safety)
    except ValueError:
        message = f"no safety is named {safety!r}"
        raise UsageError(message, hint=f"one of: {', '.join(Safety)}") from None
    if kind is Safety.VERIFY:
        message = 'safety="verify" needs verify=f, a function that looks whether it happened'
        raise UsageError(message)
    return kind


def _takes_context(function: Callable[..., Any]) -> bool:
    """Whether the first parameter is the effect's context: annotated as EffectContext, or named `ctx`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    if not parameters:
        return False
    first = parameters[0]
    return first.annotation in {EffectContext, "EffectContext"} or first.name == "ctx"


def mark(function: F, definition: Definition) -> F:
    """Remember the definition on the function, which itself stays as it was written."""
    setattr(function, _MARK, definition)
    return function


def definition_of(function: Callable[..., Any], *, effect: bool, safety: Safety | str | None) -> Definition:
    """Return what is declared about a function, or declare it now: a step repeatable, an effect `once`.

    Raises UsageError if an effect is called as a step: it would run again after a crash.
    """
    known: Definition | None = getattr(function, _MARK, None)
    if safety is not None:
        return define(function, safety=safety, name=known.name if known else "")
    if known is None:
        return define(function, safety=Safety.ONCE if effect else Safety.REPEATABLE)
    if not effect and known.safety is not Safety.REPEATABLE:
        message = f"{known.name} is an effect ({known.safety}) and was called as a step"
        raise UsageError(message, hint=f"await ctx.effect({known.name}, ...)")
    return known


@dataclass(frozen=True, slots=True)
class Answer:
    """What a `verify` function says about an effect whose outcome was not recorded."""

    done: bool
    certain: bool = True
    result: Any = None


def done(result: object = None) -> Answer:
    """Say that the effect happened, with its result."""
    return Answer(done=True, result=result)


NOT_DONE = Answer(done=False)
"""It certainly did not happen: it may be done now."""
CANNOT_TELL = Answer(done=False, certain=False)
"""Nobody can tell from here: a person is asked."""
