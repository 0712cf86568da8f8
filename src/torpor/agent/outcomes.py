"""What a tool gave back, as the journal keeps it: a result, or what the model is told instead.

Two things that a tool may raise are results and not errors: `ModelRetry` (the model is to call again, better) and
`ToolFailed` (the model is to know that it failed). They are recorded, so a resumed turn tells the model the same. Two others
are questions, `ApprovalRequired` and `CallDeferred`: what is recorded is that the tool asked, never an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_ai import ToolReturn
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed

from torpor.errors import UnstorableValue, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from torpor.errors import StepFailed

ASKS = "asks"
DEFERS = "defers"


async def kept(result: Awaitable[Any]) -> dict[str, Any]:
    """Wait for a tool and return what became of it, to be recorded. What else it raises goes through."""
    try:
        value = await result
    except ModelRetry as retry:
        return {"retry": retry.message}
    except ToolFailed as failed:
        return {"failed": failed.message}
    except ApprovalRequired:
        return {ASKS: True}
    except CallDeferred:
        return {DEFERS: True}
    if isinstance(value, ToolReturn):
        parts = {"content": value.content, "metadata": value.metadata, "tools": value.tools}
        return {"value": value.return_value, **{name: part for name, part in parts.items() if part is not None}}
    return {"value": value}


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
    if content is None and len(outcome) == 1:
        return outcome["value"]
    return ToolReturn(outcome["value"], content=content, metadata=outcome.get("metadata"), tools=outcome.get("tools"))


def failure(name: str, failed: StepFailed) -> str:
    """Return what the model is told of a call that failed for good. A result that cannot be kept is none to call again for."""
    if failed.kind == UnstorableValue.__name__:
        return f"{name} was called, and what it gave back cannot be kept: {failed.detail}"
    return f"{name} failed: {failed.kind}: {failed.detail}"
