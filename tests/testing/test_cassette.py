"""A model on tape: equal requests get equal answers, whole and streamed; what is not on the tape is explained."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import Agent, PartDeltaEvent, RunUsage, TextPart, TextPartDelta, ToolCallPart
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelRequest, ModelResponse, ThinkingPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from tests.house.tree import ROOT
from torpor import UsageError
from torpor.testing import Cassette, Script, call
from torpor.testing.asked import asked_of
from torpor.testing.tape import load
from torpor.worker.bodies import Secrets

if TYPE_CHECKING:
    from collections.abc import AsyncIterable
    from pathlib import Path

    from pydantic_ai import AgentRunResult, AgentStreamEvent, RunContext

NOTHING = ModelRequestParameters()
SCRIPT: tuple[Any, ...] = (
    ["Let me see. ", call("price", item="tea"), call("price", item="coffee")],
    "Tea costs 3, coffee 6.",
)


def agent_of(model: Any, *, instructions: str = "You keep a shop.", offset: int = 0) -> Agent[None, str]:
    """Return an agent with one tool."""
    agent = Agent(model, instructions=instructions)

    @agent.tool_plain
    def price(item: str) -> int:
        """Return what something costs."""
        return len(item) + offset

    return agent


def ran(agent: Agent[None, str], prompt: str | list[str] | None, **more: Any) -> AgentRunResult[str]:
    """Run an agent to its end, without a listener."""
    return asyncio.run(agent.run(prompt, **more))


async def streamed(agent: Agent[None, str], prompt: str, **more: Any) -> tuple[AgentRunResult[str], str]:
    """Run an agent with a listener: the result, and the text that came in pieces."""
    pieces: list[str] = []

    async def listen(_: RunContext[None], events: AsyncIterable[AgentStreamEvent]) -> None:
        pieces.extend(
            [
                event.delta.content_delta
                async for event in events
                if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta)
            ]
        )

    result = await agent.run(prompt, event_stream_handler=listen, **more)
    return result, "|".join(pieces)


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Return a tape on which an agent was asked about tea."""
    place = tmp_path / "tea.jsonl"
    ran(agent_of(Cassette(place, Script(*SCRIPT), note="for tests")), "What does tea cost?")
    return place


def answers(result: AgentRunResult[str]) -> list[ModelResponse]:
    """Return a run's answers without what belongs to the run."""
    return [
        replace(message, run_id=None, conversation_id=None, metadata=None)
        for message in result.all_messages()
        if isinstance(message, ModelResponse)
    ]


def test_what_was_recorded_is_replayed(tape: Path) -> None:
    """The same answers, calls and usage, without the model; in pieces to whoever listens."""
    live = ran(agent_of(Script(*SCRIPT)), "What does tea cost?")
    again = ran(agent_of(Cassette(tape)), "What does tea cost?")
    heard, pieces = asyncio.run(streamed(agent_of(Cassette(tape)), "What does tea cost?"))
    assert again.output == heard.output == live.output
    assert (
        again.usage
        == heard.usage
        == live.usage
        == RunUsage(requests=2, tool_calls=2, input_tokens=200, output_tokens=40)
    )
    assert answers(again) == answers(heard)
    assert [one.parts for one in answers(again)] == [one.parts for one in answers(live)]
    assert pieces == "Let |me |see. |Tea |costs |3, |coffee |6."


def test_a_streamed_answer_is_recorded_too(tmp_path: Path) -> None:
    """It makes no difference to a tape how an answer came."""
    place = tmp_path / "tea.jsonl"
    live, _ = asyncio.run(streamed(agent_of(Cassette(place, Script(*SCRIPT))), "What does tea cost?"))
    assert (
        ran(agent_of(Cassette(place)), "What does tea cost?").all_messages()[-1].parts == live.all_messages()[-1].parts
    )
    assert len(load(place).exchanges) == 2


def test_a_tape_can_be_read(tape: Path) -> None:
    """A line says what it is, one what was offered, and one for each exchange what was asked, in words."""
    lines = [json.loads(line) for line in tape.read_text().splitlines()]
    assert [min(line) for line in lines] == ["cassette", "instructions", "answer", "answer"]
    assert lines[0] == {"cassette": 1, "model": "script:script", "note": "for tests", "profile": lines[0]["profile"]}
    assert lines[1]["instructions"] == "You keep a shop."
    assert lines[1]["tools"]["price"]["description"] == "Return what something costs."
    assert lines[2]["asked"] == ["user: What does tea cost?"]
    assert lines[3]["asked"] == ["price gave: 3", "price gave: 6"]
    assert lines[3]["messages"][:1] == lines[2]["messages"]
    assert lines[3]["answer"]["usage"] == {"input_tokens": 100, "output_tokens": 20}


