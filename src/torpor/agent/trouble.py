"""What an error of a model call means: try again, wait, ask a person, or fail. Pure: an error and a moment in, a verdict out.

    Retry       the provider is ill or the way to it is: again, after a pause that grows
    Wait        the provider said "not now" (429): again after what it said, and nobody else asks the bucket before
    TooLong     what was sent does not fit into the model's window: sending it again changes nothing, cutting it does
    Attention   only a person can mend it: a key, a name, an account. So is what nobody foresaw
    Fail        the program itself asked for an end

`bought` of a verdict says whether the call may have cost something although it gave no answer: a request that was cut while
its answer came may have been billed, one that was refused was not. What may have been bought stays spent.

pydantic-ai says what kind of error a provider's is (its `Model...Error` classes), also when it came inside an open stream;
where it does not, the HTTP status does. An error that is none of pydantic-ai's is known by the name of its class, so that
nothing is imported for it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from pydantic_ai import exceptions as ai
from pydantic_ai.models.fallback import ResponseRejected

from torpor.core.family import RESERVED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FIRST_SECONDS = 1.0
MOST_SECONDS = 60.0
"""The pause before the second attempt, doubled with each further one up to the most."""
UNSAID_SECONDS = 20.0
"""How long a provider is left alone that said "too many" and not for how long."""
LONGEST_SECONDS = 24 * 3600.0
"""A provider that asks for more than this is not waited for: a person is asked."""
_LETTERS = 500
_MOST_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after a pause. `why` is for people."""

    after_seconds: float
    why: str
    bought: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """Try again after what the provider said. `bucket` is the rate bucket that others who ask the same model share."""

    seconds: float
    bucket: str
    why: str
    bought: bool = False


@dataclass(frozen=True, slots=True)
class TooLong:
    """What was sent does not fit into the model's window."""

    why: str
    bought: bool = False


@dataclass(frozen=True, slots=True)
class Attention:
    """A person must look. `title` is what happened, `hint` the next step."""

    title: str
    hint: str
    bought: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """The run fails with this error: its own code asked for it."""

    why: str
    hint: str = ""
    bought: bool = False


Verdict = Retry | Wait | TooLong | Attention | Fail


def bucket_of(model_name: str, provider: str | None) -> str:
    """Return the name of the rate bucket of a model: all runs and workers that ask it share the bucket."""
    name = re.sub(r"[\0\ud800-\udfff]", "?", f"{provider or 'model'}:{model_name}".removeprefix(RESERVED))
    return name[:200]


def sort(
    error: BaseException,
    now: datetime,
    *,
    provider: str | None = None,
    attempt: int = 1,
    spread: float = 0.0,
) -> Verdict:
    """Say what an error of a model call means.

    `now` is the moment at which it came, aware; `provider` the name of the provider that was asked; `attempt` counts from 1
    the attempts that ended in a Retry; `spread` in [0, 1), of the call's key, keeps runs from coming back together.
    """
    members = list(_members(error))
    if members:
        return _of_group([sort(one, now, provider=provider, attempt=attempt, spread=spread) for one in members])
    verdict = _of_pydantic_ai(error, now, provider) or _of_the_way(error) or _foreign(error, now)
    if isinstance(verdict, Retry):
        return replace(verdict, after_seconds=_pause(attempt, spread, least=verdict.after_seconds))
    if isinstance(verdict, Wait):
        if verdict.seconds > LONGEST_SECONDS:
            hours = verdict.seconds / 3600
            return Attention(
                f"{verdict.bucket} is not to be asked for {hours:,.0f} hours",
                "look at the account's limits at the provider, or let the agent fall back on another model",
            )
        return replace(verdict, seconds=verdict.seconds * (1 + 0.1 * spread))
    return verdict


# groups --------------------------------------------------------------------------------------------------------------
def _members(error: BaseException, depth: int = 0) -> Iterator[BaseException]:
    """Yield what is in a group of errors, groups in it taken apart; what a handler rejected is no error of a model."""
    if isinstance(error, BaseExceptionGroup) and depth < _MOST_DEPTH:
        for one in error.exceptions:
            if isinstance(one, BaseExceptionGroup):
                yield from _members(one, depth + 1)
            else:
                yield one


