"""How an agent follows its plan: who does the next milestone, who looks at the result, and when the planner is asked again.

What a plan needs besides the agent is done in turns of its own, each closed by a checkpoint: the plan is made, a worker does a
milestone as a child run, a person looks at a result, the planner revises. What the agent does itself is a conversation
per milestone, which begins with the words of `reentry` instead of all that was said before, and ends with an answer in
words. Once all is done one more conversation gives the answer of the agent's own type.

A planner's own model calls are those of a run of its own, a child as any other.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_ai.agent import WrapperAgent

from torpor.agent import plan as rules
from torpor.agent import reentry, waking
from torpor.agent.hearing import listen
from torpor.agent.plan import Plan, Progress
from torpor.agent.prompts import joined
from torpor.core.stream import MILESTONE, PLAN
from torpor.errors import ChildFailed, Interrupted, StepFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from torpor.agent.declared import Declared, Planning
    from torpor.agent.plan import Milestone
    from torpor.agent.state import AgentState
    from torpor.sdk.context import Context

_TRIES = 2


async def before(planning: Planning, ctx: Context, state: AgentState) -> bool:
    """Do what comes before the agent itself goes on. True: that was this turn. False: the agent's model is asked next.

    Raises UsageError for a plan that cannot be followed, ChildFailed or StepFailed for a planner that failed.
    """
    plan = state.plan
    if plan is None:
        await _make(planning, ctx, state)
        return True
    one = plan.next
    if plan.closing or (one is not None and one.state is Progress.DOING):
        return False
    if plan.due:
        await _revise(planning, ctx, state, plan)
        return True
    if one is None:
        plan.closing = True
        _converse(state, plan)
        return False
    if one.state is Progress.REVIEW:
        await _review(planning, ctx, state, plan, one)
        return True
    if one.worker is not None:
        await _send(planning, ctx, state, plan, one)
        return True
    rules.begin(one)
    _converse(state, plan)
    return False


def finished(planning: Planning, ctx: Context, state: AgentState, output: Any) -> bool:
    """Take the agent's answer as what its milestone came to. False: it is the answer of the run."""
    plan = state.plan
    if plan is None or plan.closing or plan.next is None:
        return False
    state.messages.extend(state.tail)
    state.tail, state.since = [], len(state.messages)
    _finish(planning, ctx, plan, plan.next, output)
    return True


def acting(declared: Declared, state: AgentState) -> Declared:
    """Return who answers next: within a milestone the agent answers in words, at the end as what its author said."""
    plan = state.plan
    if plan is None or plan.closing or getattr(declared.agent, "_output_validators", None):
        return declared  # pydantic-ai gives an agent with output validators no other type than its own
    in_words: Any = InWords(declared.agent)
    return replace(declared, agent=in_words)