def test_a_run_that_is_taken_over_finds_its_place(tape: Path) -> None:
    """Times, ids of runs and of calls are chance: the same request from another process has the same answer."""
    first = ran(agent_of(Cassette(tape)), "What does tea cost?")
    messages: list[Any] = first.all_messages()[:-1]
    for message in messages:
        message.parts = [
            replace(part, tool_call_id=f"other {part.tool_call_id}")
            if isinstance(part, ToolCallPart | ToolReturnPart)
            else part
            for part in message.parts
        ]
    result = ran(agent_of(Cassette(tape)), None, message_history=messages, conversation_id="another")
    assert result.output == "Tea costs 3, coffee 6."
    *before, last = messages
    whole = asked_of(messages, NOTHING)
    split = [ModelRequest([part], instructions=last.instructions) for part in last.parts]
    assert asked_of([*before, *split], NOTHING) == whole
    alone = replace(last, parts=[replace(part, tool_call_id="x") for part in last.parts])
    assert asked_of([*before, alone], NOTHING) != whole, "a result counts for the call it answers"


def test_an_equal_request_has_the_last_answer(tmp_path: Path) -> None:
    """Recorded twice, as after a kill between an answer and its record: the run went on with the second."""
    place = tmp_path / "tape.jsonl"
    for said in ("early", "late"):
        ran(Agent(Cassette(place, Script(said))), "go")
    assert [one.answer.parts[0].content for one in load(place).exchanges] == ["early", "late"]  # type: ignore[union-attr]
    cassette = Cassette(place)
    assert [ran(Agent(cassette), "go").output for _ in range(3)] == ["late"] * 3
    assert len(place.read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"prompt": "What does milk cost?"},
            "message 1 differs first:\n  recorded: user: What does tea cost?\n  asked:    user: What does milk",
        ),
        (
            {"offset": 1},
            "message 3 differs first:\n  recorded: price gave: 3 | price gave: 6\n  asked:    price gave: 4",
        ),
        ({"instructions": "Be kind."}, "the instructions differ:\n  recorded: You keep a shop.\n  asked:    Be kind."),
        ({"more": True}, "tool discount is new"),
    ],
)
def test_what_is_not_on_the_tape_is_explained(tape: Path, changed: dict[str, Any], said: str) -> None:
    """Which recorded request is nearest, where it first differs, and how to record it."""
    agent = agent_of(
        Cassette(tape),
        instructions=changed.get("instructions", "You keep a shop."),
        offset=changed.get("offset", 0),
    )
    if "more" in changed:

        @agent.tool_plain
        def discount() -> int:
            return 1

    with pytest.raises(UsageError) as caught:
        ran(agent, changed.get("prompt", "What does tea cost?"))
    assert said in caught.value.message
    assert str(tape) in caught.value.message
    assert 'Cassette("tea.jsonl", MODEL)' in caught.value.hint


def test_what_is_offered_may_be_left_out_of_account(tape: Path) -> None:
    """A tape serves an agent whose instructions or tools have changed, if its author says so; the messages still count."""
    result = ran(agent_of(Cassette(tape, strict=False), instructions="Be kind."), "What does tea cost?")
    assert result.output == "Tea costs 3, coffee 6."
    with pytest.raises(UsageError, match="message 3 differs first"):
        ran(agent_of(Cassette(tape, strict=False), offset=1), "What does tea cost?")


def test_a_request_beyond_the_tape_is_explained(tape: Path) -> None:
    """What goes on after it, before it, or was never recorded."""
    first = ran(agent_of(Cassette(tape)), "What does tea cost?")
    with pytest.raises(UsageError, match=r"goes on after it with 2 messages, the last of them user: And milk\?"):
        ran(agent_of(Cassette(tape)), "And milk?", message_history=first.all_messages())
    changed: list[Any] = first.all_messages()[:-1]
    changed[1] = ModelResponse([ThinkingPart("hm"), *changed[1].parts[1:]])
    with pytest.raises(UsageError, match=r"message 2 differs first:\n  recorded: text: Let me see.  \| calls price"):
        ran(agent_of(Cassette(tape)), None, message_history=changed)
    tape.write_text(tape.read_text().splitlines(keepends=True)[0])
    with pytest.raises(UsageError, match="nothing is recorded on it"):
        ran(agent_of(Cassette(tape)), "What does tea cost?")


def test_no_secret_is_on_a_tape(tmp_path: Path) -> None:
    """Neither settings nor what torpor resolved; and a tape with one key serves a run with another."""
    place = tmp_path / "tape.jsonl"
    for value in ("sesame-1", 'se"same2'):
        secrets = Secrets({"door": value}.get)
        key = secrets.resolve("door")
        recording = place.exists()
        script = Script([f"Trying {key}.", call("price", item="door")], f"It was {key}.")
        model = Cassette(place) if recording else Cassette(place, script)
        agent = agent_of(model, instructions=f"The key is {key}.")
        result = ran(agent, f"Open with {key}", model_settings={"extra_headers": {"Authorization": "Bearer abc"}})
        assert result.output == ("It was [secret door]." if recording else f"It was {key}.")
        assert "sesame" not in place.read_text()
        assert "Bearer" not in place.read_text()
        del secrets
    assert "The key is [secret door]." in place.read_text()


