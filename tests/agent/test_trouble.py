"""What an error of a model call means, kind by kind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic_ai import exceptions as ai
from pydantic_ai.models.fallback import ResponseRejected

from torpor.agent.trouble import (
    MOST_SECONDS,
    UNSAID_SECONDS,
    Attention,
    Fail,
    Retry,
    TooLong,
    Verdict,
    Wait,
    bucket_of,
    retry_after,
    sort,
)

NOW = datetime(2026, 11, 30, 6, 0, 0, tzinfo=UTC)


def http(status: int, kind: Any = None, **more: Any) -> ai.ModelHTTPError:
    """Return an error as pydantic-ai's models raise it."""
    return ai.ModelHTTPError.for_category(kind, status_code=status, model_name="gpt-x", **more)


class APIConnectionError(Exception):
    """As the libraries of providers call it."""


class TransportError(Exception):
    """As httpx calls the root of what goes wrong on the way."""


class Broken(TransportError):
    """One of these."""


class ForeignStatus(Exception):
    """An error of somebody's own library that has a status."""

    status_code = 503


CASES: list[tuple[BaseException, type[Verdict], bool, str]] = [
    (http(429, ai.ModelRateLimitError), Wait, False, "429"),
    (http(429), Wait, False, "429"),
    (http(429, ai.ModelQuotaExceededError), Attention, False, "quota"),
    (http(401, ai.ModelAuthenticationError), Attention, False, "key"),
    (http(403), Attention, False, "key"),
    (http(402), Attention, False, "credit"),
    (http(404, ai.ModelNotFoundError, suggested_model_id="gpt-y"), Attention, False, "gpt-y"),
    (http(404), Attention, False, "name"),
    (http(400, ai.ModelContextWindowExceededError), TooLong, False, "400"),
    (http(400, body={"message": "maximum context length is 9"}), TooLong, False, "context length"),
    (http(413), TooLong, False, "413"),
    (http(400, ai.ModelRequestRejectedError), Attention, False, "refuse"),
    (http(418), Attention, False, "refuse"),
    (http(500, ai.ModelServerError), Retry, False, "500"),
    (http(503, ai.ModelUnavailableError), Retry, False, "503"),
    (http(529, ai.ModelOverloadedError), Retry, False, "529"),
    (http(503, ai.ModelUnavailableError, in_stream=True), Retry, True, "503"),
    (http(502), Retry, False, "502"),
    (http(408), Retry, False, "408"),
    (ai.ModelConnectionError("gpt-x", "refused", phase="connect"), Retry, False, "refused"),
    (ai.ModelConnectionError("gpt-x", "reset", phase="read"), Retry, True, "reset"),
    (ai.ModelConnectionError("gpt-x", "closed"), Retry, True, "closed"),
    (ai.ModelTimeoutError("gpt-x", "slow", phase="read"), Retry, True, "slow"),
    (ai.ModelRequestTimeout("gpt-x", 3.0), Retry, True, "timed out"),
    (ai.ModelAPIError("gpt-x", "odd"), Attention, False, "odd"),
    (ai.ModelAPIError("gpt-x", "odd", in_stream=True), Retry, True, "odd"),
    (ai.ContentFilterError("no"), Attention, True, "filter"),
    (ai.IncompleteToolCall("cut"), Attention, True, "max_tokens"),
    (ai.UnexpectedModelBehavior("empty"), Retry, True, "empty"),
    (ai.UsageLimitExceeded("50 requests"), Fail, False, "50 requests"),
    (ai.UserError("no such setting"), Attention, False, "definition"),
    (APIConnectionError("cut"), Retry, True, "cut"),
    (Broken("cut"), Retry, True, "cut"),
    (TimeoutError(), Retry, True, "TimeoutError"),
    (ConnectionRefusedError("nobody"), Retry, False, "nobody"),
    (ConnectionResetError("cut"), Retry, True, "cut"),
    (ForeignStatus("down"), Retry, False, "down"),
    (ZeroDivisionError("oh"), Attention, True, "oh"),
    (KeyboardInterrupt(), Attention, True, "KeyboardInterrupt"),
]


@pytest.mark.parametrize(("error", "kind", "bought", "word"), CASES, ids=lambda value: str(value)[:40])
def test_each_kind(error: BaseException, kind: type[Verdict], bought: bool, word: str) -> None:  # noqa: FBT001 - a table
    """Every error has one meaning, says whether money may have gone, and speaks of what happened."""
    verdict = sort(error, NOW, provider="openai")
    assert type(verdict) is kind
    assert verdict.bought is bought
    assert word in repr(verdict)
    if isinstance(verdict, Attention):
        assert verdict.hint


@pytest.mark.parametrize(
    "body",
    [
        {"message": "No such key.", "type": "invalid", "param": None, "code": None},
        {"type": "error", "error": {"type": "authentication_error", "message": "No such key."}},
        [{"error": {"code": 401, "message": "No such key."}}],
        {"error": "No such key."},
        {"detail": "No such key."},
        '{"error": {"message": "No such key."}}',
        " No such key.\n",
    ],
)
def test_a_providers_words_are_a_sentence(body: Any) -> None:
    """Wherever it puts them; nothing of what is around them."""
    verdict = sort(http(401, body=body), NOW, provider="openai")
    assert isinstance(verdict, Attention)
    assert verdict.title == "ModelHTTPError: gpt-x answered 401: No such key."


