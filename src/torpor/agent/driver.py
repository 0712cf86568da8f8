"""The turn driver: one turn of an agent is one answer of its model and the tool calls in it, closed by a checkpoint.

pydantic-ai's own loop runs as a guest of the turn (`sdk.guest`) and goes node by node until the tools of one answer are
settled. What it then holds is split: messages that a model has answered are appended to the state's rows, once; the request
that the next model call will answer is the state's tail. A turn begins from a bounded end of the rows, so taking up a run
costs the same after five turns and after five thousand (G9).

Between two turns nothing of pydantic-ai is alive, so a sleeping agent keeps no coroutine; a turn that is waiting for a
person is put away in the middle, and when it wakes the journal gives its guest what was there already.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai import CallToolsNode, ModelRequestNode, ModelResponse, RunUsage
from pydantic_ai.messages import ToolCallPart
from pydantic_graph import End

from torpor.agent.durable import Durable
from torpor.agent.state import AgentState
from torpor.agent.transcript import read, stored
from torpor.errors import Interrupted
from torpor.sdk.guest import Guest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pydantic_ai.messages import ModelMessage

    from torpor.agent.declared import Declared
    from torpor.sdk.context import Context

MESSAGE = "message"
"""The signal by which people speak to an agent."""
MOST_MESSAGES = 200
"""So many closed messages are read when a turn begins; the window of a call is cut from them."""


@dataclass(slots=True)
class Played:
    """What a turn came to."""

    closed: list[ModelMessage]
    tail: list[ModelMessage]
    usage: RunUsage
    final: bool
    output: Any = None
    interrupted: bool = False


def program(declared: Declared) -> Callable[[Context, Any], Coroutine[Any, Any, Any]]:
    """Return the flow that drives an agent: its input is the prompt, its result the agent's output."""

    async def turn(ctx: Context, state: Any) -> Any:
        return await drive(declared, ctx, state if isinstance(state, AgentState) else AgentState(prompt=state))

    turn.__name__ = turn.__qualname__ = declared.name
    return turn


async def drive(declared: Declared, ctx: Context, state: AgentState) -> Any:
    """Do one turn: hear what was said meanwhile, let the model answer and its tools act, and say how it goes on."""
    if ctx.heard(MESSAGE):
        state.prompt = joined(state.prompt, await ctx.receive(MESSAGE))
    history = [read(one) for one in [*await state.messages.last(MOST_MESSAGES), *state.tail]]
    guest = Guest(ctx)
    try:
        played = await guest.run(play(declared, guest, ctx, state, history))
    except Interrupted:  # the model was, or what leads up to it: nothing of this turn is kept but what was asked
        state.prompt = joined(state.prompt, await ctx.receive(MESSAGE))
        return ctx.again(state)
    state.messages.extend(stored(message) for message in played.closed)
    state.tail = [stored(message) for message in played.tail]
    state.prompt, state.usage = None, {name: value for name, value in asdict(played.usage).items() if value}
    if played.final and not declared.conversation and not ctx.heard(MESSAGE):
        return played.output
    if played.final or played.interrupted:
        if played.final:
            ctx.show(played.output)
        state.prompt = await ctx.receive(MESSAGE)
    return ctx.again(state)


def joined(prompt: Any, message: Any) -> Any:
    """Return a prompt with what was said after it."""
    if prompt is None:
        return message
    if isinstance(prompt, str) and isinstance(message, str):
        return f"{prompt}\n\n{message}"
    return [*_listed(prompt), *_listed(message)]


def _listed(content: Any) -> list[Any]:
    return list(content) if isinstance(content, list | tuple) else [content]


async def play(declared: Declared, guest: Guest, ctx: Context, state: AgentState, history: list[ModelMessage]) -> Played:
    """Let pydantic-ai go on until the tools of one answer are settled, or it has its output. Runs on the worker's loop."""
    durable = Durable(declared, guest, ctx.turn, _ids(history))
    agent = declared.agent
    async with agent.iter(
        state.prompt,
        message_history=history or None,
        deps=await declared.make_deps(),
        usage=RunUsage(**state.usage),
        conversation_id=ctx.run_id,
        capabilities=[durable],
        infer_name=False,
    ) as run:
        node: Any = run.next_node
        answered = False
        while not isinstance(node, End) and not (answered and isinstance(node, ModelRequestNode)):
            answered = answered or isinstance(node, CallToolsNode)
            node = await run.next(node)
        messages = run.all_messages()
        if isinstance(node, End):
            assert run.result is not None
            closed, tail = split(messages)
            return Played(closed, tail, run.usage, final=True, output=run.result.output)
        closed, tail = split([*messages, node.request])
        return Played(closed, tail, run.usage, final=False, interrupted=durable.interrupted)


def split(messages: list[ModelMessage]) -> tuple[list[ModelMessage], list[ModelMessage]]:
    """Return what this turn closed, and what is still open: the newest answer with what it answers, and what follows it."""
    answers = [n for n, message in enumerate(messages) if isinstance(message, ModelResponse)]
    newest = answers[-1]
    before = answers[-2] + 1 if len(answers) > 1 else 0
    return messages[before : newest + 1], messages[newest + 1 :]


def _ids(history: list[ModelMessage]) -> set[str]:
    return {
        part.tool_call_id
        for message in history
        if isinstance(message, ModelResponse)
        for part in message.parts
        if isinstance(part, ToolCallPart)
    }
