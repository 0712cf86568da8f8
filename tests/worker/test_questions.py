"""Questions: checked when they are answered, the first answer wins, a wrong one leaves them open (G10)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, field_validator

from tests.worker.labs import on
from torpor import App, Conflict, Context, NotFound, RunFailed, UsageError, days, hours
from torpor.client import Client

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

app = App()


class Colour(Enum):
    """A choice that is no text."""

    RED = "red"
    BLUE = "blue"


class Invoice(BaseModel):
    """An answer with parts."""

    number: int
    net: Decimal
    lines: list[str]

    @field_validator("lines")
    @classmethod
    def not_empty(cls, lines: list[str]) -> list[str]:
        """Only the class knows this: no schema says it."""
        if lines == ["nothing"]:
            raise ValueError("an invoice over nothing")
        return lines


@dataclass
class Plain:
    """An answer that is a dataclass."""

    n: int


@app.flow
async def asks_text(ctx: Context) -> Any:
    """Ask for a text."""
    answer = await ctx.ask("What now?", expires=days(1))
    return answer.value, answer.by, answer.expired, answer.at


@app.flow
async def asks_choice(ctx: Context) -> Any:
    """Offer choices that are no texts."""
    answer = await ctx.ask("Which?", choices=[Colour.RED, Colour.BLUE, 10**30, Decimal("1.50"), "none"])
    return answer.value


@app.flow
async def asks_invoice(ctx: Context) -> Any:
    """Ask for a model."""
    answer = await ctx.ask("Which invoice?", schema=Invoice)
    return answer.value


@app.flow
async def asks_schema(ctx: Context) -> Any:
    """Ask by JSON schema."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}
    answer: Any = await ctx.ask("How many?", schema=schema)
    return answer.value


@app.flow
async def asks_dataclass(ctx: Context) -> Any:
    """Ask for a dataclass."""
    return (await ctx.ask("Plain?", schema=Plain)).value


async def asked(lab: Lab, flow: Callable[..., Any]) -> tuple[Run, str]:
    """Start a flow and return its run and its wait."""
    run = await lab.start(flow)
    await lab.settle()
    return run, (await lab.waits(run))[0].name


def test_an_answer_comes_back(store: Store, moment: Moment) -> None:
    """A text, who gave it, and when; a second one is told who was first."""

    async def check(lab: Lab) -> None:
        run, wait = await asked(lab, asks_text)
        client = Client(lab.store)
        item = (await client.inbox()).items[0]
        assert (item.wait, item.asks, item.what) == (wait, "answer", "What now?")
        await client.answer(wait, value="go on", by="ada")
        with pytest.raises(Conflict, match=f"ada answered {wait}"):
            await client.answer(wait, value="stop", by="ben")
        assert await lab.result(run) == ("go on", "ada", False, lab.now)
        with pytest.raises(Conflict, match=f"ada answered {wait}"):
            await client.answer(wait, value="stop", by="ben")

    on(store, moment, app, check)


@pytest.mark.slow
def test_an_answer_holds_wherever_the_worker_dies(store: Store, moment: Moment) -> None:
    """Killed at every commit, the answer is consumed once."""

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        await lab.answer(run, value="blue", by="ada")
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(asks_choice, drive=drive):
            assert await crash.result() is Colour.BLUE, crash
            assert len([line for line in await crash.journal() if line.kind == "consumed"]) == 1, crash

    on(store, moment, app, check)


def test_an_expiry_is_an_answer_that_says_so(store: Store, moment: Moment) -> None:
    """Nobody answered; a late answer is refused."""

    async def check(lab: Lab) -> None:
        run, wait = await asked(lab, asks_text)
        lab.advance(days(1))
        with pytest.raises(Conflict, match="expired"):
            await Client(lab.store).answer(wait, value="late", by="ada")
        assert (await lab.result(run))[:3] == (None, "", True)

    on(store, moment, app, check)


@pytest.mark.parametrize(
    ("given", "result"),
    [("red", Colour.RED), (10**30, 10**30), ("1.50", Decimal("1.50")), ("none", "none"), (Colour.BLUE, Colour.BLUE)],
)
def test_a_choice_is_the_one_that_was_offered(store: Store, moment: Moment, given: Any, result: Any) -> None:
    """A person types what they see; the code gets the value it offered, of its own type."""

    async def check(lab: Lab) -> None:
        run, wait = await asked(lab, asks_choice)
        await Client(lab.store).answer(wait, value=given, by="ada")
        assert await lab.result(run) == result

    on(store, moment, app, check)


