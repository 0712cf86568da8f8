"""What a tool gave back, as the journal keeps it: a result, or what the model is told instead.

Two things that a tool may raise are results and not errors: `ModelRetry` (the model is to call again, better) and
`ToolFailed` (the model is to know that it failed). They are recorded, so a resumed turn tells the model the same. Two others
are questions, `ApprovalRequired` and `CallDeferred`: what is recorded is that the tool asked, never an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_ai import ToolReturn
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed

from torpor.core.wait import SAID_FAILED, SETTLED
from torpor.errors import UnstorableValue, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from torpor.errors import StepFailed

ASKS = "asks"
DEFERS = "defers"
OPENS = "opens"
"""It is to be recorded call by call (`agent.inside`)."""
SETTLED_BY = "by"
"""Who said of an unknown call what it gave back."""
_OUTCOMES = frozenset({"value", "retry", "failed", ASKS, DEFERS, OPENS})
"""One of these is in every outcome."""


async def kept(result: Awaitable[Any]) -> dict[str, Any]:
    """Wait for a tool and return what became of it, to be recorded. What else it raises goes through."""
    try:
        value = await result
    except ModelRetry as retry:
        return {"retry": retry.message}
    except ToolFailed as failed:
        return {"failed": failed.message}
    except ApprovalRequired as asked:
        return {ASKS: _why(asked.metadata) or True}
    except CallDeferred:
        return {DEFERS: True}
    if isinstance(value, ToolReturn):
        parts = {"content": value.content, "metadata": value.metadata, "tools": value.tools}
        return {"value": value.return_value, **{name: part for name, part in parts.items() if part is not None}}
    return {"value": value}


def _why(metadata: Any) -> str:
    """Return in a line why a tool asks, as its author says it to `ApprovalRequired`."""
    if not isinstance(metadata, dict):
        return ""
    return ", ".join(f"{name}: {value}" for name, value in metadata.items())


def settled(result: Any, by: str) -> dict[str, Any]:
    """Return the outcome of a call of which a person says what it gave back."""
    return {"value": result, SETTLED_BY: by}


def read(recorded: Any) -> dict[str, Any]:
    """Return an outcome as it was recorded.

    What a person said was once recorded as it was. If one of an outcome's words is in it, it was read as one, and still is;
    else it is the result.
    """
    if isinstance(recorded, dict) and not _OUTCOMES.isdisjoint(recorded):
        return recorded
    return {"value": recorded}


def given(outcome: dict[str, Any], told: str = "") -> Any:
    """Return what was recorded as the toolset is to return it; raises what it is to raise, UsageError for a deferred call.

    `told` is for the model, beside the result: that a person changed something.
    """
    if "retry" in outcome:
        raise ModelRetry(outcome["retry"])
    if "failed" in outcome:
        raise ToolFailed(outcome["failed"])
    if DEFERS in outcome:
        message = "a tool raised CallDeferred: an agent of torpor waits for nobody outside"
        raise UsageError(message, hint="let the tool itself ask, or wait for a callback in a flow")
    content = outcome.get("content")
    if told:
        content = told if content is None else [told, *([content] if isinstance(content, str) else content)]
    if content is None and outcome.keys() <= {"value", SETTLED_BY}:
        return outcome["value"]
    return ToolReturn(outcome["value"], content=content, metadata=outcome.get("metadata"), tools=outcome.get("tools"))


def failure(name: str, failed: StepFailed) -> str:
    """Return what the model is told of a call that failed for good. A result that cannot be kept is none to call again for."""
    if failed.kind == UnstorableValue.__name__:
        where = failed.detail.replace(
            f"the result of {name}.value", "its result", 1
        )  # in an outcome it stands as `value`
        return f"{name} was called, and what it gave back cannot be kept: {where}"
    if failed.kind == SETTLED:
        return f"{name} failed: {SAID_FAILED}{f': {failed.detail}' if failed.detail != SAID_FAILED else ''}"
    hint = f" (hint: {failed.hint})" if failed.hint else ""
    return f"{name} failed: {failed.kind}: {failed.detail}{hint}"
