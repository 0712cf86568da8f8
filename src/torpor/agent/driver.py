"""The turn driver: one turn of an agent is one answer of its model and the tool calls in it, closed by a checkpoint.

pydantic-ai's own loop (`agent.stay`) runs as a guest of the turn (`sdk.guest`) and goes node by node until the tools of one
answer are settled. What it then holds is split: messages that a model has answered are appended to the state's rows, once;
the request that the next model call will answer is the state's tail. A stretch begins from a bounded end of the rows, so
taking up a run costs the same after five turns and after five thousand (G9); while a worker goes on with the run, the loop
stays alive and nothing is read again.

A run that is put away keeps no coroutine. One that waits for a person is put away in the middle of a turn, and when it wakes
the journal gives a new guest what was there already.
"""

from __future__ import annotations

from dataclasses import asdict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from pydantic_ai import RunUsage
from pydantic_ai.exceptions import UnexpectedModelBehavior, UserError

from torpor.agent import limits, planning, waking
from torpor.agent.conversation import speaks
from torpor.agent.declared import AGENT
from torpor.agent.hearing import MESSAGE, listen, told
from torpor.agent.prompts import checked, joined
from torpor.agent.remembering import remember
from torpor.agent.state import AgentState
from torpor.agent.stay import Played, Stay, model_of
from torpor.agent.transcript import mended, stored
from torpor.agent.watchdog import Recent, seen
from torpor.errors import Interrupted, Stopped
from torpor.sdk.guest import Guest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pydantic_ai.messages import ModelMessage

    from torpor.agent.declared import Declared
    from torpor.sdk.context import Context

_STAY = "stay"


def program(declared: Declared) -> Callable[[Context, Any], Coroutine[Any, Any, Any]]:
    """Return the flow that drives an agent: its input is the prompt, its result the agent's output."""

    async def turn(ctx: Context, state: Any) -> Any:
        return await drive(
            declared, ctx, state if isinstance(state, AgentState) else AgentState(checked(state, declared.name))
        )

    turn.__name__ = turn.__qualname__ = declared.name
    setattr(turn, AGENT, declared)
    return turn


async def drive(declared: Declared, ctx: Context, state: AgentState) -> Any:
    """Do one turn: hear what was said meanwhile, let the model answer and its tools act, and say how it goes on."""
    plans = declared.planning
    if ctx.turn == 1:
        await limits.begin(ctx, declared.budget, state)
    if state.listens:
        await _listen(ctx, state)
    try:
        if plans is not None and await planning.before(plans, ctx, state):
            return ctx.again(state)
        if declared.reentry and (slept := waking.tell(state, least_seconds=waking.LONG_SECONDS)):
            state.prompt = slept if state.prompt is None else joined(slept, state.prompt)
        state.prompt = await told(ctx, state.prompt)
        await limits.keep(ctx, declared.name, declared.budget, state)
        played = await _play(planning.acting(declared, state), ctx, state)
    except Interrupted:  # the model was, or what leads up to it: nothing of this turn is kept but what was asked
        state.prompt = joined(state.prompt, await listen(ctx))
        return ctx.again(state)
    except (UnexpectedModelBehavior, UserError) as error:
        error.add_note(_next_step(error, ctx.run_id))
        raise
    _keep(state, played)
    waking.keep(state, played.slept_seconds, played.woke, least_seconds=waking.LONG_SECONDS)
    try:
        await watch(ctx, declared, state, played)
    except Interrupted:
        state.prompt = await listen(ctx)
        return ctx.again(state)
    if played.final and plans is not None and planning.finished(plans, ctx, state, played.output):
        return ctx.again(state)
    if played.final and not declared.conversation and not ctx.heard(MESSAGE):
        return played.output
    if played.final:
        ctx.show(played.output)
    state.listens = played.final or played.interrupted
    return ctx.again(state)


async def _listen(ctx: Context, state: AgentState) -> None:
    """Wait for what somebody says next. A turn begins so, not ends: who wakes here has nothing to play once more before."""
    began = waking.moment(ctx)
    state.prompt, state.listens = joined(state.prompt, await listen(ctx)), False
    waking.note(ctx, state, began, "somebody wrote", least_seconds=waking.LONG_SECONDS)


def _next_step(error: Exception, run: str) -> str:
    """Return what a person can do about an error of pydantic-ai's own."""
    if isinstance(error, UserError):  # a key that is missing, a model that nobody knows, an agent that cannot be
        return f"mend it where the worker runs, then torpor retry {run}"
    return f"torpor retry {run} asks the model again; Agent(..., retries=3) lets it try more often"


def _keep(state: AgentState, played: Played) -> None:
    """Take into the state what a turn came to."""
    spoken = [n for n, message in enumerate(played.closed) if speaks(message)]
    state.said = len(state.messages) + spoken[-1] if spoken else state.said
    state.messages.extend(_kept(state, message) for message in played.closed)
    state.tail = [_own(message) for message in played.tail]
    state.prompt, state.usage = None, {name: value for name, value in asdict(played.usage).items() if value}
    state.awake += played.seconds
    state.steps += 1


def _kept(state: AgentState, message: ModelMessage) -> dict[str, Any]:
    """Return a closed message as it is stored: with its instructions if they are others than those of the one before.

    pydantic-ai makes them anew for each request it sends, and what was sent long ago is for people.
    """
    tree = _own(message)
    said = tree.get("instructions")
    if said is not None:
        digest = blake2b(said.encode(), digest_size=8).hexdigest()
        if digest == state.instructed:
            del tree["instructions"]
        state.instructed = digest
    return tree


def _own(message: ModelMessage) -> dict[str, Any]:
    """Return a message as it is stored, without the ids that pydantic-ai gives its own run of the agent: a stay's."""
    tree = stored(message)
    tree.pop("run_id", None)
    tree.pop("conversation_id", None)
    return tree


async def watch(ctx: Context, declared: Declared, state: AgentState, played: Played) -> None:
    """Let a person look at an agent that does the same again and again. Raises Stopped if they want no more of it."""
    if declared.watchdog is None:
        return
    recent = Recent(**state.repeats)
    reason = declared.watchdog.look(recent, seen([*played.closed[-1:], *played.tail]))
    state.repeats = {name: value for name, value in asdict(recent).items() if value}
    if reason:
        question = f"{declared.name} seems to be stuck. {reason}. Shall it go on?"
        answer = await ctx.ask(question, choices=["go on", "stop"])
        if answer.value != "go on":
            message = f"{answer.by} stopped {declared.name}, which seemed to be stuck. {reason}"
            raise Stopped(message)


async def _play(declared: Declared, ctx: Context, state: AgentState) -> Played:
    """Let the agent's loop go on by a turn: the one that is alive here, or another one from the checkpoint."""
    guest = Guest(ctx)
    stay = guest.kept.pop(_STAY, None)
    fits = isinstance(stay, Stay) and stay.next_turn == ctx.turn and state.prompt is None
    if not (fits and isinstance(stay, Stay) and not stay.long):
        if stay is not None:
            stay.end()
        if state.prompt is not None:
            state.steps = 0
        remembered = await remember(state, declared.window_for(model_of(declared.agent)))
        stay = Stay(declared, ctx.run_id, mended(state.prompt), remembered, RunUsage(**state.usage), state.steps)
    guest.kept[_STAY] = stay
    played: Played = await guest.run(stay.play(guest, ctx.turn))
    return played
