"""Plans and the words of a re-entry: pure rules, each looked at by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_ai.messages import ToolReturnPart, UserPromptPart

from tests.agent.conversations import said as spoken
from tests.agent.conversations import turns
from torpor import Milestone, Plan, UsageError
from torpor.agent import plan as rules
from torpor.agent.plan import MOST_MILESTONES, Progress, planned, revised
from torpor.agent.planners import planning_of
from torpor.agent.reentry import MOST_LETTERS, cut, errand, planning, reentry, span, waking
from torpor.agent.remembering import remember
from torpor.agent.state import AgentState
from torpor.agent.transcript import stored
from torpor.agent.window import Window
from torpor.sdk.rows import Rows
from torpor.store import values

WORKERS = {"writer": "Writes what is to be written.", "tester": ""}


def roof() -> Plan:
    """Return a plan whose first milestone is done."""
    plan = planned(
        [Milestone("Look at the roof"), Milestone("Mend it", gate=True), Milestone("Write", worker="writer")], WORKERS
    )
    first = plan.milestones[0]
    rules.begin(first)
    rules.finish(plan, first, "Two tiles are broken.", revise=False)
    return plan


def test_a_plan_of_titles_and_milestones() -> None:
    """Texts are milestones; what a planner says of states and results counts for nothing."""
    made = planned(["Read  the\ncode", Milestone("Mend", gate=True, state=Progress.DONE, result="already")], {})
    assert [(one.title, one.gate, one.state, one.result) for one in made.milestones] == [
        ("Read the code", False, Progress.OPEN, ""),
        ("Mend", True, Progress.OPEN, ""),
    ]
    assert planned({"milestones": [{"title": "Read", "worker": "writer"}]}, WORKERS).milestones[0].worker == "writer"
    assert planned(Plan(milestones=[Milestone("Read")]), {}).next == Milestone("Read")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "the plan is empty"),
        ("read the code", "the planner gave str, which is no plan"),
        (None, "the planner gave NoneType, which is no plan"),
        ([7], "a milestone is 7"),
        (["  "], "a milestone has no title"),
        (["Read", "read"], 'two milestones are named "read"'),
        ([f"Step {n}" for n in range(MOST_MILESTONES + 1)], f"at most {MOST_MILESTONES} items"),
        (["x" * 201], "at most 200 characters"),
        ([{"name": "Read"}], "title"),
        ([Milestone("Read", worker="reader")], r"for reader, which is no worker \(there are: writer, tester\)"),
    ],
)
def test_what_is_no_plan(given: object, said: str) -> None:
    """Each is refused with the reason and a hint."""
    with pytest.raises(UsageError, match=said) as refused:
        planned(given, WORKERS)
    assert refused.value.hint


def test_a_model_does_not_say_what_is_done() -> None:
    """States and results are not in what a planner is asked for, and a plan it gives is checked where it is made."""
    schema = Plan.model_json_schema()
    assert set(schema["$defs"]["Milestone"]["properties"]) == {"title", "worker", "gate", "notes"}
    assert set(schema["properties"]) == {"milestones"}
    with pytest.raises(ValidationError, match='two milestones are named "Read"'):
        Plan.model_validate({"milestones": [{"title": "Read"}, {"title": "Read"}]})


def test_a_milestone_goes_its_way() -> None:
    """Begun, looked at, refused, done again, accepted; then the next one."""
    plan = roof()
    one = plan.next
    assert one is not None
    assert (one.title, plan.place) == ("Mend it", 2)
    rules.begin(one)
    rules.finish(plan, one, "mended", revise=True)
    assert (one.state, plan.due) == (Progress.REVIEW, False)
    rules.refuse(one, "ada did not accept the result: it leaks")
    assert (one.state, one.attempt, one.result) == (Progress.OPEN, 2, "mended")
    rules.begin(one)
    rules.finish(plan, one, "mended, and tight", revise=True)
    rules.finish(plan, one, one.result, revise=True)
    assert (one.state, plan.due, plan.place) == (Progress.DONE, True, 3)
    last = plan.next
    assert last is not None
    rules.take_over(last, "writer failed: out of ink")
    assert (last.worker, last.notes) == (None, ["writer failed: out of ink"])
    plan.due = False
    rules.finish(plan, last, "written", revise=True)
    assert (plan.next, plan.due) == (None, False)


def test_a_revision_leaves_what_is_done() -> None:
    """The rest is replaced; what is named again keeps what is known of it."""
    plan = roof()
    rules.refuse(plan.milestones[1], "it leaks")
    new = revised(plan, ["look at the roof", "Buy tiles", "Mend it"], WORKERS)
    assert [(one.title, one.state) for one in new.milestones] == [
        ("Look at the roof", Progress.DONE),
        ("Buy tiles", Progress.OPEN),
        ("Mend it", Progress.OPEN),
    ]
    assert (new.milestones[2].notes, new.milestones[2].attempt) == (["it leaks"], 2)
    assert revised(plan, [], WORKERS).next is None
    with pytest.raises(UsageError, match="which is no worker"):
        revised(plan, [Milestone("Sing", worker="singer")], WORKERS)


def test_a_plan_is_stored_as_it_is() -> None:
    """Also one of an older version, which knew less, can be read."""
    plan = roof()
    assert values.decode(values.encode(plan)) == plan


GOAL = "The roof is tight again."
REENTRY = """\
# Goal
The roof is tight again.

