"""A runtime for durable agents: runs that wait, survive, and go on at the exact step.

The public face. Names are loaded when they are first used, so that `import torpor` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torpor.agent.app import App as App
    from torpor.agent.limits import Budget as Budget
    from torpor.agent.plan import Milestone as Milestone
    from torpor.agent.plan import Plan as Plan
    from torpor.agent.tools import ToolContext as ToolContext
    from torpor.agent.tools import tool_context as tool_context
    from torpor.client import Client as Client
    from torpor.core.effect import Safety as Safety
    from torpor.core.retry import RetryPolicy as RetryPolicy
    from torpor.errors import BudgetExceeded as BudgetExceeded
    from torpor.errors import ChildFailed as ChildFailed
    from torpor.errors import Conflict as Conflict
    from torpor.errors import Interrupted as Interrupted
    from torpor.errors import LeaseLost as LeaseLost
    from torpor.errors import NeedsPerson as NeedsPerson
    from torpor.errors import NotDone as NotDone
    from torpor.errors import NotFound as NotFound
    from torpor.errors import RateLimited as RateLimited
    from torpor.errors import RunCancelled as RunCancelled
    from torpor.errors import RunFailed as RunFailed
    from torpor.errors import StepFailed as StepFailed
    from torpor.errors import TorporError as TorporError
    from torpor.errors import UsageError as UsageError
    from torpor.runtime import run as run
    from torpor.sdk.again import Again as Again
    from torpor.sdk.asking import Answer as Answer
    from torpor.sdk.asking import Approval as Approval
    from torpor.sdk.context import Context as Context
    from torpor.sdk.context import days as days
    from torpor.sdk.context import hours as hours
    from torpor.sdk.context import minutes as minutes
    from torpor.sdk.context import seconds as seconds
    from torpor.sdk.hearing import Callback as Callback
    from torpor.sdk.hearing import Message as Message
    from torpor.sdk.keeping import Retention as Retention
    from torpor.sdk.rows import Rows as Rows
    from torpor.sdk.steps import CANNOT_TELL as CANNOT_TELL
    from torpor.sdk.steps import NOT_DONE as NOT_DONE
    from torpor.sdk.steps import EffectContext as EffectContext
    from torpor.sdk.steps import done as done

__version__ = "0.1.0"

_PLACES = {
    **dict.fromkeys(("Answer", "Approval"), "torpor.sdk.asking"),
    **dict.fromkeys(("Callback", "Message"), "torpor.sdk.hearing"),
    "Client": "torpor.client",
    "Safety": "torpor.core.effect",
    "RetryPolicy": "torpor.core.retry",
    "run": "torpor.runtime",
    "App": "torpor.agent.app",
    "Budget": "torpor.agent.limits",
    **dict.fromkeys(("Milestone", "Plan"), "torpor.agent.plan"),
    **dict.fromkeys(("ToolContext", "tool_context"), "torpor.agent.tools"),
    "Retention": "torpor.sdk.keeping",
    "Rows": "torpor.sdk.rows",
    "Again": "torpor.sdk.again",
    **dict.fromkeys(("Context", "days", "hours", "minutes", "seconds"), "torpor.sdk.context"),
    **dict.fromkeys(("CANNOT_TELL", "NOT_DONE", "EffectContext", "done"), "torpor.sdk.steps"),
    **dict.fromkeys(
        (
            "BudgetExceeded",
            "ChildFailed",
            "Conflict",
            "Interrupted",
            "LeaseLost",
            "NeedsPerson",
            "NotDone",
            "NotFound",
            "RateLimited",
            "RunCancelled",
            "RunFailed",
            "StepFailed",
            "TorporError",
            "UsageError",
        ),
        "torpor.errors",
    ),
}

__all__ = [*_PLACES, "__version__"]  # noqa: PLE0604 - the names of a dict


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    if name in _PLACES:
        value = getattr(import_module(_PLACES[name]), name)
        globals()[name] = value
        return value
    message = f"module 'torpor' has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted(__all__)
