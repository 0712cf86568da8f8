"""A stay: pydantic-ai's own run of an agent, alive from turn to turn while a worker goes on with the run.

Its loop stands in a task of its own, because what it opens (an MCP server's connection, a cancel scope) must be closed by the
task that opened it. Each turn of torpor's hands its guest in, lets the loop go on until the tools of one answer are settled,
and takes out what that came to; in between the loop stands still. Nothing is lost with it: it was begun from the state of a
checkpoint and another one is begun from the next, wherever that is (G9, G14).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai import CallToolsNode, ModelRequestNode, ModelResponse, RunUsage, UsageLimits
from pydantic_ai.messages import ToolCallPart
from pydantic_graph import End

from torpor.agent.conversation import Conversation
from torpor.agent.durable import Durable
from torpor.agent.servers import connected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.messages import ModelMessage

    from torpor.agent.declared import Declared
    from torpor.agent.remembering import Remembered
    from torpor.sdk.guest import Guest


LONG = 300
"""So many messages a loop may gather beyond twice what it began with."""


@dataclass(slots=True)
class Played:
    """What a turn came to."""

    closed: Sequence[ModelMessage]
    tail: Sequence[ModelMessage]
    usage: RunUsage
    final: bool
    output: Any = None
    interrupted: bool = False
    woke: str = ""
    """What a person or a child settled in this turn, if anything was waited for."""
    slept_seconds: float = 0.0
    """For how long that was waited for."""
    seconds: float = 0.0
    """For how long the loop was at work."""


class Stay:
    """One agent's loop in one worker."""

    def __init__(
        self, declared: Declared, run_id: str, prompt: Any, remembered: Remembered, usage: RunUsage, steps: int
    ) -> None:
        """Begin from what a checkpoint holds, after so many steps; nothing runs before the first turn is played."""
        self._declared = declared
        self._run_id = run_id
        self._prompt = prompt
        self._remembered = remembered
        self._usage = usage
        self._steps = steps
        self._began = 0.0
        self._living: asyncio.Task[None] | None = None
        self._over = False
        """Whether it has said its last, and is about to close what it had opened."""
        self._turn: asyncio.Future[tuple[Guest, int]]
        self._played: asyncio.Future[Played]
        self.next_turn = 0
        """The turn that it can go on with."""
        self._length = len(remembered.history)

    @property
    def long(self) -> bool:
        """Whether it holds so many messages that another one should begin from the end of the conversation."""
        return self._length > 2 * len(self._remembered.history) + LONG

    async def play(self, guest: Guest, turn: int) -> Played:
        """Go on until the tools of one answer are settled, or there is an output. Runs on the worker's loop, as a guest."""
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        if self._living is None:
            self._turn = loop.create_future()
            self._living = loop.create_task(self._live())
        self._played = loop.create_future()
        self._turn.set_result((guest, turn))
        self.next_turn = turn + 1
        return await self._played

    def end(self) -> asyncio.Task[None] | None:
        """Let it go: the run is put away, or goes on from elsewhere. Return what then closes what it had opened."""
        if self._living is not None and not self._over:
            self._living.cancel()
        return self._living

    async def _live(self) -> None:
        try:
            await self._go_on()
        except Exception as error:  # noqa: BLE001 - whatever it is, the turn is to know
            if not self._played.done():
                self._played.set_exception(error)
        finally:
            if not self._played.done():
                self._played.cancel()

    async def _go_on(self) -> None:
        declared, remembered = self._declared.fresh(self._run_id), self._remembered
        history = list(remembered.history)
        window = declared.window_for(model_of(declared.agent))
        conversation = Conversation(declared, window, remembered.before, remembered.pinned, _ids(history))
        async with (
            connected(declared.agent.toolsets, declared.name, self._run_id),
            declared.agent.iter(
                self._prompt,
                message_history=history or None,
                deps=await declared.make_deps(self._run_id),
                usage=self._usage,
                usage_limits=UsageLimits(request_limit=None),  # a life may be long; what bounds it is its budget
                conversation_id=self._run_id,
                capabilities=[Durable(conversation)],
                infer_name=False,
            ) as run,
        ):
            run.ctx.state.run_step = self._steps
            node: Any = run.next_node
            while not isinstance(node, End):
                guest, turn = await self._turn
                self._turn = asyncio.get_running_loop().create_future()
                conversation.enter(guest, turn)
                node = await _one_turn(run, node)
                messages = run.all_messages()
                self._length = len(messages)
                if isinstance(node, End):
                    closed, tail = split(messages)
                    output = run.result.output if run.result is not None else None
                    self._hand_out(Played(closed, tail, run.usage, final=True, output=output))
                else:
                    closed, tail = split([*messages, node.request])
                    played = Played(closed, tail, run.usage, final=False)
                    played.interrupted = conversation.interrupted
                    played.woke, played.slept_seconds = conversation.woke, conversation.slept_seconds
                    self._hand_out(played)

    def _hand_out(self, played: Played) -> None:
        self._over = self._over or played.final
        if not self._played.done():
            played.seconds = self._played.get_loop().time() - self._began
            self._played.set_result(played)


def model_of(agent: Any) -> Any:
    """Return the model that an agent asks, as far as it is known before it is asked: a model, or None for a mere name."""
    model = agent.model
    return model if hasattr(model, "model_name") else None


async def _one_turn(run: Any, node: Any) -> Any:
    """Run pydantic-ai's nodes until the next one would ask the model again, or there is an output."""
    answered = False
    while not isinstance(node, End) and not (answered and isinstance(node, ModelRequestNode)):
        answered = answered or isinstance(node, CallToolsNode)
        node = await run.next(node)
    return node


def split(messages: Sequence[ModelMessage]) -> tuple[Sequence[ModelMessage], Sequence[ModelMessage]]:
    """Return what this turn closed, and what is still open: the newest answer with what it answers, and what follows it."""
    newest = next(n for n in range(len(messages) - 1, -1, -1) if isinstance(messages[n], ModelResponse))
    before = newest
    while before > 0 and not isinstance(messages[before - 1], ModelResponse):
        before -= 1
    return messages[before : newest + 1], messages[newest + 1 :]


def _ids(history: Sequence[ModelMessage]) -> set[str]:
    return {
        part.tool_call_id
        for message in history
        if isinstance(message, ModelResponse)
        for part in message.parts
        if isinstance(part, ToolCallPart)
    }
