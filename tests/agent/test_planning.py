"""An agent with a plan: milestone after milestone, by itself, by a worker, past a gate; wherever its worker dies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent

from tests.agent.scripted import SEEN, agent_of, asked, began_with, forget, prompts
from tests.agent.test_children import family, nobody
from tests.worker.labs import on
from torpor import App, Milestone, Plan, RunFailed, UsageError
from torpor import run as run_here
from torpor.client import Client
from torpor.testing import Script, call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.messages import ModelMessage

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

THREE_DAYS = 3 * 86_400 + 2 * 3600.0


class Report(BaseModel):
    """What the agent gives back."""

    tiles: int


def answer(messages: Sequence[ModelMessage], agent: Any) -> Any:
    """Answer a milestone as a model would that reads what it is told."""
    told = began_with(messages)
    if "Look at the roof\n" in f"{told.partition('# Next')[2]}\n":
        return call("look", where="roof")
    if told.endswith("Give your answer to the goal."):
        return call("final_result", tiles=2) if agent.output_tools else "The roof is tight."
    return "mended" if "did not accept" not in told else "mended, and tight"


async def look(where: str) -> str:
    """Look somewhere."""
    SEEN[f"look {where}"] += 1
    return f"two broken tiles on the {where}"


MENDS = Script(answer, "I saw two broken tiles.", model="mends")
PLANS = Script(
    call(
        "final_result",
        milestones=[
            {"title": "Look at the roof"},
            {"title": "Write a note", "worker": "writer"},
            {"title": "Mend it", "gate": True},
        ],
    ),
    model="plans",
)
NOTES = Script(lambda messages, _agent: f"noted: {len(began_with(messages)) > 0}", model="notes")

app = App()
writer = app.agent("writer", agent_of(NOTES, description="Writes notes."))
roofer = app.agent(
    "roofer",
    agent_of(MENDS, look, output_type=Report),
    safety={"look": "repeatable"},
    planner=Agent(PLANS, output_type=Plan),
    workers=[writer],
)


async def people(lab: Lab, run: Run) -> None:
    """Accept what is asked."""
    await lab.settle()
    for _ in range(3):
        for wait in await lab.waits(run):
            if wait.kind == "approval":
                await lab.approve(wait, by="ada")
        await lab.settle()


@pytest.mark.slow
def test_a_plan_is_followed_wherever_the_worker_dies(store: Store, moment: Moment) -> None:
    """Planned once, each milestone done once, by whom it is for; the answer is of the agent's own type."""

    async def check(lab: Lab) -> None:
        scripts = (MENDS, PLANS, NOTES)
        async for crash in lab.every_crash(roofer, "a tight roof", drive=people, before=lambda: forget(*scripts)):
            assert await crash.result() == Report(tiles=2), crash
            names = [row.program for row in await programs(lab, crash.run)]
            assert len(names) == 2, (crash, names)
            told = prompts(MENDS)[0]
            assert "## 1. Look at the roof\nI saw two broken tiles." in told, crash
            assert "## 2. Write a note\nnoted: True" in told, crash
            assert "## 3. Mend it\nmended" in told, crash
            # whatever a worker was doing when it died for one run, it may have been asking a model for another
            assert len(asked(PLANS)) <= 1 + bool(crash.what), crash
            assert len(asked(NOTES)) <= 1 + bool(crash.what), crash
            assert len(asked(MENDS)) <= 4 + bool(crash.what), crash
            assert SEEN["look roof"] <= 1 + bool(crash.what), crash

    on(store, moment, app, check)


async def programs(lab: Lab, run: Run) -> list[Any]:
    """Return the rows of a run's children."""
    return await lab.store.transact(lambda tx: tx.children(run.number, limit=9))


def test_each_milestone_begins_a_conversation(store: Store, moment: Moment) -> None:
    """What was said before is not read again: the words of the plan stand for it."""
    forget(MENDS, PLANS, NOTES)

    async def check(lab: Lab) -> None:
        run = await lab.start(roofer, "a tight roof")
        await people(lab, run)
        assert await lab.result(run) == Report(tiles=2)
        assert [len(request.messages) for request in MENDS.requests] == [1, 3, 1, 1]
        assert "Write a note (by writer)" in prompts(MENDS)[0]
        assert "- writer: Writes notes." in prompts(PLANS)[0]
        assert "Milestone 2 of 3: Write a note" in prompts(NOTES)[0]

    on(store, moment, app, check)


def test_people_see_how_the_plan_stands(store: Store, moment: Moment) -> None:
    """The view is the plan, the approval shows it with the result, and the stream has a line for each milestone."""
    forget(MENDS, PLANS, NOTES)

    async def check(lab: Lab) -> None:
        run = await lab.start(roofer, "a tight roof")
        await lab.settle()
        (wait,) = await lab.waits(run)
        assert wait.title == "accept Mend it?"
        assert wait.show["show"]["result"] == "mended"
        assert wait.show["show"]["milestone"] == "3 of 3"
        client = Client(lab.store)
        view = await client.view(run.name)
        assert [(one["title"], one["state"]) for one in view["plan"]] == [
            ("Look at the roof", "done"),
            ("Write a note", "done"),
            ("Mend it", "review"),
        ]
        lines = [part async for part in client.stream(run.name, follow=False)]
        values = [part.body for part in lines if part.kind == "value"]
        assert {"plan": ["Look at the roof", "Write a note", "Mend it"]} in values
        assert {"milestone": "Write a note", "state": "done"} in values

    on(store, moment, app, check)


