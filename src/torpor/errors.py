"""Every exception of torpor, and nothing else.

    TorporError
    |-- UsageError          the caller asked for something that makes no sense; nothing was changed
    |   `-- UnstorableValue a value that would not come back as it was; the path names the place (G14)
    |-- NotFound            no such run, wait, program
    |-- Conflict            someone was first, or it changed since you looked
    |-- LeaseLost           this executor no longer owns the run; it stops before its next effect (G1, G2)
    |-- Diverged            code asked for something else than the journal recorded
    |-- NotDone             raised *by an effect*: "it certainly did not happen", so it may be tried again
    |   `-- RateLimited     and not before so many seconds: raised by a step or effect that a provider sent away
    |-- BudgetExceeded      a person said no to what a budget was short of
    |-- Stopped             a person did not let an agent go on that seemed to be stuck
    |-- Interrupted         somebody interrupted what the flow was doing; the run lives on if the flow catches it
    |-- StepFailed          a step or effect failed for good; carries the recorded error
    |-- ChildFailed         a child that was joined failed or was cancelled; carries the recorded error
    |-- ServerLost          an MCP server of an agent does not start, or went away in a call
    |-- RunFailed           a run that somebody waits for ended in `failed`
    |-- RunCancelled        a run that somebody waits for ended in `cancelled`
    |-- NeedsPerson         a run that somebody waits for cannot go on without a person
    `-- StoreError          the store said no
        |-- StoreUnavailable    not reachable, locked for too long, disk full: try again later
        |-- SchemaMismatch      the store's schema is older or newer than this torpor
        `-- StoreCorrupt        the file or the tables are damaged

An error says what happened with which values; `hint` says what to do next. The command line prints both and exits with
`exit_code`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar


class TorporError(Exception):
    """The root. `hint` is one line with the next step, or empty."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Keep what happened apart from what to do about it."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Both lines, so that a bare traceback also helps."""
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class UsageError(TorporError):
    """The caller asked for something that makes no sense. Nothing was changed."""

    exit_code = 2


class UnstorableValue(UsageError):
    """A value that would not come back as it was written (G14). `path` names the place, for example `state.items[3].when`."""

    def __init__(self, message: str, *, path: str, hint: str = "") -> None:
        """Say where in the value the trouble is."""
        super().__init__(message, hint=hint)
        self.path = path


class NotFound(TorporError):
    """There is no such run, wait or program."""

    exit_code = 3


class Conflict(TorporError):
    """Someone was first, or the thing changed since the caller looked."""

    exit_code = 4


class LeaseLost(TorporError):
    """This executor no longer owns the run (G1, G2). Nothing was written; it must stop before its next effect."""


class Diverged(TorporError):
    """Code asked for something else than the journal recorded. Carries both sides."""

    def __init__(self, message: str, *, recorded: str, asked: str, hint: str = "") -> None:
        """Keep both sides so that a person can compare them."""
        super().__init__(message, hint=hint)
        self.recorded = recorded
        self.asked = asked


class NotDone(TorporError):
    """Raised by an effect to say "it certainly did not happen". A `once` effect that raises anything else is `unknown`."""


class RateLimited(NotDone):
    """Raised by a step or effect that a provider sent away: "not now, and not before `retry_after` seconds".

    It is tried again then, which costs no attempt. With `bucket` nobody else takes anything from that rate bucket before.
    """

    def __init__(self, message: str = "", *, retry_after: float | timedelta, bucket: str = "") -> None:
        """Say for how long: seconds or a timedelta, as in a Retry-After header."""
        pause = retry_after.total_seconds() if isinstance(retry_after, timedelta) else float(retry_after)
        super().__init__(message or f"not before {pause:g} seconds have passed")
        self.retry_after = pause if pause > 0 else 0.0
        self.bucket = bucket


class BudgetExceeded(TorporError):
    """What was to be reserved did not fit into a budget, and a person said no to more."""

    call = ""
    """The key of the call in its turn."""


class Stopped(TorporError):
    """A person did not let an agent go on that seemed to be stuck."""


class StepFailed(TorporError):
    """A step or effect failed for good. `kind` is the recorded exception's class name, `detail` its text."""

    def __init__(
        self, message: str, *, kind: str = "", detail: str = "", hint: str = "", said: dict[str, Any] | None = None
    ) -> None:
        """Carry the recorded error's class name and text, and what it said besides, in its own attribute `said`."""
        super().__init__(message, hint=hint)
        self.kind = kind
        self.detail = detail
        self.said = said or {}
        self.call = ""
        """The key of the failed call in its turn."""


class Interrupted(TorporError):
    """Raised *in a flow* by each call that was open when somebody interrupted the run. `reason` is what they said.

    `unknown` is True for a call that had begun to act: what it did until then, and whether it ends by itself, nobody knows.
    """

    def __init__(self, message: str, *, reason: str = "", unknown: bool = False, hint: str = "") -> None:
        """Carry the reason."""
        super().__init__(message, hint=hint)
        self.reason = reason
        self.unknown = unknown
        self.call = ""
        """The key of the call in its turn."""


class ChildFailed(TorporError):
    """A child that was joined failed or was cancelled. `child` is its id; `kind` and `detail` are its recorded error's.

    `kind` is `Cancelled` if it was cancelled.
    """

    def __init__(self, message: str, *, child: str = "", kind: str = "", detail: str = "", hint: str = "") -> None:
        """Carry the child's id and its recorded error."""
        super().__init__(message, hint=hint)
        self.child = child
        self.kind = kind
        self.detail = detail
        self.call = ""
        """The key of the join in its turn."""


class ServerLost(TorporError):
    """An MCP server of an agent does not start, or went away in the middle of a call, which it may have carried out."""


class RunFailed(TorporError):
    """A run that somebody waits for ended in `failed`."""

    def __init__(self, message: str, *, kind: str = "", detail: str = "", hint: str = "") -> None:
        """Carry the recorded error's class name and text."""
        super().__init__(message, hint=hint)
        self.kind = kind
        self.detail = detail


class RunCancelled(TorporError):
    """A run that somebody waits for ended in `cancelled`."""


class NeedsPerson(TorporError):
    """A run that somebody waits for cannot go on without a person."""

    exit_code = 5


class StoreError(TorporError):
    """The store said no."""

    exit_code = 6


class StoreUnavailable(StoreError):
    """The store cannot be reached now, stays locked, or its disk is full. What was acknowledged is kept (G3).

    `answer_lost`: it broke after something that commits was sent, so only reading back tells whether that happened.
    """

    answer_lost: bool = False


class SchemaMismatch(StoreError):
    """The store's schema is older or newer than this torpor."""


class StoreCorrupt(StoreError):
    """The file or the tables are damaged."""