def test_an_address_is_recorded_without_its_login(tmp_path: Path) -> None:
    """A gateway's address may hold a key."""
    place = tmp_path / "tape.jsonl"
    answer = ModelResponse([TextPart("yes")], provider_url="https://me:secret@gate.example/v1?key=abc")
    ran(Agent(Cassette(place, Script(answer))), "go")
    assert load(place).exchanges[0].answer.provider_url == "https://gate.example/v1"


def test_a_failed_request_is_not_recorded(tmp_path: Path) -> None:
    """Neither one that was refused nor one that was cut: an answer is whole or no answer."""
    place = tmp_path / "tape.jsonl"
    agent = Agent(Cassette(place, Script(ModelHTTPError(429, "script"), ["half ", ConnectionError()], "whole")))
    with pytest.raises(ModelHTTPError):
        ran(agent, "go", conversation_id="c")
    with pytest.raises(ConnectionError):
        asyncio.run(streamed(agent, "go", conversation_id="c"))
    assert not place.exists()
    asyncio.run(streamed(agent, "go", conversation_id="c"))
    assert [one.answer.parts for one in load(place).exchanges] == [[TextPart("whole")]]


MANY = """
import sys
from pydantic_ai import Agent
from torpor.testing import Cassette, Script
agent = Agent(Cassette(sys.argv[1], Script(*["yes " + "x" * 5000] * 1)))
for number in range(20):
    agent.run_sync(f"{sys.argv[2]} {number}")
"""


@pytest.mark.slow
def test_several_processes_write_one_tape(tmp_path: Path) -> None:
    """No line is lost or torn, and what was offered is written once."""
    place = tmp_path / "tape.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", MANY, str(place), name], cwd=ROOT) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    tape = load(place)
    assert sorted(one.asked[0] for one in tape.exchanges) == sorted(f"user: {w} {n}" for w in "ab" for n in range(20))
    assert len(place.read_text().splitlines()) == 42


def test_half_a_line_is_cut_off_by_the_next_writer(tape: Path) -> None:
    """A writer that was killed leaves nothing that others cannot mend; a reader says what is wrong."""
    with tape.open("a") as file:
        file.write('{"asked": ["user: half')
    with pytest.raises(UsageError, match=r"line 5 of .* is broken: no JSON"):
        Cassette(tape)
    ran(Agent(Cassette(tape, Script("yes"))), "go")
    assert [one.line for one in load(tape).exchanges] == [3, 4, 6]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"cassette": 2}', "line 1 of .* is broken: it is of version 2, and this torpor reads version 1"),
        ("hello", "line 1 of .* is broken: no JSON"),
        ('{"interactions": []}', "is no tape of a cassette: its first line is"),
        ('["cassette"]', "is no tape of a cassette: its first line is"),
        ('{"cassette": 1}\n{"cassette": 1}', "is no tape of a cassette: line 2 is"),
        ('{"cassette": 1}\n{"asked": [], "answer": {}}', "line 2 of .* is broken"),
        ('{"cassette": 1}\n{"tools": {}}', "line 2 of .* is broken: KeyError: 'offer'"),
    ],
)
def test_what_is_no_tape_is_refused(tmp_path: Path, line: str, said: str) -> None:
    """Before anything is asked."""
    place = tmp_path / "tape.jsonl"
    place.write_text(line + "\n")
    with pytest.raises(UsageError, match=said):
        Cassette(place)


def test_places_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    """There is no tape, or a folder stands in its place."""
    with pytest.raises(UsageError, match="there is no tape to replay") as caught:
        Cassette(tmp_path / "none.jsonl")
    assert 'Cassette("none.jsonl", "openai:gpt-5-mini")' in caught.value.hint
    with pytest.raises(UsageError, match="cannot be written"):
        ran(Agent(Cassette(tmp_path, Script("yes"))), "go")


def test_it_looks_like_the_model_it_stands_for(tape: Path, tmp_path: Path) -> None:
    """Prices and what is said in logs are the recorded model's."""
    replayed = Cassette(tape)
    assert (replayed.system, replayed.model_name, replayed.records) == ("script", "script", False)
    recording = Cassette(tmp_path / "other.jsonl", Script("yes", model="openai:gpt-5-mini"))
    assert (recording.system, recording.model_name, recording.records) == ("openai", "gpt-5-mini", True)
    ran(Agent(recording), "go")
    replayed = Cassette(tmp_path / "other.jsonl")
    assert (replayed.model_id, ran(Agent(replayed), "go").response.model_name) == (
        "openai:gpt-5-mini",
        "gpt-5-mini",
    )


def test_prompts_of_every_kind_are_read(tmp_path: Path) -> None:
    """A part of any kind has words, and long ones say how long they are."""
    place = tmp_path / "tape.jsonl"
    ran(Agent(Cassette(place, Script("yes"))), ["look", "here"])
    ran(Agent(Cassette(place, Script("yes"))), "y" * 3000)
    asked = [one.asked[0] for one in load(place).exchanges]
    assert asked[0] == "user: look here"
    assert asked[1].endswith("y… (3,006 letters)")
    assert asked_of([ModelRequest([UserPromptPart("a")])], NOTHING).newest == ("user: a",)
