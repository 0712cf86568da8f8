"""What a flow asks people: to approve something, or a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from torpor.clock import as_datetime
from torpor.core.replay import CallKind
from torpor.core.schema import same, unchecked
from torpor.errors import UsageError
from torpor.sdk.calling import Calling, expiry

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from datetime import datetime, timedelta

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's decision, or that none came in time. True in a condition exactly if it was approved."""

    approved: bool
    by: str = ""
    note: str = ""
    at: datetime | None = None
    expired: bool = False
    value: Any = None
    """What may run now: what was shown, or what a person made of it; None unless it was approved."""
    edited: bool = False

    def __bool__(self) -> bool:
        """Whether it was approved. Anything else, expiry included, is not consent (G10)."""
        return self.approved


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a person answered, and who; or that nobody did in time: then `expired`, and `value` is None."""

    value: T | None = None
    by: str = ""
    at: datetime | None = None
    expired: bool = False


class Asking(Calling):
    """Approvals and questions."""

    __slots__ = ()

    def approval(
        self,
        title: str,
        *,
        show: Any = None,
        expires: float | timedelta | None = None,
        editable: bool = False,
        schema: Any = None,
    ) -> Coroutine[Any, Any, Approval]:
        """Ask a person to approve what is shown, and sleep until one decides or it expires.

        The decision is bound to exactly `title` and `show`, used once, and the first one wins (G10). Let what runs be the
        approval's `value`: that is what was shown, and with `editable` what the person made of it, checked against `schema`
        (a type, or a JSON schema; a model or dataclass that is shown brings its own).
        """
        words = _words(title, "an approval's title")
        fits = _fits(schema)
        if fits is not None and not editable:
            raise UsageError("an approval's schema= says what an edit must fit", hint="editable=True, schema=...")
        if editable and fits is None and _has_fields(show):
            fits = type(show)
        values = {"title": words, "show": show, **({"editable": True} if editable else {})}
        if isinstance(fits, dict):
            values["schema"] = fits
        return self._approval(self._promise("approval", words), values, expiry(expires), fits)

    async def _approval(
        self, number: int, values: dict[str, Any], expires_seconds: float | None, fits: object
    ) -> Approval:
        decision = await self._call(
            number, CallKind.APPROVAL, "approval", values, expires_seconds=expires_seconds, fits=fits
        )
        return Approval(**{**decision, "at": as_datetime(decision["at"])})

    @overload
    def ask(
        self, question: str, *, choices: Sequence[T], schema: None = None, expires: float | timedelta | None = None
    ) -> Coroutine[Any, Any, Answer[T]]: ...
    @overload
    def ask(
        self, question: str, *, choices: None = None, schema: type[T], expires: float | timedelta | None = None
    ) -> Coroutine[Any, Any, Answer[T]]: ...
    @overload
    def ask(
        self, question: str, *, choices: None = None, schema: Any = None, expires: float | timedelta | None = None
    ) -> Coroutine[Any, Any, Answer[Any]]: ...
    def ask(
        self,
        question: str,
        *,
        choices: Sequence[Any] | None = None,
        schema: Any = None,
        expires: float | timedelta | None = None,
    ) -> Coroutine[Any, Any, Answer[Any]]:
        """Ask a person a question, and sleep until one answers or it expires.

        An answer is one of `choices`, or fits `schema` (a type, or a JSON schema), or else is a text; another one is refused
        when it is given, and the question stays open. The first answer wins.
        """
        words = _words(question, "a question")
        fits = _fits(schema)
        values: dict[str, Any] = {"title": words}
        if choices is not None:
            if fits is not None:
                raise UsageError("a question has choices= or schema=, not both")
            values["choices"] = _choices(choices)
        if isinstance(fits, dict):
            values["schema"] = fits
        return self._ask(self._promise("ask", words), values, expiry(expires), fits)

    async def _ask(
        self, number: int, values: dict[str, Any], expires_seconds: float | None, fits: object
    ) -> Answer[Any]:
        said = await self._call(number, CallKind.ASK, "ask", values, expires_seconds=expires_seconds, fits=fits)
        return Answer(**{**said, "at": as_datetime(said["at"])})


def _words(text: str, what: str) -> str:
    words = str(text)
    if not words.strip():
        raise UsageError(f"{what} is empty: a person would not know what is asked", hint="say it in one line")
    return words


def _fits(schema: Any) -> object:
    if isinstance(schema, dict) and (unknown := unchecked(schema)) is not None:
        raise UsageError(
            f"the schema says {unknown}, which torpor does not check", hint="leave it out, and check it in a step"
        )
    return schema


def _choices(choices: Sequence[Any]) -> list[Any]:
    found = [] if isinstance(choices, str) else list(choices)
    if not found:
        raise UsageError(f"choices={choices!r}: a question has a list of them", hint='choices=["yes", "no"]')
    for n, choice in enumerate(found):
        if any(same(choice, earlier) for earlier in found[:n]):
            raise UsageError(f"two choices are equal: {choice!r}", hint="nobody could tell them apart")
    return found


def _has_fields(value: Any) -> bool:
    kind = type(value)
    return hasattr(kind, "model_fields") or hasattr(kind, "__dataclass_fields__")
