"""A slow machine, on demand: pauses where a commit, a thread, an event loop or a process may take its time anyway.

`make slowly SEED=7` puts them in. They prove nothing and measure nothing; they find tests that hope. What is right stays
right however long any of these takes, so a test that fails under them hopes for pace, or has found a bug. The variable
`SLOWNESS` holds the seed: `tests/conftest.py` reads it for pytest's own process; processes that tests start find
`sitecustomize.py` beside this file on their path, and are slowed by it as well.

A seed repeats the pauses as far as threads let it. How much there is of them differs from test to test: now rare, now
everywhere, at most `ENOUGH_SECONDS` for a test in one process.
"""

from __future__ import annotations

import asyncio
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import threading
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

SLOWNESS = "SLOWNESS"
ENOUGH_SECONDS = 12.0
_SHORT_SECONDS, _LONG_SECONDS = 0.4, 4.0
_OFTEN = (0.3, 0.1, 0.03, 0.01)
_STORES = {"torpor.store.sqlite.store": "SqliteStore", "torpor.store.postgres.store": "PostgresStore"}


class Slow:
    """How slow this process is, for now."""

    def __init__(self, seed: str) -> None:
        """Begin to be slow."""
        self.seed = seed
        self._never = threading.Event()
        self.again("")

    def again(self, name: str) -> None:
        """Draw anew how slow it is, and what it starts: for the test of this name."""
        os.environ[SLOWNESS] = f"{self.seed} {name}".strip()
        self._random = Random(f"{self.seed} {name}")  # noqa: S311 - no secret
        self._often = self._random.choice(_OFTEN)
        self._left = ENOUGH_SECONDS

    def pause(self, *, rarely: float = 1.0) -> None:
        """Be slow here, or not."""
        if self._left <= 0 or self._random.random() > self._often * rarely:
            return
        most = _LONG_SECONDS if self._random.random() < 0.3 else _SHORT_SECONDS
        seconds = self._random.random() * most
        self._left -= seconds
        self._never.wait(seconds)


_begun: list[Slow] = []


def begin(seed: str) -> Slow:
    """Slow this process and those that it starts, once: a worker of pytest-xdist was started by one that is slow."""
    if _begun:
        return _begun[0]
    slow = Slow(seed)
    _begun.append(slow)
    _slow_threads(slow)
    _slow_loops(slow)
    for name in _STORES.keys() & sys.modules.keys():
        _slow_store(slow, getattr(sys.modules[name], _STORES[name]))
    sys.meta_path.insert(0, _Slowing(slow))
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, *(path for path in known if path and path not in paths)])
    return slow


def _slow_threads(slow: Slow) -> None:
    """A new thread gets its first turn late."""
    run = threading.Thread.run

    def late(thread: threading.Thread) -> None:
        slow.pause()
        run(thread)

    threading.Thread.run = late  # type: ignore[method-assign, assignment]


def _slow_loops(slow: Slow) -> None:
    """An event loop gets no turn for a while between two callbacks, as happens where the processor is somebody else's."""
    run_once = asyncio.BaseEventLoop._run_once  # type: ignore[attr-defined]  # noqa: SLF001

    def late(loop: asyncio.BaseEventLoop) -> None:
        slow.pause(rarely=0.05)
        run_once(loop)

    asyncio.BaseEventLoop._run_once = late  # type: ignore[attr-defined]  # noqa: SLF001


def _slow_store(slow: Slow, store: Any) -> None:
    """A transaction comes late, its commit is slow, and so is the answer."""
    once = store._once  # noqa: SLF001

    def late(self: Any, place: Any, errands: Any, op: Callable[..., Any], *rest: Any) -> Any:
        def slowly(tx: Any, *args: Any, **more: Any) -> Any:
            value = op(tx, *args, **more)
            slow.pause(rarely=0.3)
            return value

        slow.pause()
        value = once(self, place, errands, slowly, *rest)
        slow.pause()
        return value

    store._once = late  # noqa: SLF001


class _Slowing(importlib.abc.MetaPathFinder):
    """Slows a store when it is imported, and imports nothing by itself."""

    def __init__(self, slow: Slow) -> None:
        self._slow = slow

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _STORES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def slowed(module: ModuleType) -> None:
                execute(module)
                _slow_store(self._slow, getattr(module, _STORES[fullname]))

            spec.loader.exec_module = slowed  # type: ignore[method-assign]
        return spec
