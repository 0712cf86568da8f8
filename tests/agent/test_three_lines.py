"""Agents in the manner of pydantic-ai's own examples become durable in three lines; the page shows exactly these lines."""

from __future__ import annotations

import asyncio
import difflib
import importlib.util
import json
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.house.test_docs import blocks
from tests.house.tree import ROOT
from tests.worker.labs import on
from torpor.testing import Place, Script, call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab, Run

PAGE = ROOT / "docs" / "three-lines.md"
FOLDER = ROOT / "examples" / "three_lines"
NAMES = ("bank", "sql", "flights")
FOUND = [
    {"number": "TP1", "start": "ANC", "end": "SFO", "euros": 340},
    {"number": "TP2", "start": "ANC", "end": "SFO", "euros": 210},
]


def scripts(name: str) -> dict[str, Script]:
    """Return what the models of an example say, by the agent's name in its file."""
    match name:
        case "bank":
            said = call("final_result", text="123.45 euros are left, and the card is blocked.", risk=8)
            return {"support": Script([call("balance"), call("block_card", reason="it is gone")], said, model="bank")}
        case "sql":
            first = call("final_result_Query", sql="SELECT * FROM event", explanation="all errors")
            second = call(
                "final_result_Query", sql="SELECT * FROM events WHERE level = 'error'", explanation="all errors"
            )
            return {"writer": Script(first, second, model="sql")}
    finder = Script(call("offers", start="ANC"), call("final_result", response=FOUND), model="finder")
    book = [call("book", number="TP2", row=12, seat=seat) for seat in "CA"]
    wrong, right = (call("final_result", **flight) for flight in FOUND)
    return {"finder": finder, "traveller": Script(call("find"), *book, wrong, right, model="traveller")}


EXPECTED = {
    "bank": {"text": "123.45 euros are left, and the card is blocked.", "risk": 8},
    "sql": {"sql": "SELECT * FROM events WHERE level = 'error'", "explanation": "all errors"},
    "flights": FOUND[1],
}
CALLED = {
    "bank": ("support", "support", "My card is gone. What is left?", "desk"),
    "sql": ("sql", "writer", "errors of yesterday", ""),
    "flights": ("journey", "traveller", "Take me to San Francisco.", "journey"),
}
"""The name of the program, the agent in its file, what it is asked, and its dependencies in the file."""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let models be made; none is asked."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def loaded(path: Path) -> ModuleType:
    """Return a file as a fresh module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def scripted(module: ModuleType, name: str) -> ExitStack:
    """Return a block in which the models of a module say what the script says."""
    stack = ExitStack()
    for agent, script in scripts(name).items():
        stack.enter_context(getattr(module, agent).override(model=script))
    return stack


def acted(module: ModuleType, name: str) -> Any:
    """Return what an example has done to its world."""
    return {"bank": lambda: module.desk.bank.blocked, "flights": lambda: module.journey.booked}.get(name, list)()


def changed(name: str) -> Iterator[str]:
    """Yield the lines of the diff between both files."""
    before, after = ((FOLDER / f"{name}_{which}.py").read_text(encoding="utf-8") for which in ("before", "after"))
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
    yield from (line.rstrip() for line in lines if not line.startswith(("---", "+++")))


@pytest.mark.parametrize("name", NAMES)
def test_at_most_three_lines_are_new(name: str) -> None:
    """And the page shows these, no others."""
    diff = list(changed(name))
    assert len([line for line in diff if line.startswith("+")]) <= 3
    assert len([line for line in diff if line.startswith("-")]) <= 3
    shown = [block.text.splitlines() for block in blocks(PAGE) if block.language == "diff"]
    assert diff in shown, "\n".join(diff)
    assert len(shown) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_before(name: str) -> None:
    """The agent works as it is, without torpor."""
    module = loaded(FOLDER / f"{name}_before.py")
    _, agent, prompt, deps = CALLED[name]
    with scripted(module, name):
        result = asyncio.run(getattr(module, agent).run(prompt, deps=getattr(module, deps) if deps else None))
    assert json.loads(result.output.model_dump_json()) == EXPECTED[name]
    assert acted(module, name) == {"bank": [17], "sql": [], "flights": ["TP2 12A"]}[name]


async def approve(lab: Lab, run: Run) -> None:
    """Approve whatever is asked, and say of what was cut short whether it happened."""
    await lab.settle()
    while waits := await lab.waits(run):
        if waits[0].kind == "approval":
            await lab.approve(waits[0], by="ada")
        else:
            await lab.answer(waits[0], again=True)
        await lab.settle()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_after(store: Store, moment: Moment, name: str) -> None:
    """The same agent gives the same, acts once, and waits for consent, wherever its worker dies after a commit."""
    module = loaded(FOLDER / f"{name}_after.py")
    program, _, prompt, _ = CALLED[name]

    async def check(lab: Lab) -> None:
        async for crash in lab.every_crash(
            program, prompt, drive=approve, before=lambda: acted(module, name).clear(), places=(Place.AFTER,)
        ):
            output = await crash.result()
            assert json.loads(output.model_dump_json()) == EXPECTED[name], crash
            assert acted(module, name) == {"bank": [17], "sql": [], "flights": ["TP2 12A"]}[name], crash
            asks = [line for line in await crash.journal() if line.kind == "consumed"]
            assert len(asks) == {"bank": 1, "sql": 0, "flights": 2}[name], crash

    with scripted(module, name):
        on(store, moment, module.app, check)
