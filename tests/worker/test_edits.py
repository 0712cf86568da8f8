"""Approving with an edit: checked, of the types that were shown, all of it on record (G10, G14)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, Field, field_validator

from tests.worker.counter import COUNTER
from tests.worker.labs import on
from torpor import App, Conflict, Context, UsageError
from torpor.client import Client

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

app = App()
HUGE = 10**40 + 7


class Speed(Enum):
    """How a transfer goes."""

    SLOW = "slow"
    FAST = "fast"


class Transfer(BaseModel):
    """What is shown, and edited."""

    to: str
    amount: Decimal = Field(gt=0)
    number: int
    at: datetime
    speed: Speed = Speed.SLOW
    raw: bytes = b""

    @field_validator("to")
    @classmethod
    def known(cls, to: str) -> str:
        """Only the class knows this: no schema says it."""
        if to == "nobody":
            raise ValueError("nobody has no account")
        return to.strip()


@dataclass
class Letter:
    """A dataclass that is shown."""

    to: str
    copies: int


@app.effect(safety="keyed")
async def act(what: Any) -> None:
    """Act on consent."""
    COUNTER.act(what)


def transfer() -> Transfer:
    """What is proposed."""
    at = datetime(2030, 1, 1, tzinfo=UTC)
    return Transfer(to="ana", amount=Decimal("10.50"), number=HUGE, at=at, raw=b"\x00\xff")


@app.flow
async def sends(ctx: Context) -> Any:
    """Let a person look at a transfer, and do what they approved."""
    proposed = transfer()
    answer = await ctx.approval("Send?", show=proposed, editable=True)
    proposed.to = "changed by the code meanwhile"
    if answer:
        await ctx.effect(act, answer.value)
    return answer.value, answer.edited, answer.by


@app.flow
async def sends_free(ctx: Context) -> Any:
    """Show what has no class."""
    shown = {"to": "ana", "amount": Decimal("1.50"), "huge": HUGE, "n": 1, "parts": [1, (2, Speed.FAST)], "none": None}
    answer = await ctx.approval("Send?", show=shown, editable=True)
    return answer.value


@app.flow
async def sends_by_schema(ctx: Context) -> Any:
    """Show a dict that a schema describes."""
    schema = {"type": "object", "properties": {"to": {"enum": ["ana", "ben"]}}, "additionalProperties": False}
    answer = await ctx.approval("Send?", show={"to": "ana"}, editable=True, schema=schema)
    return answer.value


@app.flow
async def sends_letter(ctx: Context) -> Any:
    """Show a dataclass."""
    return (await ctx.approval("Send?", show=Letter("ana", 1), editable=True)).value


@app.flow
async def sends_fixed(ctx: Context) -> Any:
    """Show what cannot be edited."""
    return (await ctx.approval("Send?", show={"to": "ana"})).value


def acted() -> list[Any]:
    """Return what was acted on."""
    return list(COUNTER.calls)


async def asked(lab: Lab, flow: Any) -> tuple[Run, str]:
    """Start a flow and return its run and its wait."""
    run = await lab.start(flow)
    await lab.settle()
    return run, (await lab.waits(run))[0].name


@pytest.mark.slow
def test_an_edit_runs_and_everything_is_on_record(store: Store, moment: Moment) -> None:
    """Proposed, approved and executed; types as they were, every digit kept; the same wherever the worker dies."""
    edits = {"amount": "12.25", "speed": "fast", "to": " ben "}

    async def drive(lab: Lab, run: Run) -> None:
        await lab.settle()
        await lab.approve(run, by="ada", edits=edits)
        await lab.settle()

    expected = transfer().model_copy(update={"amount": Decimal("12.25"), "speed": Speed.FAST, "to": "ben"})

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(sends, drive=drive, before=COUNTER.clear):
            value, edited, by = await crash.result()
            assert (value, edited, by) == (expected, True, "ada"), crash
            assert isinstance(value, Transfer)
            assert value.raw == b"\x00\xff"
            assert value.number == HUGE
            assert COUNTER.calls, crash
            assert acted() == [expected] * COUNTER.count, crash
            lines = await crash.journal()
            proposed = next(line.value["show"] for line in lines if line.kind == "wait" and line.key)
            approved = next(line.value for line in lines if line.kind == "consumed")
            executed = next(line.value["args"][0] for line in lines if line.kind == "intent")
            assert (proposed, approved["value"], approved["by"], executed) == (transfer(), expected, "ada", expected)

    on(store, moment, app, check)


def test_what_is_not_edited_is_what_was_shown(store: Store, moment: Moment) -> None:
    """Whatever the code does to its own object meanwhile (G10)."""

    async def check(lab: Lab) -> None:
        run, wait = await asked(lab, sends)
        await Client(lab.store).approve(wait, by="ada")
        assert await lab.result(run) == (transfer(), False, "ada")
        assert acted() == [transfer()]

    on(store, moment, app, check)


def test_types_survive_an_edit_without_a_class(store: Store, moment: Moment) -> None:
    """Numbers stay numbers, decimals decimals, tuples tuples; what was left alone is as it was."""

    async def check(lab: Lab) -> None:
        run, wait = await asked(lab, sends_free)
        edits = {"amount": "2.50", "huge": HUGE + 1, "parts[1][0]": 7, "n": 2, "none": "now"}
        await Client(lab.store).approve(wait, by="ada", edits=edits)
        assert await lab.result(run) == {
            "to": "ana",
            "amount": Decimal("2.50"),
            "huge": HUGE + 1,
            "n": 2,
            "parts": [1, (7, Speed.FAST)],
            "none": "now",
        }
        run, wait = await asked(lab, sends_letter)
        await Client(lab.store).approve(wait, by="ada", edits={"copies": 2})
        assert await lab.result(run) == Letter("ana", 2)

    on(store, moment, app, check)


@pytest.mark.parametrize(
    ("flow", "edits", "says"),
    [
        (sends, {"amount": "-1"}, None),
        (sends, {"amount": "much"}, "amount: 'much' is no decimal"),
        (sends, {"amount": None}, "amount: "),
        (sends, {"number": "many"}, "number: 'many' is no int"),
        (sends, {"nowhere": 1}, "nowhere: there is no such field"),
        (sends, {"a.b": 1}, "a.b: there is no a"),
        (sends, {"": "text"}, "the whole: 'text' is in the place of an object"),
        (sends_free, {"n": "1"}, "n: '1' is in the place of 1"),
        (sends_free, {"parts[1][1]": "slow"}, r"a enum cannot be edited"),
        (sends_free, {"parts[9]": 1}, "there is no 9"),
        (sends_free, {"parts[": 1}, "is no path"),
        (sends_by_schema, {"to": "zoe"}, 'to: "zoe" is not among the allowed values; allowed: "ana", "ben"'),
        (sends_by_schema, {"cc": "zoe"}, "cc: there is no such field"),
        (sends_fixed, {"to": "zoe"}, "cannot be edited"),
    ],
)
def test_an_edit_that_does_not_fit_leaves_the_wait_open(
    store: Store, moment: Moment, flow: Any, edits: dict[str, Any], says: str | None
) -> None:
    """It is refused with the path, and nothing is decided."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        _, wait = await asked(lab, flow)
        if says is not None:
            with pytest.raises(UsageError, match=says.replace("[", r"\[") if says.startswith("parts") else says):
                await client.approve(wait, by="ada", edits=edits)
            assert (await client.inbox()).items[0].wait == wait
            return
        await client.approve(wait, by="ada", edits=edits)  # the schema allows the text, only the class does not
        await lab.settle()
        again = (await client.inbox()).items[0]
        assert again.wait != wait
        assert again.content["refused"] == "ada: amount: Input should be greater than 0"
        assert COUNTER.count == 0

    on(store, moment, app, check)


def test_who_edits_second_is_told_who_was_first(store: Store, moment: Moment) -> None:
    """Also when the edit would not fit."""

    async def check(lab: Lab) -> None:
        client = Client(lab.store)
        run, wait = await asked(lab, sends_by_schema)
        await client.approve(wait, by="ada", edits={"to": "ben"}, digest=(await client.wait(wait)).digest)
        for edits in ({"to": "ana"}, {"to": "zoe"}):
            with pytest.raises(Conflict, match="ada approved"):
                await client.approve(wait, by="ben", edits=edits)
        assert await lab.result(run) == {"to": "ben"}

    on(store, moment, app, check)
