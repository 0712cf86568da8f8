"""What model calls cost: micro-units of a dollar, from the prices that genai-prices knows, rounded up.

A price that nobody knows is None and never nothing, so whoever spends without knowing can say so (`unknown`). A provider that
reports a cost itself (a gateway) is believed. What a call may cost is estimated before it, too high rather than too low:

    input     every message, instruction and tool definition, counted as the window counts (`window.tokens_of`), as if nothing
              came from the provider's cache; more where writing into the cache costs more and the settings ask for it;
              `NATIVE_TOKENS` for each tool that the provider runs itself, because what such a tool reads is input as well
    output    `max_tokens` of the settings, else what the model is known to give at most, else `OUTPUT_TOKENS`

and never more than the model's window holds. A call that costs more than its estimate is spent all the same. Of a fallback
list every model may be paid before one gives an answer that is accepted: what may be spent is the sum.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any

from genai_prices import Usage, calc_price
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import merge_model_settings

from torpor.agent.window import content_tokens, text_tokens, tokens_of
from torpor.core.money import MICROS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from genai_prices.types import PriceCalculation
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.usage import RequestUsage, RunUsage

OUTPUT_TOKENS = 16_384
"""What a model is taken to give at most if neither the settings nor the model's description say so."""
NATIVE_TOKENS = 20_000
"""What a tool that the provider runs itself is taken to read in one call."""
WINDOW_SHARE = 0.7
_UNBILLED = frozenset({"script", "test", "function"})
_ONE = Usage(input_tokens=1, output_tokens=1)
_COUNTED = ("input_tokens", "output_tokens", "input_audio_tokens", "output_audio_tokens", "audio_seconds")


# what it cost --------------------------------------------------------------------------------------------------------
def cost(
    usage: RequestUsage | RunUsage,
    model_name: str | None,
    provider: str | None,
    *,
    url: str | None = None,
    at: datetime | None = None,
    details: dict[str, Any] | None = None,
) -> int | None:
    """Return what a usage cost in micro-units, rounded up; None if the price, or what was used, is unknown.

    `url` is the provider's address, which tells more than its name; `at` the moment of the call, because prices change;
    `details` what the provider said beside the answer, such as the tier that served it.
    """
    if usage.cost is not None:
        return _micros(usage.cost)
    measured = any(getattr(usage, name, 0) for name in _COUNTED)
    if usage.unmeasured_requests or not measured:
        return None
    found = _price(usage, model_name, provider, url, at, details)
    return None if found is None else _micros(found.total_price)


def cost_of(response: ModelResponse) -> int | None:
    """Return what an answer cost, with the answers that a fallback list rejected before it; None if any price is unknown."""
    own = cost(
        response.usage,
        response.model_name,
        response.provider_name,
        url=response.provider_url,
        at=response.timestamp,
        details=response.provider_details,
    )
    before = [
        cost(attempt.usage, attempt.model_name, attempt.provider_name, at=attempt.timestamp)
        for attempt in response.failed_attempts or ()
        if attempt.usage is not None
    ]
    known = [one for one in (own, *before) if one is not None]
    return sum(known) if len(known) == 1 + len(before) else None


def costs_nothing(model: Model) -> bool:
    """Whether a model has no provider who could send a bill: a Script, pydantic-ai's TestModel, a function."""
    return all(one.system in _UNBILLED for one in models_of(model))


def unknown(model_name: str, provider: str | None) -> str:
    """Return what people are told about a model whose price is unknown."""
    return (
        f"{_unknown(model_name, provider)}: its calls are not counted in a budget of dollars; "
        "Budget(model_calls=..., tokens=...) bounds them"
    )


def unknown_wish(model_name: str, provider: str | None) -> str:
    """Return what a person is told who decides about money for a model whose price is unknown."""
    return f"{_unknown(model_name, provider)}: any amount more, or once, lets its calls through, and counts none"


def _unknown(model_name: str, provider: str | None) -> str:
    name = model_name.strip(":")  # that of a function ends so, without one that streams
    if provider and name != provider and not name.startswith(f"{provider}:"):
        name = f"{provider}:{name}"
    return f"the price of {name} is unknown"


