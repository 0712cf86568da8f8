"""OpenTelemetry spans of an agent: the only file that knows the conventions for generative AI.

They are those of opentelemetry-semantic-conventions 1.42 (attributes `gen_ai.*`, in development, and since then in a
repository of their own, semantic-conventions-genai): what is called there is called so here and nowhere else.

    invoke_agent NAME      a stretch of the run: torpor's own span, under this name and with these attributes besides
      torpor.step model      an attempt of a model call
        chat MODEL             the request that was really made; pydantic-ai's own instrumentation writes it
      torpor.step refund     an attempt of a tool call
        execute_tool refund    the tool

What the journal answers has no span: nothing was asked. What was said is in no span unless the environment says so, as the
conventions have it: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true. Secrets that torpor resolved are struck (G15).
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from torpor.sdk.tracing import TRACED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opentelemetry.trace import Span, TracerProvider
    from pydantic_ai.models import Model
    from pydantic_ai.models.instrumented import InstrumentationSettings

    from torpor.sdk.steps import EffectContext

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable of the environment that lets prompts, answers, arguments and results into spans."""
_YES = frozenset({"true", "1", "span_only", "span_and_event"})
_OPERATION = "gen_ai.operation.name"
_AGENT = "gen_ai.agent.name"
_CONVERSATION = "gen_ai.conversation.id"
_TOOL, _TOOL_TYPE, _TOOL_CALL = "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.tool.call.id"
_ARGUMENTS, _RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
_ERROR = "error.type"
_MESSAGES_AS_SAID: Final = 6
"""pydantic-ai's form of messages in which a tool's result has the role `tool`, as in the conventions."""
_RAISES = {"failed": "ToolFailed", "retry": "ModelRetry"}
"""What a tool raised, by what is recorded of it (`agent.outcomes`)."""


def invocation(agent: str, run: str) -> tuple[str, dict[str, str | int]]:
    """Return the name and the attributes of a stretch in which an agent works."""
    return f"invoke_agent {agent}", {_OPERATION: "invoke_agent", _AGENT: agent, _CONVERSATION: run}


@contextmanager
def chat(agent: str, run: str, model: Model) -> Iterator[Model]:
    """Yield the model to be asked while this is open: a request of it has a span if this attempt is traced."""
    traced = TRACED.get()
    if traced is None:
        yield model
        return
    from opentelemetry import baggage, context, trace
    from pydantic_ai.models.instrumented import InstrumentedModel

    within = trace.set_span_in_context(traced.span)
    for name, value in ((_AGENT, agent), (_CONVERSATION, run)):
        within = baggage.set_baggage(name, value, within)  # what pydantic-ai says who asks from
    token = context.attach(within)
    try:
        yield InstrumentedModel(model, _settings(traced.provider, content=_wants_content()))
    finally:
        context.detach(token)


@lru_cache(maxsize=8)
def _settings(provider: TracerProvider, *, content: bool) -> InstrumentationSettings:
    from pydantic_ai.models.instrumented import InstrumentationSettings

    return InstrumentationSettings(
        tracer_provider=provider,
        include_content=content,
        include_binary_content=False,
        include_model_request_parameters=False,
        version=_MESSAGES_AS_SAID,
    )


@contextmanager
def tool(
    agent: str, ctx: EffectContext, name: str, call: str | None, args: Mapping[str, Any]
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Be the span of a tool that runs while this is open, if this attempt is traced. `call` is the provider's id of it.

    Yields what is to be told its outcome, as it is recorded.
    """
    traced = TRACED.get()
    if traced is None:
        yield _unheard
        return
    from opentelemetry import trace

    said = {_OPERATION: "execute_tool", _TOOL: name, _TOOL_TYPE: "function", _AGENT: agent, _CONVERSATION: ctx.run_id}
    if call:
        said[_TOOL_CALL] = call
    if _wants_content():
        said[_ARGUMENTS] = ctx.struck(_json(args))
    tracer = traced.provider.get_tracer("torpor")
    above = trace.set_span_in_context(traced.span)
    with (
        tracer.start_as_current_span(
            f"execute_tool {name}", above, attributes=said, record_exception=False, set_status_on_exception=False
        ) as span,
        _failing(span),
    ):

        def told(outcome: Mapping[str, Any]) -> None:
            raised = next((kind for word, kind in _RAISES.items() if word in outcome), None)
            if raised is not None:
                _fail(span, raised)
            if (
                _wants_content()
                and (found := outcome.get("value", outcome.get("failed", outcome.get("retry")))) is not None
            ):
                span.set_attribute(_RESULT, ctx.struck(_json(found)))

        yield told


@contextmanager
def _failing(span: Span) -> Iterator[None]:
    """Say of a span what was raised in it: its kind, for the text may tell what must not be told here."""
    try:
        yield
    except BaseException as error:
        _fail(span, type(error).__name__)
        raise


def _fail(span: Span, kind: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute(_ERROR, kind)
    span.set_status(StatusCode.ERROR, kind)


def _unheard(outcome: Mapping[str, Any]) -> None:
    del outcome


def _wants_content() -> bool:
    return os.environ.get(CONTENT, "").lower() in _YES


def _json(value: Any) -> str:
    from pydantic_core import to_jsonable_python

    try:
        return json.dumps(to_jsonable_python(value, fallback=repr), ensure_ascii=False)
    except Exception:  # noqa: BLE001 - whatever cannot be shown: the tool itself must not fail of it
        return type(value).__name__
