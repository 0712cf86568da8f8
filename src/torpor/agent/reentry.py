"""The words with which a model takes a plan up again: goal, plan, what is done, what is next, what woke it, how long it slept.

They stand for the conversation so far, which is not read again: they are as long as the plan, however much was said. Pure:
the same plan gives the same words in every replay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor.agent.plan import Progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torpor.agent.plan import Milestone, Plan

MOST_LETTERS = 4000
"""So much of a result is told to later milestones; the whole one stays in the run's messages."""
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
OWN = "Do this milestone and no more. Your answer ends it, and is what you will know of it later: say what matters."
CLOSING = "Every milestone is done. Give your answer to the goal."
WORKER = (
    "You do this one milestone of somebody's plan. Your answer is its result, and all that they will know of it: "
    "say what matters."
)


def reentry(goal: str, plan: Plan, woke: str = "") -> str:
    """Return what the agent reads when it begins its next milestone, or its answer once all are done.

    `woke` says what woke it and how long it slept (`waking`), or nothing.
    """
    return _told(goal, plan, OWN if plan.next is not None else CLOSING, woke)


def errand(goal: str, plan: Plan) -> str:
    """Return what a worker reads that does the next milestone."""
    return _told(goal, plan, WORKER, "")


def planning(goal: str, workers: Mapping[str, str], plan: Plan | None = None, complaint: str = "") -> str:
    """Return what a planner reads: the goal, who there is, the plan so far, and what was wrong with its last one."""
    parts = [f"# Goal\n{goal}"]
    if workers:
        listed = "\n".join(f"- {name}: {does}" if does else f"- {name}" for name, does in workers.items())
        parts.append(f"# Workers\n{listed}")
    if plan is None:
        parts.append("Make a plan of milestones that reach the goal.")
    else:
        parts += [_overview(plan), *_done(plan)]
        parts.append("Say which milestones are left, in the light of what is done. None, if nothing is left to do.")
    if complaint:
        parts.append(f"Your last plan could not be followed: {complaint}")
    return "\n\n".join(parts)


def _told(goal: str, plan: Plan, asked: str, woke: str) -> str:
    parts = [f"# Goal\n{goal}", _overview(plan), *_done(plan)]
    one = plan.next
    if one is not None:
        parts.append(_next(plan, one))
    if woke:
        parts.append(woke)
    return "\n\n".join([*parts, asked])


def _overview(plan: Plan) -> str:
    lines = [f"{n}. [{_mark(plan, one)}] {one.title}{_who(one)}" for n, one in enumerate(plan.milestones, start=1)]
    return "\n".join(["# Plan", *lines])


def _mark(plan: Plan, one: Milestone) -> str:
    return "next" if one is plan.next and not plan.closing else str(Progress.DONE if one.over else Progress.OPEN)


def _who(one: Milestone) -> str:
    said = [f"by {one.worker}"] if one.worker else []
    if one.gate:
        said.append("a person accepts it")
    return f" ({', '.join(said)})" if said else ""


def _done(plan: Plan) -> list[str]:
    found = [
        f"## {n}. {one.title}\n{cut(one.result) or 'Nothing was said about it.'}"
        for n, one in enumerate(plan.milestones, start=1)
        if one.over
    ]
    return ["\n\n".join(["# Done", *found])] if found else []


def _next(plan: Plan, one: Milestone) -> str:
    lines = ["# Next", f"Milestone {plan.place} of {len(plan.milestones)}: {one.title}"]
    lines += [f"- {note}" for note in one.notes]
    if one.result:
        lines.append(f"Your result so far, which was not accepted:\n{cut(one.result)}")
    return "\n".join(lines)


def cut(text: str) -> str:
    """Return a text as far as there is room for it."""
    if len(text) <= MOST_LETTERS:
        return text
    return f"{text[:MOST_LETTERS]}... ({len(text) - MOST_LETTERS} more letters are left out)"


def waking(woke: str, slept_seconds: float) -> str:
    """Return why a run woke and how long it slept, in a sentence; nothing if it did not sleep."""
    if not woke:
        return ""
    if slept_seconds < 1:
        return f"You go on: {woke}."
    return f"You slept {span(slept_seconds)}, and woke because {woke}."


def span(seconds: float) -> str:
    """Return a duration in its two largest units: `3 d 2 h`."""
    left = int(seconds)
    words: list[str] = []
    for size, unit in _UNITS:
        if left >= size and len(words) < 2:  # noqa: PLR2004 - the two largest
            words.append(f"{left // size} {unit}")
            left %= size
        elif words:
            break
    return " ".join(words) or "0 s"
