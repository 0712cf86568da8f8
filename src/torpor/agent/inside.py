"""What happens inside a tool: an agent that begins there is recorded call by call (`agent.nested`), if the tool allows it.

A tool is recorded as one call. The first time an agent that wants to be seen begins inside a `repeatable` one, that tool is
given up where it stands, which a repeatable tool allows, and the journal notes that it *opens*. From then on it is part of
the guest (`sdk.guest`): it runs again whenever the run wakes, and the agents inside get what is on record, as the one
outside does. What the tool gives back at last is a step of its own.

Inside, a call is known by the place of the tool and the way down from it: `model@0/researcher.1/2` is the second model call of
the first run of `researcher` in the tool call at place 0, and `publish@0/researcher.1/2/0` the first tool call in its answer.
Runs inside one tool are counted by their agent's name, so a tool has to begin them in the same order each time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_ai.exceptions import UserError

from torpor.agent import outcomes
from torpor.agent.conversation import Conversation
from torpor.core.effect import Safety
from torpor.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from torpor.agent.declared import Declared


class Opening(BaseException):
    """An agent began inside a tool that is being recorded as one call. No author's `except Exception` holds it up."""


@dataclass
class Inside(Conversation):
    """The conversation of an agent inside a tool: as one outside, with places below that tool."""

    scope: str = ""
    answer: str = field(init=False, default="")

    def next_attempt(self) -> str:
        """Return what the next attempt of a model call is known by."""
        self.answer = super().next_attempt()
        return f"{self.scope}/{self.answer}"

    def place_of(self, name: str, tool_call_id: str | None) -> str:
        """Return what a tool call is known by. Raises UsageError."""
        return f"{self.scope}/{self.answer}/{super().place_of(name, tool_call_id)}"


@dataclass
class Around:
    """A tool call of a durable agent, to agents that begin inside it."""

    conversation: Conversation
    name: str
    place: str
    safety: Safety
    loop: asyncio.AbstractEventLoop
    opened: bool = False
    """Whether it is part of the guest, so that calls inside can be recorded."""
    runs: Counter[str] = field(default_factory=Counter)
    inside: list[Inside] = field(default_factory=list)

    def begin(self, declared: Declared, model: Any) -> Inside:
        """Return the conversation of an agent that begins inside this tool. Raises Opening, UsageError."""
        what = f"agent {declared.name} runs inside the tool {self.name}"
        if self.safety is not Safety.REPEATABLE:
            message = f"{what}, which is `{self.safety}` and so is called once, as a whole"
            hint = f'safety={{"{self.name}": "repeatable"}} if only what is recorded inside it acts; or app.delegate'
            raise UsageError(message, hint=hint)
        if asyncio.get_running_loop() is not self.loop:
            message = f"{what}, in a thread, where its calls cannot be recorded"
            raise UsageError(message, hint=f"async def {self.name}, and await {declared.name}.run(...)")
        if not self.opened:
            raise Opening
        self.runs[declared.name] += 1
        scope = f"{self.place}/{declared.name}.{self.runs[declared.name]}"
        inside = Inside(declared, declared.window_for(model), scope=scope)
        inside.enter(self.conversation.guest, self.conversation.turn)
        self.inside.append(inside)
        return inside


_AROUND: ContextVar[Around | None] = ContextVar("torpor_around", default=None)


def around() -> Around | None:
    """Return the tool of a durable agent that this runs inside, or None."""
    return _AROUND.get()


async def whole(
    conversation: Conversation, name: str, place: str, safety: Safety, call: Callable[[], Awaitable[Any]]
) -> dict[str, Any]:
    """Call a tool that is recorded as one call; return its outcome, or that it opens. Raises what it raises."""
    token = _AROUND.set(Around(conversation, name, place, safety, asyncio.get_running_loop()))
    try:
        return await outcomes.kept(call())
    except Opening:
        return {outcomes.OPENS: True}
    except BaseExceptionGroup as several:  # the tool began several at once, in a group of tasks
        if several.subgroup(Opening) is None:
            raise
        return {outcomes.OPENS: True}
    except UserError as error:
        if "DeferredToolRequests" not in str(error):
            raise
        message = f"an agent inside the tool {name} needs a person's consent, and nobody sees it there"
        raise UsageError(message, hint="give that agent capabilities=[app.nested()], or use app.delegate") from error
    finally:
        _AROUND.reset(token)


async def opened(
    conversation: Conversation, name: str, place: str, call: Callable[[], Awaitable[Any]]
) -> dict[str, Any]:
    """Call a tool as a part of the guest; return its outcome, which is yet to be recorded. Raises Interrupted."""
    here = Around(conversation, name, place, Safety.REPEATABLE, asyncio.get_running_loop(), opened=True)
    token = _AROUND.set(here)
    try:
        return await outcomes.kept(call())
    except Interrupted:
        raise
    except Exception as error:  # noqa: BLE001 - the author's: the model is told, as of any tool that failed
        return {"failed": f"{name} failed: {type(error).__name__}: {error}"}
    finally:
        _AROUND.reset(token)
        for one in here.inside:
            conversation.interrupted = conversation.interrupted or one.interrupted
            if one.woke:
                conversation.waited(one.slept_seconds, one.woke)
