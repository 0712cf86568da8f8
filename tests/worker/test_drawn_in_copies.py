"""Names, tokens, ids and keys that are made after a copy differ between the copies; none is made ahead and kept (G19)."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.house.tree import ROOT
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

ITS_OWN = {"worker", "life lock"}
"""What torpor draws, from the kernel, when it is needed."""
OF_LIBRARIES = {"random", "span"}
_DRAW = {
    "uuid1",
    "uuid4",
    "token_hex",
    "token_bytes",
    "token_urlsafe",
    "randbits",
    "urandom",
    "getrandbits",
    "randbelow",
}
_SEEDED = {"Random", "SystemRandom"}
_ROOMS_APART = {"rouse", "bench", "demo", "testing"}
"""Not in a worker, or rouse itself."""


def copies(how: str) -> list[dict[str, str]]:
    """Run the script."""
    command = [sys.executable, "-m", "tests.worker.drawing", how]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def differing(drawn: list[dict[str, str]]) -> set[str]:
    """Return what differs in each."""
    return {name for name in drawn[0] if len({one[name] for one in drawn}) == len(drawn)}


@pytest.mark.slow
def test_what_libraries_draw_is_equal_in_copies() -> None:
    """The fault: `random`, and what is made of it, for example the ids of spans. What torpor itself draws is not."""
    assert differing(copies("bare")[1:]) == ITS_OWN


@pytest.mark.slow
def test_in_a_workers_process_all_of_it_differs() -> None:
    """The cure: its process looks after them, from its start."""
    assert differing(copies("tuned")) == ITS_OWN | OF_LIBRARIES


def test_nothing_is_drawn_ahead() -> None:
    """No module of torpor draws while it is loaded, and none draws from the generator that copies share."""
    found = [f"{place}: {what}" for place, tree in trees() for what in (*drawn_at_load(tree), *drawn_from_shared(tree))]
    assert found == []


def test_the_look_at_the_source_finds_it() -> None:
    """Both kinds, also inside a class."""
    planted = ast.parse(
        "import random\nclass A:\n    token = secrets.token_hex(4)\ndef f(): return random.choice([1])\n"
    )
    assert (*drawn_at_load(planted), *drawn_from_shared(planted)) == ("token_hex when it is loaded", "random.choice")


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Return torpor's own modules."""
    for place in sorted((ROOT / "src" / "torpor").rglob("*.py")):
        within = place.relative_to(ROOT / "src" / "torpor")
        if within.parts[0] not in _ROOMS_APART:
            yield str(within), ast.parse(place.read_text("utf-8"))


def drawn_at_load(tree: ast.AST) -> Iterator[str]:
    """Return what is drawn outside of functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call) and (name := _called(node)) in _DRAW:
            yield f"{name} when it is loaded"
        yield from drawn_at_load(node)


def drawn_from_shared(tree: ast.AST) -> Iterator[str]:
    """Return what is drawn from the generator of `random` that every copy has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            shared = node.value.id in {"random", "machine_random"}
            yield from (f"random.{node.attr}",) if shared and node.attr not in _SEEDED else ()


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