def test_a_gate_that_is_denied_is_done_again(store: Store, moment: Moment) -> None:
    """The agent hears why, sees what it had, and asks again; how long it slept is said in the lab's own time."""
    forget(MENDS, PLANS, NOTES)

    async def check(lab: Lab) -> None:
        run = await lab.start(roofer, "a tight roof")
        await lab.settle()
        lab.advance(THREE_DAYS)
        await lab.deny("accept Mend it?", by="ada", note="it leaks")
        await lab.kill()
        await lab.settle()
        told = prompts(MENDS)[0]
        assert "- ada did not accept the result: it leaks" in told
        assert "Your result so far, which was not accepted:\nmended\n" in told
        assert 'You slept 3 d 2 h, and woke because ada did not accept "Mend it".' in told
        (wait,) = await lab.waits(run)
        parts = [part.body async for part in Client(lab.store).stream(run.name, follow=False)]
        why = "did not accept the result: it leaks"
        assert {"milestone": "Mend it", "state": "open", "by": "ada", "why": why} in parts
        assert wait.show["show"]["result"] == "mended, and tight"
        await lab.approve(wait, by="ada")
        assert await lab.result(run) == Report(tiles=2)
        assert 'You go on: ada accepted "Mend it".' in prompts(MENDS)[0]

    on(store, moment, app, check)


def test_somebody_breaks_in_at_a_gate(store: Store, moment: Moment) -> None:
    """What they say is a note to the milestone, and the gate is asked again."""
    forget(MENDS, PLANS, NOTES)

    async def check(lab: Lab) -> None:
        run = await lab.start(roofer, "a tight roof")
        await lab.settle()
        await Client(lab.store).interrupt(run.name, by="bob", reason="wait")
        await lab.settle()
        assert [wait.kind for wait in await lab.waits(run)] == ["message"]
        await lab.signal(run, "message", "mind the gutter")
        await lab.settle()
        await lab.deny("accept Mend it?", by="ada", note="")
        await lab.settle()
        assert "- A person broke in (wait): mind the gutter\n- ada did not accept the result\n" in prompts(MENDS)[0]

    on(store, moment, app, check)


# planners that are functions

STEPS = Script(lambda messages, _agent: f"did {began_with(messages).count('[done]')}", model="steps")
LOST = Script(model="lost-worker")


async def first_then(goal: str, plan: Plan | None = None) -> list[str] | Plan | None:
    """Plan one milestone, then another one in the light of it, then nothing."""
    SEEN[f"planned {goal}"] += 1
    if plan is None:
        return ["one", "never"]
    done = [one.result for one in plan.milestones if one.over]
    if len(done) == 1:
        return Plan(milestones=[Milestone(f"after {done[0]}"), Milestone("last")])
    if len(done) == 2:
        raise ValueError("no more ideas")
    return None


def broken(goal: str) -> Any:
    """Give what the goal says, which is no plan."""
    return {"empty": [], "text": "read", "unknown": [Milestone("Sing", worker="singer")], "twice": ["a", "a"]}[goal]


def fails(goal: str) -> list[str]:
    """Fail."""
    raise ValueError(f"no plan for {goal}")


def for_nobody(goal: str) -> list[Milestone]:
    """Have a worker do it that fails."""
    return [Milestone(goal, worker="lost")]


lost = app.agent("lost", agent_of(LOST), deps=nobody)
stepper = app.agent("stepper", agent_of(STEPS), planner=first_then)
breaker = app.agent("breaker", agent_of(STEPS), planner=broken)
failer = app.agent("failer", agent_of(STEPS), planner=fails)
sender = app.agent("sender", agent_of(STEPS), planner=for_nobody, workers=[lost, "writer"])


def test_a_plan_is_revised_after_each_milestone(store: Store, moment: Moment) -> None:
    """What is done stays; a planner that fails then leaves the plan as it is."""
    forget(STEPS)

    async def check(lab: Lab) -> None:
        run = await lab.start(stepper, "walls")
        assert await lab.result(run) == "did 3"
        told = prompts(STEPS)[0]
        assert "1. [done] one\n2. [done] after did 0\n3. [done] last\n" in told
        assert SEEN["planned walls"] == 3
        stays = [line for line in await lab.journal(run) if line.key == "emit#1" or "emit" in line.key]
        assert stays

    on(store, moment, app, check)


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        ("empty", "the planner made no plan: the plan is empty"),
        ("text", "the planner made no plan: the planner gave str"),
        ("unknown", "is for singer, which is no worker"),
        ("twice", 'two milestones are named "a"'),
    ],
)
def test_a_plan_that_cannot_be_followed_ends_the_run(store: Store, moment: Moment, goal: str, said: str) -> None:
    """It says what is wrong with it, and the model was not asked."""
    forget(STEPS)

    async def check(lab: Lab) -> None:
        run = await lab.start(breaker, goal)
        with pytest.raises(RunFailed, match=said) as failed:
            await lab.result(run)
        assert failed.value.kind == "UsageError"
        assert failed.value.hint
        assert asked(STEPS) == []

    on(store, moment, app, check)


