"""What a person says of a tool whose outcome nobody knows is the tool's result, whatever it looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.agent.scripted import agent_of, forget, results
from tests.worker.labs import on
from torpor import App, Client
from torpor.core.ids import parse_wait
from torpor.core.wait import WaitKind
from torpor.engine import waits
from torpor.store import values
from torpor.testing import Script, call

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

ACTED: list[str] = []
WORDS: list[dict[str, Any]] = [
    {"value": "sent"},
    {"failed": "no"},
    {"retry": "again"},
    {"asks": True},
    {"defers": True},
    {"opens": True},
    {"value": 1, "content": "c"},
]
"""Results that have the words in them in which torpor keeps outcomes."""
RESULTS: list[Any] = ["20 euros back", "", None, 17, True, [1, "two"], {"return": "x"}, {}, *WORDS]


async def refund(order: str) -> str:
    """Act, and give nothing back."""
    ACTED.append(order)
    message = "the line went dead"
    raise OSError(message)


script = Script(call("refund", order="17"), "done")
app = App()
desk = app.agent("desk", agent_of(script, refund))


async def asked(lab: Lab) -> tuple[Run, str]:
    """Start a run whose tool is unknown; return it and the wait of the person who is asked."""
    forget(script)
    ACTED.clear()
    run = await lab.start(desk, "go")
    await lab.settle()
    (wait,) = await lab.waits(run)
    assert wait.kind == "attention"
    return run, wait.name


@pytest.mark.parametrize(
    "result",
    RESULTS,
    ids=repr,
)
def test_a_persons_result_is_the_tools(store: Store, moment: Moment, result: Any) -> None:
    """Also a result that has the words in it in which torpor keeps outcomes."""

    async def check(lab: Lab) -> None:
        run, wait = await asked(lab)
        await Client(lab.store).answer(wait, by="ada", happened=result)
        assert await lab.result(run) == "done"
        assert results(script) == [("refund", result, "success")]
        assert ACTED == ["17"]

    on(store, moment, app, check)


@pytest.mark.parametrize("why", ["bank says no", ""])
def test_the_model_is_told_that_a_person_said_it_failed(store: Store, moment: Moment, why: str) -> None:
    """It is nobody's error: a person looked, and with what they know of it."""

    async def check(lab: Lab) -> None:
        run, wait = await asked(lab)
        await Client(lab.store).answer(wait, by="ada", fail=why)
        assert await lab.result(run) == "done"
        said = f"refund failed: a person said that it failed{f': {why}' if why else ''}"
        assert results(script) == [("refund", said, "failed")]

    on(store, moment, app, check)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"value": "sent"}, "sent"),
        ({"value": {"value": 1}}, {"value": 1}),
        ("20 euros back", "20 euros back"),
        (None, None),
        ({"return": "x"}, {"return": "x"}),
    ],
    ids=repr,
)
def test_an_answer_of_an_older_torpor_keeps_its_meaning(store: Store, moment: Moment, answer: Any, result: Any) -> None:
    """It has no mark: what was read as an outcome then still is, and what no run survived is a result."""

    async def check(lab: Lab) -> None:
        run, wait = await asked(lab)
        number, seq = parse_wait(wait)
        body = values.encode({"happened": answer, "by": "ada"})
        await lab.store.transact(waits.answer, number, seq, body, kinds=frozenset({WaitKind.ATTENTION}))
        assert await lab.result(run) == "done"
        assert results(script) == [("refund", result, "success")]

    on(store, moment, app, check)