def test_a_wrong_answer_leaves_the_question_open(store: Store, moment: Moment) -> None:
    """It is refused with the path and what is allowed."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run, wait = await asked(lab, asks_choice)
        with pytest.raises(UsageError, match=r'"green" is not a choice; allowed: "red", "blue"'):
            await client.answer(wait, value="green", by="ada")
        await client.answer(wait, value="red", by="ada")
        assert await lab.result(run) is Colour.RED

        run, wait = await asked(lab, asks_invoice)
        whole = {"number": 10**20 + 1, "net": "10.50", "lines": ["a"]}
        for wrong, says in [
            ({**whole, "number": "one"}, 'number: integer is wanted, not "one"'),
            ({**whole, "lines": ["a", 2]}, r"lines\[1\]: string is wanted, not 2"),
            ({"number": 1, "net": 1}, "lines: it is missing"),
            ("text", "object is wanted"),
            (None, "object is wanted"),
        ]:
            with pytest.raises(UsageError, match=says):
                await client.answer(wait, value=wrong, by="ada")
        await client.answer(wait, value=whole, by="ada")
        assert await lab.result(run) == Invoice(number=10**20 + 1, net=Decimal("10.50"), lines=["a"])

        run, wait = await asked(lab, asks_schema)
        with pytest.raises(UsageError, match="n: 10 is not at most 9"):
            await client.answer(wait, value={"n": 10}, by="ada")
        await client.answer(wait, value={"n": 9}, by="ada")
        assert await lab.result(run) == {"n": 9}

        run, wait = await asked(lab, asks_dataclass)
        await client.answer(wait, value={"n": 3}, by="ada")
        assert await lab.result(run) == Plain(3)

    on(store, moment, app, check)


@pytest.mark.slow
def test_an_answer_that_only_the_class_refuses_is_asked_again(store: Store, moment: Moment) -> None:
    """Under a wait of its own, with the reason; the old one is over. Killed anywhere, it is the same."""
    good = {"number": 1, "net": "1", "lines": ["a"]}

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        old = (await lab.waits(run))[0]
        await lab.answer(run, value={**good, "lines": ["nothing"]}, by="ada")
        await lab.settle()
        again = (await lab.waits(run))[0]
        assert again.name != old.name
        assert again.show["refused"] == "ada: lines: Value error, an invoice over nothing"
        with pytest.raises(Conflict):
            await Client(lab.store).answer(old.name, value=good, by="ben")
        await lab.answer(run, value=good, by="ada")
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(asks_invoice, drive=drive):
            assert (await crash.result()).lines == ["a"], crash

    on(store, moment, app, check)


@app.flow
async def asks_badly(ctx: Context, how: str) -> Any:
    """Ask in a way that makes no sense."""
    ask: Any = ctx.ask
    questions: dict[str, Callable[[], Any]] = {
        "empty": lambda: ctx.ask(" "),
        "empty approval": lambda: ctx.approval(""),
        "equal": lambda: ctx.ask("?", choices=["a", "b", "a"]),
        "equal numbers": lambda: ctx.ask("?", choices=[1, 1.0]),
        "none": lambda: ctx.ask("?", choices=[]),
        "text": lambda: ctx.ask("?", choices="ab"),
        "both": lambda: ask("?", choices=["a"], schema=int),
        "over": lambda: ctx.ask("?", expires=0),
        "negative": lambda: ctx.approval("?", expires=-1),
        "nan": lambda: ctx.ask("?", expires=float("nan")),
        "century": lambda: ctx.ask("?", expires=days(40_000)),
        "unchecked": lambda: ctx.ask("?", schema={"if": {}}),
        "no schema": lambda: ctx.ask("?", schema=asyncio.Future),
        "schema alone": lambda: ctx.approval("?", schema=int),
    }
    await questions[how]()


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("empty", "a question is empty"),
        ("empty approval", "an approval's title is empty"),
        ("equal", "two choices are equal: 'a'"),
        ("equal numbers", "two choices are equal: 1.0"),
        ("none", "a question has a list of them"),
        ("text", "a question has a list of them"),
        ("both", "choices= or schema="),
        ("over", "it would be over before"),
        ("negative", "not negative"),
        ("nan", "not negative"),
        ("century", "under a century"),
        ("unchecked", "the schema says if"),
        ("no schema", "cannot be a Future"),
        ("schema alone", "what an edit must fit"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(store: Store, moment: Moment, how: str, says: str) -> None:
    """It fails where it is asked, and nobody is bothered with it."""

    async def check(lab: Lab) -> None:
        run = await lab.start(asks_badly, how)
        with pytest.raises(RunFailed, match=says):
            await lab.result(run)
        assert not (await Client(lab.store).inbox()).items

    on(store, moment, app, check)


def test_who_answers_what_is_not_asked_is_told(store: Store, moment: Moment) -> None:
    """An unknown wait, one of another kind, no id at all."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        _, wait = await asked(lab, asks_text)
        with pytest.raises(UsageError, match="this wait is for question"):
            await client.approve(wait, by="ada")
        with pytest.raises(UsageError, match="this wait is for question"):
            await client.answer(wait, again=True, by="ada")
        with pytest.raises(UsageError, match="exactly one of"):
            await client.answer(wait, value=1, again=True, by="ada")
        with pytest.raises(NotFound, match="there is no wait"):
            await client.answer(wait[:-1] + "z", value=1, by="ada")
        with pytest.raises(UsageError, match="is not the id of a wait"):
            await client.answer("nonsense", value=1, by="ada")

    on(store, moment, app, check)


@app.flow
async def asks_several(ctx: Context) -> Any:
    """Ask several at once, among them an approval."""
    answers = await asyncio.gather(
        ctx.ask("One?", expires=hours(1)), ctx.ask("Two?", choices=[1, 2]), ctx.approval("Three?", show=3)
    )
    return [answers[0].value, answers[1].value, bool(answers[2])]


@pytest.mark.slow
def test_several_are_answered_in_any_order(store: Store, moment: Moment) -> None:
    """Each has its own answer, wherever the worker dies."""

    async def drive(lab: Lab, _run: Run) -> None:
        await lab.settle()
        await lab.approve("Three?")
        await lab.answer("Two?", value=2)
        await lab.settle()
        await lab.answer("One?", value="x")
        await lab.settle()

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(asks_several, drive=drive):
            assert await crash.result() == ["x", 2, True], crash

    on(store, moment, app, check)


def test_the_moment_of_an_answer_is_the_decision_s(store: Store, moment: Moment) -> None:
    """Not that of the run's next look."""

    async def check(lab: Lab) -> None:
        run, wait = await asked(lab, asks_text)
        lab.advance(60)
        at = lab.now
        await Client(lab.store).answer(wait, value="x", by="ada")
        lab.advance(60)
        assert (await lab.result(run))[3] == at
        assert at > datetime(2030, 1, 1, tzinfo=UTC)

    on(store, moment, app, check)
