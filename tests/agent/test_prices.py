"""What model calls cost, and what they may cost: rounded up, unknown said, estimates never below what was billed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import ceil
from typing import TYPE_CHECKING, Any

import pytest
from genai_prices import Usage, calc_price
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestAttempt,
    ModelResponse,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from torpor.agent import prices

if TYPE_CHECKING:
    from pydantic_ai.settings import ModelSettings

AT = datetime(2026, 6, 1, tzinfo=UTC)
MODEL, PROVIDER = "gpt-4o", "openai"
ASKED: list[ModelMessage] = [ModelRequest([UserPromptPart("why? " * 600)])]


def billed(model: str, provider: str, **usage: int) -> Decimal:
    """Return what genai-prices says, in micro-units."""
    return calc_price(Usage(**usage), model, provider_id=provider, genai_request_timestamp=AT).total_price * 1_000_000


def model(name: str = MODEL, **more: Any) -> OpenAIChatModel:
    """Return a model that is never asked."""
    return OpenAIChatModel(name, provider=OpenAIProvider(api_key="none"), **more)


def test_a_cost_is_rounded_up() -> None:
    """To the next micro-unit, so that nothing is free."""
    assert prices.cost(RequestUsage(input_tokens=1), MODEL, PROVIDER, at=AT) == ceil(
        billed(MODEL, PROVIDER, input_tokens=1)
    )
    usage = RequestUsage(input_tokens=1_000, output_tokens=100)
    assert prices.cost(usage, MODEL, PROVIDER, at=AT) == billed(MODEL, PROVIDER, input_tokens=1_000, output_tokens=100)


@pytest.mark.parametrize(
    ("usage", "name", "provider"),
    [
        (RequestUsage(input_tokens=9), "nobody-knows", PROVIDER),
        (RequestUsage(input_tokens=9), MODEL, "nobody"),
        (RequestUsage(input_tokens=9), None, None),
        (RequestUsage(input_tokens=9), "", PROVIDER),
        (RequestUsage(), MODEL, PROVIDER),
        (RequestUsage(input_tokens=9, unmeasured_requests=1), MODEL, PROVIDER),
        (RequestUsage(input_tokens=1, cache_read_tokens=9), MODEL, PROVIDER),
    ],
)
def test_what_is_unknown_is_not_nothing(usage: RequestUsage, name: str | None, provider: str | None) -> None:
    """An unknown price, or usage that the provider did not say or that contradicts itself."""
    assert prices.cost(usage, name, provider, at=AT) is None


def test_a_reported_cost_is_believed() -> None:
    """Also of a model that nobody knows; it may be nothing."""
    assert prices.cost(RequestUsage(cost=Decimal("0.0000001")), "nobody-knows", None) == 1
    assert prices.cost(RequestUsage(cost=Decimal(0)), "nobody-knows", None) == 0


def test_the_address_tells_more_than_the_name() -> None:
    """A known address decides; an unknown one leaves it to the name."""
    usage = RequestUsage(input_tokens=1_000)
    named = prices.cost(usage, MODEL, PROVIDER, at=AT)
    assert named is not None
    assert prices.cost(usage, MODEL, "nobody", url="https://api.openai.com/v1/", at=AT) == named
    assert prices.cost(usage, MODEL, PROVIDER, url="http://127.0.0.1:9/v1", at=AT) == named


def test_an_answer_costs_what_was_rejected_before_it_too() -> None:
    """Answers that a fallback list rejected were billed; attempts that raised said nothing."""
    usage = RequestUsage(input_tokens=1_000)

    def answer(*before: RequestUsage | None) -> int | None:
        attempts = [
            ModelRequestAttempt(
                model_name=MODEL, provider_name=PROVIDER, outcome="error", timestamp=AT, duration=timedelta(), usage=one
            )
            for one in before
        ]
        response = ModelResponse(
            [TextPart("a")],
            usage=usage,
            model_name=MODEL,
            provider_name=PROVIDER,
            timestamp=AT,
            failed_attempts=attempts,
        )
        return prices.cost_of(response)

    one = prices.cost(usage, MODEL, PROVIDER, at=AT)
    assert one is not None
    assert answer() == one
    assert answer(usage, None) == 2 * one
    assert answer(RequestUsage(unmeasured_requests=1)) is None


@pytest.mark.parametrize(
    "settings", [{"max_tokens": 50}, {"max_tokens": 50, "anthropic_cache": True}, {"max_tokens": 50, "x_cache": "1h"}]
)
def test_an_estimate_is_not_below_the_bill(settings: ModelSettings) -> None:
    """Of a call that uses all it may, also one that writes the cache."""
    ways = [{}, {"cache_write_tokens": 600}, {"cache_write_tokens": 600, "cache_write_1h_tokens": 600}]
    way = ways[0 if len(settings) == 1 else 1 if "x_cache" not in settings else 2]
    name, provider = "claude-sonnet-4-5", "anthropic"
    found = prices.estimate(ASKED, settings, None, name, provider, at=AT)
    assert found is not None
    assert found >= billed(name, provider, input_tokens=600, output_tokens=50, **way)


def test_what_an_estimate_counts() -> None:
    """The limit of the settings, else the model's, else a usual one; tools and instructions; no more than the window."""

    def of(*, parameters: ModelRequestParameters | None = None, most: int | None = None, **settings: int) -> int:
        chosen: Any = settings
        found = prices.estimate(ASKED, chosen, parameters, MODEL, PROVIDER, at=AT, most_output=most)
        assert found is not None
        return found

    least = of(max_tokens=1)
    assert of(max_tokens=500, most=100) == of(max_tokens=100) < of(max_tokens=500)
    assert of() == of(max_tokens=prices.OUTPUT_TOKENS)
    assert of(most=100) == of(max_tokens=100)
    tool = ToolDefinition(name="look", description="Looks. " * 50, parameters_json_schema={"type": "object"})
    assert of(parameters=ModelRequestParameters(function_tools=[tool]), max_tokens=1) > least
    searching = of(parameters=ModelRequestParameters(native_tools=[WebSearchTool()]), max_tokens=1)
    assert searching - least >= billed(MODEL, PROVIDER, input_tokens=prices.NATIVE_TOKENS) - 1
    said = [ModelRequest([UserPromptPart("why?")], instructions="Be brief. " * 100)]
    assert prices.input_tokens(said, None) > prices.input_tokens([ModelRequest([UserPromptPart("why?")])], None)
    huge: list[ModelMessage] = [ModelRequest([UserPromptPart("x" * 9_000_000)])]
    window = calc_price(Usage(input_tokens=1), MODEL, provider_id=PROVIDER).model.context_window
    assert window is not None
    most = billed(MODEL, PROVIDER, input_tokens=window, output_tokens=1)
    assert prices.estimate(huge, {"max_tokens": 1}, None, MODEL, PROVIDER, at=AT) == most


