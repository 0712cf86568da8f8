"""Client processes as the tests see them: told what to do at one moment, asked what came of it later."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from tests.cases.world import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator


class Asking:
    """One client process."""

    def __init__(self, url: str) -> None:
        """Start it, and wait until it is connected."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cases.asking", url],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.answer()

    def say(self, what: str, *, die: bool = False, **given: Any) -> Self:
        """Tell it to do something; with `die` it is killed as soon as it has answered."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, "given": given, "die": die}) + "\n")
        self._process.stdin.flush()
        return self

    def answer(self) -> dict[str, Any]:
        """Return what came of it."""
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def clients(url: str, count: int) -> Iterator[list[Asking]]:
    """Return so many client processes, which end with the block."""
    started = [Asking(url) for _ in range(count)]
    try:
        yield started
    finally:
        for client in started:
            client.end()