def _of_group(verdicts: list[Verdict]) -> Verdict:
    """Return what to do when every model of a fallback list failed: what gets an answer first, and asks people last.

    The shortest pause of those that can be tried again; else what cutting mends; else the first that a person must see.
    """
    bought = any(one.bought for one in verdicts)
    timed = [one for one in verdicts if isinstance(one, Retry | Wait)]
    order: list[Verdict] = [
        *sorted(timed, key=lambda one: one.after_seconds if isinstance(one, Retry) else one.seconds),
        *(one for one in verdicts if isinstance(one, TooLong)),
        *(one for one in verdicts if isinstance(one, Attention)),
        *verdicts,
    ]
    return replace(order[0], bought=bought)


# pydantic-ai's own ---------------------------------------------------------------------------------------------------
def _of_pydantic_ai(error: BaseException, now: datetime, provider: str | None) -> Verdict | None:
    if isinstance(error, ai.ModelAPIError):
        return _of_category(error, now, provider) or _of_status(error, now, provider)
    if isinstance(error, ResponseRejected):
        return Attention(
            _told(error), "look at what fallback_on rejects: no model of the list gave what it accepts", bought=True
        )
    if isinstance(error, ai.ContentFilterError):
        return Attention(
            _told(error), "the provider's content filter refused: change what is asked, or the model", bought=True
        )
    if isinstance(error, ai.OutputTokenLimitExceeded):
        return Attention(_told(error), "raise max_tokens in the model's settings", bought=True)
    if isinstance(error, ai.UnexpectedModelBehavior):
        return Retry(0.0, _told(error), bought=True)
    if isinstance(error, ai.UsageLimitExceeded | ai.RunCancelled):
        return Fail(_told(error))
    if isinstance(error, ai.UserError):
        return Attention(_told(error), "mend the agent's definition, deploy it, and let the run go on")
    return None


def _of_category(error: ai.ModelAPIError, now: datetime, provider: str | None) -> Verdict | None:
    told = _told(error)
    if isinstance(error, ai.ModelQuotaExceededError):
        return Attention(told, "the account's quota or credit is used up: top it up at the provider, then go on")
    if isinstance(error, ai.ModelRateLimitError):
        return Wait(_said(error, now, UNSAID_SECONDS), bucket_of(error.model_name, provider), told)
    if isinstance(error, ai.ModelContextWindowExceededError):
        return TooLong(told)
    if isinstance(error, ai.ModelAuthenticationError):
        return Attention(
            told, "the provider refused the key: see that the worker has a valid one for this model, then go on"
        )
    if isinstance(error, ai.ModelNotFoundError):
        meant = getattr(error, "suggested_model_id", None)
        hint = "look at the model's name and the provider's address"
        return Attention(told, f"did you mean {meant}? {hint}" if meant else hint)
    if isinstance(error, ai.ModelRequestRejectedError):
        return Attention(told, "the provider will refuse this request again: read what it says and change the agent")
    if isinstance(error, ai.ModelUnavailableError | ai.ModelServerError):
        return Retry(_said(error, now, 0.0), told, bought=error.in_stream)
    if isinstance(error, ai.ModelConnectionError):
        return Retry(0.0, told, bought=error.phase not in {"pool", "connect"})
    if isinstance(error, ai.ModelRequestTimeout):
        return Retry(0.0, told, bought=True)
    return None


def _of_status(error: ai.ModelAPIError, now: datetime, provider: str | None) -> Verdict:
    """Sort an error that pydantic-ai could not name, by its HTTP status: that of a provider or model of one's own."""
    told, status = _told(error), getattr(error, "status_code", None)
    if not isinstance(status, int):
        return Retry(0.0, told, bought=True) if error.in_stream else Attention(told, "read what the provider says")
    if status == 429:  # noqa: PLR2004 - too many requests
        return Wait(_said(error, now, UNSAID_SECONDS), bucket_of(error.model_name, provider), told)
    if status in {401, 403}:
        return Attention(
            told, "the provider refused the key: see that the worker has a valid one for this model, then go on"
        )
    if status == 402:  # noqa: PLR2004 - payment required
        return Attention(told, "the account's quota or credit is used up: top it up at the provider, then go on")
    if status == 404:  # noqa: PLR2004 - not found
        return Attention(told, "look at the model's name and the provider's address")
    if status == 413 or "context length" in str(error).lower():  # noqa: PLR2004 - content too large
        return TooLong(told)
    if status in {408, 409, 425} or status >= 500:  # noqa: PLR2004 - it may go well the next time
        return Retry(_said(error, now, 0.0), told, bought=error.in_stream)
    return Attention(told, "the provider will refuse this request again: read what it says and change the agent")


