"""What the tests of the command line share: a shell, and a store in which one run of each kind waits or has ended."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.cli.shell import Shell, Terminal
from torpor.client import Client
from torpor.engine.runs import register
from torpor.runtime import Process, load_app, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torpor.client import Started

STARTED = (("sends", "a1"), ("sends", "torn"), ("hears", "go"), ("naps", 86_400.0), ("double", 4), ("broken", 0))
"""The runs of a full store, by program and input."""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Return a shell in an empty folder with `shop.py`."""
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return a store's file with runs in it, made once, and the id of each run by program and input."""
    folder = tmp_path_factory.mktemp("full")
    Shell(folder)
    file = folder / "torpor.db"

    async def fill() -> list[Started]:
        app = load_app(str(folder / "shop.py"))
        async with opened(f"sqlite:///{file}") as store:
            await store.transact(register, [(flow.name, flow.version, flow.source) for flow in app.flows.values()])
            started = [await Client(store).start(program, value) for program, value in STARTED]
            await Process(store, app, name="w1", until_idle=True).run()
        return started

    started = asyncio.run(fill())
    return file, {f"{program} {value}": one.run_id for (program, value), one in zip(STARTED, started, strict=True)}


@pytest.fixture
def runs(shell: Shell, full: tuple[Path, dict[str, str]]) -> dict[str, str]:
    """Put a copy of the full store into the shell's folder, and return the ids of its runs."""
    file, ids = full
    for part in file.parent.glob("torpor.db*"):
        if "turn" not in part.name:
            shutil.copy(part, shell.folder)
    return ids


@pytest.fixture
def terminal(shell: Shell) -> Iterator[Callable[..., Terminal]]:
    """Return what starts a command on a terminal; it is killed at the end of the test if it is still there."""
    with ExitStack() as open_terminals:

        def start(*words: str, **more: str) -> Terminal:
            started = shell.terminal(*words, **more)
            open_terminals.callback(started.close)
            return started

        yield start