# Plan
1. [done] Look at the roof
2. [next] Mend it (a person accepts it)
3. [open] Write (by writer)

# Done

## 1. Look at the roof
Two tiles are broken.

# Next
Milestone 2 of 3: Mend it
- ada did not accept the result: it leaks
Your result so far, which was not accepted:
mended

You slept 3 d 2 h, and woke because ada did not accept "Mend it".

Do this milestone and no more. Your answer ends it, and is what you will know of it later: say what matters."""


def test_the_words_of_a_re_entry() -> None:
    """Goal, plan, what is done, what is next, what woke it, how long it slept."""
    plan = roof()
    plan.milestones[1].result = "mended"
    rules.refuse(plan.milestones[1], "ada did not accept the result: it leaks")
    slept = 3 * 86_400 + 2 * 3600 + 61
    assert reentry(GOAL, plan, waking('ada did not accept "Mend it"', slept)) == REENTRY


def test_the_words_at_the_end_and_for_others() -> None:
    """Once all is done the answer is asked for; a worker is told that it does one milestone; a planner, who there is."""
    plan = revised(roof(), [], WORKERS)
    plan.closing = True
    assert reentry(GOAL, plan).endswith("\n\nEvery milestone is done. Give your answer to the goal.")
    assert "# Next" not in reentry(GOAL, plan)
    assert "somebody's plan" in errand(GOAL, roof())
    assert planning(GOAL, WORKERS) == (
        "# Goal\nThe roof is tight again.\n\n# Workers\n- writer: Writes what is to be written.\n- tester\n\n"
        "Make a plan of milestones that reach the goal."
    )
    again = planning(GOAL, {}, roof(), "it is empty")
    assert "Say which milestones are left" in again
    assert again.endswith("Your last plan could not be followed: it is empty")


def test_a_long_result_is_cut() -> None:
    """However much a milestone said, the words stay short."""
    plan = roof()
    plan.milestones[0].result = "x" * 100_000
    assert len(reentry(GOAL, plan)) < MOST_LETTERS + 1000
    assert cut("x" * (MOST_LETTERS + 7)).endswith("... (7 more letters are left out)")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3661, "1 h 1 min"),
        (86_400, "1 d"),
        (86_460, "1 d"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_span_in_words(seconds: float, said: str) -> None:
    """Two neighbouring units say enough."""
    assert span(seconds) == said


def test_what_woke_it() -> None:
    """Nothing is said of what did not happen."""
    assert waking("", 5000) == ""
    assert waking("writer finished", 0.2) == "You go on: writer finished."
    assert waking("writer finished", 7200) == "You slept 2 h, and woke because writer finished."


def planner(goal: str) -> list[str]:
    """Plan without looking back."""
    return [goal]


def nothing() -> list[str]:
    """Plan nothing."""
    return []


def looks_back(goal: str, plan: Plan | None = None) -> list[str]:
    """Plan, looking back."""
    return [goal, str(plan)]


def test_a_function_that_takes_the_plan_revises_it() -> None:
    """Its parameters say so."""
    registered: Any = None
    once = planning_of("a", planner, (), replan=False, register=registered)
    again = planning_of("a", looks_back, ["writer"], replan=False, register=registered)
    assert once is not None
    assert again is not None
    assert (once.revises, again.revises) == (False, True)
    for given, said in (
        (7, "is 7"),
        (nothing, "takes 0 parameters"),
        (lambda a, b, c: [a, b, c], "takes 3 parameters"),
    ):
        with pytest.raises(UsageError, match=said):
            planning_of("a", given, (), replan=False, register=registered)
    with pytest.raises(UsageError, match="cannot revise a plan that it does not take"):
        planning_of("a", planner, (), replan=True, register=registered)


@pytest.mark.parametrize("tokens", [1_000_000, 500])
def test_only_the_conversation_that_is_on_is_remembered(tokens: int) -> None:
    """However much was said before its first message, and however little fits."""
    before, now = turns(60), [spoken("paint it"), *turns(60, output="painted")[1:]]
    state = AgentState(messages=Rows(map(stored, [*before, *now])), since=len(before))
    remembered = asyncio.run(remember(state, Window(tokens)))
    told = [part for message in remembered.history for part in message.parts]
    assert [part.content for part in told if isinstance(part, UserPromptPart)] == ["paint it"]
    assert {part.content for part in told if isinstance(part, ToolReturnPart)} == {"painted"}
    assert remembered.before + len(remembered.history) - bool(remembered.before) == len(now)