# what others raise ---------------------------------------------------------------------------------------------------
_UNSENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ConnectionRefusedError", "gaierror"})
"""By these names a request was never sent, whoever raises them."""
_CUT = frozenset(
    {
        "TransportError",
        "APIConnectionError",
        "APITimeoutError",
        "ClientConnectionError",
        "IncompleteRead",
        "ProtocolError",
    }
)


def _of_the_way(error: BaseException) -> Verdict | None:
    """Sort what goes wrong between here and a provider: httpx's and its like, and the operating system's."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _UNSENT:
        return Retry(0.0, _told(error), bought=False)
    if names & _CUT or isinstance(error, TimeoutError | ConnectionError):
        return Retry(0.0, _told(error), bought=True)
    return None


def _foreign(error: BaseException, now: datetime) -> Verdict:
    """Sort an error of a provider's own library by its status; what has none is nobody's: a person looks."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600:  # noqa: PLR2004 - HTTP
        model = str(getattr(error, "model_name", "") or type(error).__name__)
        response = getattr(error, "response", None)
        headers = {str(key): str(value) for key, value in dict(getattr(response, "headers", None) or {}).items()}
        named = ai.ModelHTTPError(status, model, str(error), headers=headers)
        return _of_status(named, now, None)
    return Attention(_told(error), "nobody foresaw this: read it, mend the cause, then let the run go on", bought=True)


# how long ------------------------------------------------------------------------------------------------------------
def retry_after(headers: Mapping[str, str] | None, now: datetime) -> float | None:
    """Return for how many seconds a provider asks to be left alone: `retry-after-ms`, or Retry-After as seconds or a date.

    A date is taken relative to the answer's own `date`, so that a clock that is wrong here changes nothing; without one,
    relative to `now`. None: it did not say, or nothing that makes sense. Names of headers are in small letters.
    """
    said = {key.lower(): value.strip() for key, value in (headers or {}).items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if re.fullmatch(r"\d{1,12}(\.\d+)?", said.get(name, "")):
            return float(said[name]) * unit
    until = _date(said.get("retry-after"))
    since = _date(said.get("date")) or now
    return None if until is None else max(0.0, (until - since).total_seconds())


def _date(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _said(error: ai.ModelAPIError, now: datetime, unsaid: float) -> float:
    headers = getattr(error, "headers", None)
    said = retry_after(headers, now)
    if said is None and "retry-after" not in (headers or {}):
        said = error.retry_after  # of the answer's body, as Google says it
    return unsaid if said is None else said


def _pause(attempt: int, spread: float, *, least: float) -> float:
    doublings = min(max(attempt, 1) - 1, 20)
    pause = min(FIRST_SECONDS * 2.0**doublings, MOST_SECONDS) * (0.5 + spread)
    return max(pause, least * (1 + 0.1 * spread))


def _told(error: BaseException) -> str:
    """Return an error in one line that people can read; what a provider wrote at length is cut."""
    text = " ".join(f"{type(error).__name__}: {_answered(error) or error}".split())
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 3]}..."


def _answered(error: BaseException) -> str:
    """Return what a provider answered as a sentence: its own words without what is around them; nothing if it has none."""
    if not isinstance(error, ai.ModelHTTPError) or not (words := _words(error.body)):
        return ""
    return f"{error.model_name} answered {error.status_code}: {words}{f' {error.hint}' if error.hint else ''}"


def _words(body: object, depth: int = 0) -> str:
    """Return the message in a provider's answer, wherever that provider puts it."""
    if isinstance(body, str):
        try:
            inside = json.loads(body)
        except ValueError:
            inside = None
        return (_words(inside, depth) if isinstance(inside, dict | list) else "") or body.strip()
    if isinstance(body, list) and body and depth < _MOST_DEPTH:
        return _words(body[0], depth + 1)
    if not isinstance(body, dict) or depth >= _MOST_DEPTH:
        return ""
    found = (_words(body[name], depth + 1) for name in ("message", "error", "detail") if name in body)
    return next((said for said in found if said), "")