@dataclass(init=False)
class Wrapped(WrapperModel):
    """A model with something around it."""


def test_a_model_is_estimated_by_what_serves_it() -> None:
    """Settings of the model count, wrappers do not; a fallback list may pay for each of its models."""
    parameters = ModelRequestParameters()
    one = prices.estimate_of(model(), ASKED, None, parameters, at=AT)
    assert one is not None
    assert prices.estimate_of(Wrapped(model()), ASKED, None, parameters, at=AT) == one
    assert prices.estimate_of(FallbackModel(model(), Wrapped(model())), ASKED, None, parameters, at=AT) == 2 * one
    short = prices.estimate_of(model(settings={"max_tokens": 5}), ASKED, None, parameters, at=AT)
    assert short is not None
    assert short < one
    for unknown in (TestModel(), model("nobody-knows"), FallbackModel(model(), model("nobody-knows"))):
        assert prices.estimate_of(unknown, ASKED, None, parameters, at=AT) is None


def test_a_price_that_is_unknown_is_said() -> None:
    """By the name under which it was looked for."""
    assert "openai:nobody-knows is unknown" in prices.unknown("nobody-knows", "openai")


def test_a_model_is_sent_a_share_of_its_window() -> None:
    """Of the smallest one of a list; None if one is unknown."""
    known = prices.most_input(model())
    assert known is not None
    assert 50_000 < known < 1_000_000
    assert prices.most_input(FallbackModel(model(), Wrapped(model()))) == known
    assert prices.most_input(FallbackModel(model(), model("nobody-knows"))) is None
