"""A plan: milestones on the way to a goal, each with its state, its result and notes. Pure rules; `planning` follows them.

    open      not begun, or to be done again
    doing     the agent works on it, in a conversation of its own
    review    its result waits for a person, for it has a gate
    done      what later milestones know of it is its result

What is done stays done: a revision replaces what has not been finished, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from torpor.errors import UsageError

MOST_MILESTONES = 50
_LETTERS = 200
_HINT = "a plan is a list of milestones: texts, or Milestone(title, worker=None, gate=False)"


class Progress(StrEnum):
    """Where a milestone stands."""

    OPEN = "open"
    DOING = "doing"
    REVIEW = "review"
    DONE = "done"


class Milestone(BaseModel):
    """One step of a plan: small enough for one conversation, large enough that its result means something by itself."""

    title: str = Field(max_length=_LETTERS, description="What is to be reached, in a line.")
    worker: str | None = Field(None, description="The worker that does it. Leave it out for what you do yourself.")
    gate: bool = Field(default=False, description="Whether a person must accept the result before it goes on.")
    notes: list[str] = Field(default_factory=list, description="What whoever does it is to know besides.")
    state: SkipJsonSchema[Progress] = Progress.OPEN
    result: SkipJsonSchema[str] = ""
    attempt: SkipJsonSchema[int] = 1

    def __init__(self, title: str | None = None, /, **more: Any) -> None:
        """`Milestone("Read the code")`, and by names what is not as usual."""
        super().__init__(**more, **({} if title is None else {"title": title}))

    @field_validator("title")
    @classmethod
    def _in_a_line(cls, title: str) -> str:
        words = " ".join(title.split())
        if not words:
            message = "a milestone has no title"
            raise ValueError(message)
        return words

    @property
    def over(self) -> bool:
        """Whether nothing of it is left to do."""
        return self.state is Progress.DONE


class Plan(BaseModel):
    """The milestones toward a goal, in the order in which they are done."""

    milestones: list[Milestone] = Field(max_length=MOST_MILESTONES)
    closing: SkipJsonSchema[bool] = False
    """Whether all is done and the agent gives its answer."""
    due: SkipJsonSchema[bool] = False
    """Whether the planner is to be asked again."""

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        seen: set[str] = set()
        for one in self.milestones:
            if one.title.casefold() in seen:
                message = f'two milestones are named "{one.title}"'
                raise ValueError(message)
            seen.add(one.title.casefold())
        return self

    @property
    def next(self) -> Milestone | None:
        """What is to be done now, or None once all is done."""
        return next((one for one in self.milestones if not one.over), None)

    @property
    def place(self) -> int:
        """The number of the milestone that is next, from 1."""
        return 1 + sum(one.over for one in self.milestones)


def planned(given: object, workers: Mapping[str, str]) -> Plan:
    """Return a new plan made of what a planner gave: a Plan, or a list of titles and milestones.

    Nothing of it counts as done. Raises UsageError for what is no plan, an empty one, one that is too long, two milestones of
    one title and a worker that is not known.
    """
    fresh = _fresh(given, workers)
    if not fresh:
        raise UsageError("the plan is empty", hint="it has at least one milestone")
    return _whole(fresh)


def revised(plan: Plan, given: object, workers: Mapping[str, str]) -> Plan:
    """Return a plan with what is done as it is, and what a planner gave in the place of what is not.

    What the planner names again although it is done is left out, what it names again and is not done keeps what is known of
    it; nothing left to do is a plan, too. Raises as `planned`.
    """
    known = {one.title.casefold(): one for one in plan.milestones}
    done = [one for one in plan.milestones if one.over]
    fresh = []
    for one in _fresh(given, workers):
        before = known.get(one.title.casefold())
        if before is None:
            fresh.append(one)
        elif not before.over:
            notes = [*before.notes, *(note for note in one.notes if note not in before.notes)]
            fresh.append(one.model_copy(update={"notes": notes, "result": before.result, "attempt": before.attempt}))
    return _whole([*done, *fresh])


def _whole(milestones: Sequence[Milestone]) -> Plan:
    try:
        return Plan(milestones=[*milestones])
    except ValidationError as error:
        raise UsageError(f"the plan cannot be followed: {_said(error)}", hint=_HINT) from error


def _fresh(given: object, workers: Mapping[str, str]) -> list[Milestone]:
    """Return the milestones that a planner gave, none of them begun."""
    listed: object = given.milestones if isinstance(given, Plan) else given
    if isinstance(listed, Mapping):
        listed = listed.get("milestones")
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
        raise UsageError(f"the planner gave {type(given).__name__}, which is no plan", hint=_HINT)
    found = [_milestone(one) for one in listed]
    for one in found:
        if one.worker is not None and one.worker not in workers:
            known = ", ".join(workers) or "none is declared"
            message = f'milestone "{one.title}" is for {one.worker}, which is no worker (there are: {known})'
            raise UsageError(message, hint="app.agent(..., workers=[...]) says which there are")
    return found


def _milestone(given: object) -> Milestone:
    try:
        if isinstance(given, str):
            return Milestone(given)
        if isinstance(given, Milestone):
            return Milestone(given.title, worker=given.worker or None, gate=given.gate, notes=list(given.notes))
        if isinstance(given, Mapping):
            return _milestone(Milestone.model_validate(dict(given)))
    except ValidationError as error:
        raise UsageError(f"the plan cannot be followed: {_said(error)}", hint=_HINT) from error
    raise UsageError(f"a milestone is {given!r}", hint=_HINT)


def _said(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])


def begin(one: Milestone) -> None:
    """The agent begins to work on a milestone."""
    one.state = Progress.DOING


def finish(plan: Plan, one: Milestone, result: str, *, revise: bool) -> None:
    """A milestone has a result: it is done, unless a person is to look at it first."""
    one.result = result
    if one.gate and one.state is not Progress.REVIEW:
        one.state = Progress.REVIEW
        return
    one.state = Progress.DONE
    plan.due = revise and plan.next is not None


def refuse(one: Milestone, why: str) -> None:
    """A person did not accept the result: it is done again, knowing why."""
    one.state, one.attempt = Progress.OPEN, one.attempt + 1
    one.notes.append(why)


def take_over(one: Milestone, why: str) -> None:
    """A worker failed: the agent does it itself, knowing what went wrong."""
    one.worker = None
    one.notes.append(why)