def test_a_planner_that_fails_ends_the_run(store: Store, moment: Moment) -> None:
    """Its error is the run's."""

    async def check(lab: Lab) -> None:
        run = await lab.start(failer, "walls")
        with pytest.raises(RunFailed, match="no plan for walls"):
            await lab.result(run)

    on(store, moment, app, check)


def test_a_worker_that_fails_leaves_the_milestone_to_the_agent(store: Store, moment: Moment) -> None:
    """The agent does it itself, and is told what went wrong."""
    forget(STEPS, LOST)

    async def check(lab: Lab) -> None:
        run = await lab.start(sender, "walls")
        assert await lab.result(run) == "did 1"
        (first, last) = STEPS.requests
        assert "- lost failed: ValueError: nobody knows the way" in began_with(first.messages)
        assert "You go on: lost failed." in began_with(first.messages)
        assert "## 1. walls\ndid 0" in began_with(last.messages)
        assert len(await family(lab, run)) == 1

    on(store, moment, app, check)


SECOND = Script(
    lambda messages, _agent: call(
        "final_result",
        milestones=[{"title": "Sing", **({} if "no worker" in began_with(messages) else {"worker": "singer"})}],
    ),
    model="second",
)
EMPTY = Script(call("final_result", milestones=[]), model="empty")
singer = app.agent("singer-agent", agent_of(STEPS), planner=Agent(SECOND, output_type=Plan))
idler = app.agent("idler", agent_of(STEPS), planner=Agent(EMPTY, output_type=Plan))


def test_a_planner_is_told_once_what_is_wrong(store: Store, moment: Moment) -> None:
    """A model that plans gets a second chance, and no third one."""
    forget(STEPS, SECOND, EMPTY)

    async def check(lab: Lab) -> None:
        run = await lab.start(singer, "a song")
        assert await lab.result(run) == "did 1"
        assert "could not be followed: milestone" in began_with(SECOND.requests[-1].messages)
        run = await lab.start(idler, "nothing")
        with pytest.raises(RunFailed, match="the plan is empty"):
            await lab.result(run)
        assert len(EMPTY.requests) == 2

    on(store, moment, app, check)


def test_the_result_of_run_is_typed() -> None:
    """As without a plan."""
    forget(MENDS)
    own = App()
    planned = own.agent("planned", agent_of(MENDS, look, output_type=Report), planner=lambda goal: [goal])
    assert asyncio.run(run_here(own, planned, "Look at the roof")) == Report(tiles=2)


def test_what_is_declared_wrongly() -> None:
    """Each is refused where it is declared, with what to do."""
    own = App()
    talker = own.agent("talker", agent_of(STEPS), conversation=True)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"planner": fails, "conversation": True}, "has a planner and is a conversation"),
        ({"workers": ["writer"]}, "has workers or replan=, and no planner"),
        ({"planner": agent_of(STEPS)}, "answers with a text, which is no plan"),
        ({"planner": talker}, "talker is a conversation"),
        ({"planner": fails, "workers": [talker]}, "talker is a conversation"),
        ({"planner": 7}, "is 7"),
    ]
    for more, words in refused:
        with pytest.raises(UsageError, match=words):
            own.agent("refused", agent_of(STEPS), **more)


CAREFUL = Script(call("look", where="attic"), "looked", model="careful")
careful = app.agent("careful", agent_of(CAREFUL, look), approve={"look": True})
sends = app.agent("sends", agent_of(STEPS), planner=lambda goal: [Milestone(goal, worker="careful")], workers=[careful])


def test_somebody_breaks_in_while_a_worker_works(store: Store, moment: Moment) -> None:
    """The same child goes on and is waited for again; what was said is a note."""
    forget(STEPS, CAREFUL)

    async def check(lab: Lab) -> None:
        run = await lab.start(sends, "the attic")
        await lab.settle()
        assert [wait.kind for wait in await lab.waits(run)] == ["child"]
        await Client(lab.store).interrupt(run.name, by="bob")
        await lab.settle()
        await lab.signal(run, "message", "mind the stairs")
        await lab.settle()
        assert [wait.kind for wait in await lab.waits(run)] == ["child"]
        await lab.approve("look?", by="ada")
        assert await lab.result(run) == "did 1"
        assert len(await family(lab, run)) == 1
        view = await Client(lab.store).view(run.name)
        assert view["plan"][0]["notes"] == ["A person broke in: mind the stairs"]

    on(store, moment, app, check)