@pytest.mark.parametrize("body", [None, {}, [], {"message": None}, {"message": {"message": {}}}, 5, {"error": []}])
def test_a_provider_without_words(body: Any) -> None:
    """What there is is told."""
    verdict = sort(http(401, body=body), NOW, provider="openai")
    assert isinstance(verdict, Attention)
    assert verdict.title == f"ModelHTTPError: status_code: 401, model_name: gpt-x, body: {body}"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": " 7 "}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Mon, 30 Nov 2026 06:00:30 GMT"}, 30.0),
        ({"retry-after": "Mon Nov 30 06:00:30 2026"}, 30.0),
        ({"retry-after": "Mon, 30 Nov 2026 05:00:00 GMT"}, 0.0),
        ({"retry-after": "Mon, 30 Nov 2026 09:00:30 GMT", "date": "Mon, 30 Nov 2026 09:00:00 GMT"}, 30.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
        (None, None),
    ],
)
def test_retry_after(headers: dict[str, str] | None, seconds: float | None) -> None:
    """Seconds, milliseconds or a date, by the provider's own clock where it says it; nonsense says nothing."""
    assert retry_after(headers, NOW) == seconds


def test_a_wait_has_a_bucket_and_a_length() -> None:
    """What the provider said, else a usual pause; the bucket is named after provider and model."""
    said = sort(http(429, ai.ModelRateLimitError, headers={"Retry-After": "9"}), NOW, provider="openai")
    assert isinstance(said, Wait)
    assert (said.seconds, said.bucket) == (9.0, "openai:gpt-x")
    body = sort(http(429, ai.ModelRateLimitError, retry_after=4.0), NOW)
    assert isinstance(body, Wait)
    assert (body.seconds, body.bucket) == (4.0, "model:gpt-x")
    unsaid = sort(http(429, headers={"Retry-After": "soon"}), NOW)
    assert isinstance(unsaid, Wait)
    assert unsaid.seconds == UNSAID_SECONDS
    spread = sort(http(429, headers={"Retry-After": "10"}), NOW, spread=0.5)
    assert isinstance(spread, Wait)
    assert spread.seconds == pytest.approx(10.5)


def test_nobody_is_waited_for_longer_than_a_day() -> None:
    """A person is asked instead."""
    verdict = sort(http(429, headers={"Retry-After": "864000"}), NOW, provider="openai")
    assert isinstance(verdict, Attention)
    assert "240 hours" in verdict.title


def test_pauses_grow_and_are_spread() -> None:
    """Doubled each time up to the most; never shorter than the provider asked for."""

    def pause(attempt: int, spread: float = 0.5, **more: Any) -> float:
        verdict = sort(http(503, ai.ModelUnavailableError, **more), NOW, attempt=attempt, spread=spread)
        assert isinstance(verdict, Retry)
        return verdict.after_seconds

    assert [pause(attempt) for attempt in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 8.0]
    assert pause(10_000) == MOST_SECONDS
    assert pause(1, 0.0) == 0.5
    assert pause(1, 0.99) < 1.5
    assert pause(1, headers={"Retry-After": "30"}) >= 30


def test_groups_of_a_fallback_list() -> None:
    """The shortest pause wins; without one, what cutting mends; else a person. What one bought is bought."""
    busy, ill = http(429, headers={"Retry-After": "20"}), http(503, ai.ModelUnavailableError)
    long, key = http(400, ai.ModelContextWindowExceededError), http(401)

    def of(*errors: Exception) -> Verdict:
        return sort(ai.FallbackExceptionGroup("all failed", list(errors)), NOW, provider="openai", spread=0.5)

    assert isinstance(of(key, busy, ill), Retry)
    assert isinstance(of(key, busy), Wait)
    assert isinstance(of(key, long), TooLong)
    assert isinstance(of(key), Attention)
    assert isinstance(of(ExceptionGroup("inner", [key, ill])), Retry)
    rejected = of(ResponseRejected(1), busy)
    assert isinstance(rejected, Wait)
    assert rejected.bought
    assert isinstance(of(ResponseRejected(2)), Attention)


def test_long_errors_are_cut_to_a_line() -> None:
    """What a provider writes at length does not fill the inbox."""
    verdict = sort(http(418, body="x\n" * 10_000), NOW)
    assert isinstance(verdict, Attention)
    assert len(verdict.title) <= 500
    assert "\n" not in verdict.title


def test_names_of_buckets_can_be_names() -> None:
    """Whatever a model is called."""
    from torpor.core.names import check_name

    for model, provider in (("m" * 500, None), ("a\0b\ud800", "~x"), ("", "")):
        check_name(bucket_of(model, provider), "a bucket's name")


def test_a_moment_later_changes_nothing_but_dates() -> None:
    """Pure: the same error at the same moment means the same."""
    error = http(429, headers={"Retry-After": "Mon, 30 Nov 2026 06:00:30 GMT"})
    first, again, later = (sort(error, moment) for moment in (NOW, NOW, NOW + timedelta(seconds=10)))
    assert first == again
    assert isinstance(first, Wait)
    assert isinstance(later, Wait)
    assert first.seconds - later.seconds == 10