# what it may cost ----------------------------------------------------------------------------------------------------
def estimate(  # noqa: PLR0913 - what a price depends on
    messages: Sequence[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters | None,
    model_name: str,
    provider: str | None,
    *,
    url: str | None = None,
    at: datetime | None = None,
    most_output: int | None = None,
    tokens: Callable[[ModelMessage], int] = tokens_of,
) -> int | None:
    """Return what a call may cost at most in micro-units, rounded up; None if the model's price is unknown.

    `most_output` is how many tokens the model gives at most, if that is known; `tokens` counts a message.
    """
    chosen = dict(settings or {})
    asked = chosen.get("max_tokens")
    limits = [limit for limit in (asked, most_output) if isinstance(limit, int) and limit > 0]
    output = min(limits, default=OUTPUT_TOKENS)
    tier = {"service_tier": chosen["service_tier"]} if isinstance(chosen.get("service_tier"), str) else None
    probe = _price(_ONE, model_name, provider, url, at, tier)
    if probe is None:
        return None
    counted = input_tokens(messages, parameters, tokens)
    if (window := probe.model.context_window) is not None:
        counted, output = min(counted, window), min(output, window)
    ways = [Usage(input_tokens=counted, output_tokens=output, **cached) for cached in _written(chosen, counted)]
    prices = [_price(way, model_name, provider, url, at, tier) for way in ways]
    return max((_micros(price.total_price) for price in prices if price is not None), default=None)


def estimate_of(
    model: Model,
    messages: Sequence[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters | None,
    *,
    at: datetime | None = None,
    tokens: Callable[[ModelMessage], int] = tokens_of,
) -> int | None:
    """Return what a call of a model may cost at most; of a fallback list the sum. None if any price is unknown."""
    found = [
        estimate(
            messages,
            merge_model_settings(one.settings, settings),
            parameters,
            one.model_name,
            one.system,
            url=_url(one),
            at=at,
            most_output=_most_output(one),
            tokens=tokens,
        )
        for one in models_of(model)
    ]
    known = [amount for amount in found if amount is not None]
    return sum(known) if len(known) == len(found) else None


def most_input(model: Model) -> int | None:
    """Return how many tokens of messages are sent at most: a share of the smallest window of the models that may serve it.

    The rest is for instructions, tools, and the answer. None if nobody knows a model's window.
    """
    found = [
        None
        if (price := _price(_ONE, one.model_name, one.system, _url(one), None, None)) is None
        else price.model.context_window
        for one in models_of(model)
    ]
    known = [window for window in found if window]
    return round(min(known) * WINDOW_SHARE) if known and len(known) == len(found) else None


def models_of(model: Model) -> Iterator[Model]:
    """Yield the models that may serve a call: those of a fallback list, without what is wrapped around them."""
    if isinstance(model, WrapperModel):
        yield from models_of(model.wrapped)
    elif isinstance(model, FallbackModel):
        for one in model.models:
            yield from models_of(one)
    else:
        yield model


def input_tokens(
    messages: Sequence[ModelMessage],
    parameters: ModelRequestParameters | None,
    tokens: Callable[[ModelMessage], int] = tokens_of,
) -> int:
    """Return how many tokens a call sends at most."""
    counted = sum(map(tokens, messages))
    instructions = next((said for one in reversed(messages) if (said := getattr(one, "instructions", None))), "")
    if parameters is None:
        return counted + text_tokens(instructions)
    parts = parameters.instruction_parts or ()
    counted += max(text_tokens(instructions), sum(text_tokens(part.content) for part in parts))
    for tool in (*parameters.function_tools, *parameters.output_tools):
        counted += content_tokens([tool.name, tool.description or "", tool.parameters_json_schema])
    if parameters.output_object is not None:
        counted += content_tokens(parameters.output_object.json_schema)
    return counted + NATIVE_TOKENS * len(parameters.native_tools)


# prices --------------------------------------------------------------------------------------------------------------
def _price(
    usage: object,
    model_name: str | None,
    provider: str | None,
    url: str | None,
    at: datetime | None,
    details: dict[str, Any] | None,
) -> PriceCalculation | None:
    """Return a price by the provider's address if that is known, else by its name; None for what nobody knows."""
    if not model_name:
        return None
    where: list[dict[str, str]] = [{"provider_api_url": url}] if url else []
    where.append({"provider_id": provider} if provider else {})
    for place in where:
        try:
            found = calc_price(usage, model_name, genai_request_timestamp=at, price_context=details, **place)
        except (LookupError, ValueError):  # nobody knows it, or what was used contradicts itself
            continue
        if any(price is not None for price in vars(found.model_price).values()):
            return found
    return None


def _written(settings: dict[str, Any], tokens: int) -> list[dict[str, int]]:
    """Return the ways in which input may be counted: as it is, and as written into the cache if the settings ask for that."""
    asked = [str(value) for key, value in settings.items() if "cache" in key and value]
    if not asked:
        return [{}]
    hour = {"cache_write_tokens": tokens, "cache_write_1h_tokens": tokens}
    return [{}, {"cache_write_tokens": tokens}, *([hour] if any("1h" in value for value in asked) else [])]


def _most_output(model: Model) -> int | None:
    known = dict(model.profile).get("anthropic_max_output_tokens")
    return known if isinstance(known, int) else None


def _url(model: Model) -> str | None:
    """Return a model's address; one that has none yet is known by its name."""
    try:
        return model.base_url
    except (AttributeError, RuntimeError):
        return None


def _micros(amount: Decimal) -> int:
    return int((amount * MICROS).to_integral_value(rounding=ROUND_CEILING))