class InWords(WrapperAgent[Any, Any]):
    """An agent whose answer is a text, whatever its own output is."""

    @asynccontextmanager
    async def iter(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        """Begin a run of it."""
        async with self.wrapped.iter(*args, **{**more, "output_type": str}) as run:
            yield run


# the plan


async def _make(planning: Planning, ctx: Context, state: AgentState) -> None:
    goal = state.goal if state.goal is not None else state.prompt
    complaint = ""
    for last in (False, True):
        try:
            given = await _ask(planning, ctx, goal, None, complaint)
            state.plan = rules.planned(given, planning.workers)
        except UsageError as error:
            if last or planning.function is not None:
                raise UsageError(f"the planner made no plan: {error.message}", hint=error.hint) from error
            complaint = error.message
        else:
            state.goal, state.prompt = goal, None
            _tell(ctx, state.plan, {PLAN: [one.title for one in state.plan.milestones]})
            return


async def _revise(planning: Planning, ctx: Context, state: AgentState, plan: Plan) -> None:
    """Ask the planner again. If it fails the plan stays as it is: what was planned is better than nothing."""
    try:
        given = await _ask(planning, ctx, state.goal, plan, "")
        if given is not None:
            plan = rules.revised(plan, given, planning.workers)
    except (UsageError, ChildFailed, StepFailed) as error:
        ctx.log.warning("the plan stays as it is: it could not be revised", error=str(error))
        _tell(ctx, plan, {PLAN: "stays as it is", "why": error.message})
    except Interrupted:  # as while the plan was made: what is said belongs to the goal, and the planner hears it
        state.goal = joined(state.goal, await listen(ctx))
        return
    else:
        _tell(ctx, plan, {PLAN: [one.title for one in plan.milestones]})
    plan.due = False
    state.plan = plan


async def _ask(planning: Planning, ctx: Context, goal: Any, plan: Plan | None, complaint: str) -> Any:
    """Ask the planner: an agent as a child run, a function as a step."""
    if planning.function is not None:
        return await ctx.step(planning.function, goal, *([] if plan is None else [plan]))
    words, others = spoken(goal)
    asked = reentry.planning(words, planning.workers, plan, complaint)
    return await ctx.child(planning.program, [asked, *others] if others else asked)


# a milestone


def _converse(state: AgentState, plan: Plan) -> None:
    """Begin a conversation that knows nothing of those before but what the plan says."""
    words, others = spoken(state.goal)
    asked = reentry.reentry(words, plan, waking.tell(state))
    state.prompt = [asked, *others] if others else asked
    state.tail, state.since = [], len(state.messages)


async def _send(planning: Planning, ctx: Context, state: AgentState, plan: Plan, one: Milestone) -> None:
    """Have a worker do a milestone, as a child run; one that fails leaves it to the agent itself."""
    began = waking.moment(ctx)
    words, others = spoken(state.goal)
    asked = reentry.errand(words, plan)
    worker = str(one.worker)
    try:
        output = await ctx.child(worker, [asked, *others] if others else asked, key=f"{one.attempt} {one.title}")
    except ChildFailed as failed:
        why = "was cancelled" if failed.kind == "Cancelled" else f"failed: {failed.kind}: {failed.detail}"
        rules.take_over(one, f"{worker} {why}")
        _tell(ctx, plan, {MILESTONE: one.title, "state": str(one.state), "why": f"{worker} {why}"})
        waking.note(ctx, state, began, f"{worker} {why.partition(':')[0]}")
    except Interrupted as interrupted:
        await _interrupted(ctx, one, interrupted)
    else:
        _finish(planning, ctx, plan, one, output)
        waking.note(ctx, state, began, f'{worker} finished "{one.title}"')


async def _review(planning: Planning, ctx: Context, state: AgentState, plan: Plan, one: Milestone) -> None:
    """Let a person look at what a milestone came to."""
    began = waking.moment(ctx)
    shows = {"result": one.result, "milestone": f"{plan.place} of {len(plan.milestones)}", "plan": outline(plan)}
    try:
        decision = await ctx.approval(f"accept {one.title}?", show=shows)
    except Interrupted as interrupted:
        await _interrupted(ctx, one, interrupted)
        return
    who = decision.by or "a person"
    if decision:
        rules.finish(plan, one, one.result, revise=planning.revises)
        _tell(ctx, plan, {MILESTONE: one.title, "state": str(one.state), "by": who})
        waking.note(ctx, state, began, f'{who} accepted "{one.title}"')
        return
    because = f": {decision.note}" if decision.note else ""
    why = f"did not accept the result{because}"
    rules.refuse(one, f"{who} {why}")
    _tell(ctx, plan, {MILESTONE: one.title, "state": str(one.state), "by": who, "why": why})
    waking.note(ctx, state, began, f'{who} did not accept "{one.title}"')


async def _interrupted(ctx: Context, one: Milestone, interrupted: Interrupted) -> None:
    """Hear what a person has to say who broke in; what was waited for is waited for again."""
    said = await listen(ctx)
    reason = f" ({interrupted.reason})" if interrupted.reason else ""
    one.notes.append(f"A person broke in{reason}: {said}")


def _finish(planning: Planning, ctx: Context, plan: Plan, one: Milestone, output: Any) -> None:
    rules.finish(plan, one, words_of(output), revise=planning.revises)
    _tell(ctx, plan, {MILESTONE: one.title, "state": str(one.state)})


def _tell(ctx: Context, plan: Plan, line: dict[str, Any]) -> None:
    """Let people see how the plan stands, and what just happened."""
    ctx.emit(line)
    ctx.show({"plan": outline(plan)})


def outline(plan: Plan) -> list[dict[str, Any]]:
    """Return a plan as people see it."""
    return [
        {
            "title": one.title,
            "state": str(one.state),
            **({"worker": one.worker} if one.worker else {}),
            **({"gate": True} if one.gate else {}),
            **({"notes": [*one.notes]} if one.notes else {}),
            **({"result": reentry.cut(one.result)} if one.result else {}),
        }
        for one in plan.milestones
    ]


def spoken(goal: Any) -> tuple[str, list[Any]]:
    """Return the words of a goal, and what else it holds: pictures, files."""
    if isinstance(goal, str) or not isinstance(goal, list | tuple):
        return str(goal), []
    words = [part for part in goal if isinstance(part, str)]
    return "\n\n".join(words), [part for part in goal if not isinstance(part, str)]


def words_of(output: Any) -> str:
    """Return a result as later milestones read it."""
    if isinstance(output, str):
        return output
    from pydantic_core import to_json

    return to_json(output, fallback=repr).decode()
