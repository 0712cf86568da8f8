"""`torpor demo agent`: the whole of it, from what must be installed to the exit code."""

from __future__ import annotations

import asyncio
import json as json_text
import secrets
import shutil
import signal
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from torpor import clock
from torpor.client import Client
from torpor.demo.agent import repository
from torpor.demo.agent.proof import Proof
from torpor.demo.agent.screen import Screen
from torpor.demo.agent.story import Story
from torpor.demo.agent.sweep import Sweep
from torpor.demo.agent.workers import Workers
from torpor.demo.place import taken
from torpor.errors import TorporError, UsageError
from torpor.runtime import opened

if TYPE_CHECKING:
    from pathlib import Path

    from torpor.demo.agent.play import Played
    from torpor.demo.agent.proof import Point
    from torpor.demo.place import Place
    from torpor.store.protocol import Store

MOST_SECONDS = 600.0
SWEEP_SECONDS = 3600.0
INTERRUPTED = 130
TERMINATED = 143
NEEDED = {"pydantic_ai": "pydantic-ai", "fastmcp": "fastmcp", "mcp_server_git": "mcp-server-git"}


def command(
    *,
    store: str | None = None,
    json: bool = False,
    sweep: bool = False,
    every: int = 1,
    model: str = "",
    ask: bool = False,
) -> int:
    """Run the agent's demo and return its exit code: 0 if all was proven, 1 if not, 130 after Ctrl-C, 143 after SIGTERM.

    `store`: a URL, or None for an empty SQLite file in `.torpor`. `json`: say one JSON object only. `sweep`: die at every
    commit point and between each act and its record, at each `every`-th of them. `model`: a name for pydantic-ai instead of
    the tape. `ask`: the person at the terminal decides. Raises TorporError for what a user can mend.
    """
    _refuse(sweep=sweep, model=model, ask=ask, as_json=json, every=every)
    screen = Screen(silent=json)
    try:
        with taken(store) as place:
            demo = _Demo(place, screen, sweep=sweep, every=every, model=model, ask=ask)
            return asyncio.run(demo.whole(as_json=json))
    except (KeyboardInterrupt, asyncio.CancelledError) as end:
        screen.raw("interrupted: the demo's processes are ended, the run stays in the store as it was")
        return INTERRUPTED if isinstance(end, KeyboardInterrupt) else TERMINATED


def _refuse(*, sweep: bool, model: str, ask: bool, as_json: bool, every: int) -> None:
    """Raise UsageError for what makes no sense together, and for what is not installed."""
    if sweep and (model or ask):
        what = "--model" if model else "--ask"
        raise UsageError(
            f"--sweep compares runs with each other, so it takes no {what}", hint="torpor demo agent --sweep"
        )
    if ask and (as_json or not sys.stdin.isatty()):
        raise UsageError("--ask needs a person at a terminal", hint="leave it out: the demo approves by itself")
    if every < 1:
        raise UsageError(f"every {every}: a number from 1")
    if every != 1 and not sweep:
        raise UsageError("--every says where a --sweep dies", hint=f"torpor demo agent --sweep --every {every}")
    repository.need_git()
    for module, package in NEEDED.items():
        if find_spec(module) is None:
            raise UsageError(
                f"the agent's demo needs {package}, which is not installed", hint="pip install 'torpor[demo]'"
            )
    if model:
        from pydantic_ai.models import infer_model

        try:
            infer_model(model)
        except Exception as error:
            raise UsageError(
                f"there is no model {model!r} here: {error}", hint="leave --model out for the tape"
            ) from error


class _Demo:
    """One demo, from the first worker to the last line."""

    def __init__(self, place: Place, screen: Screen, *, sweep: bool, every: int, model: str, ask: bool) -> None:
        """Begin nothing yet."""
        self._place = place
        self._folder: Path = place.folder.absolute() / "agent"
        self._screen = screen
        self._sweeps = sweep
        self._every = every
        self._model = model
        self._ask = ask
        self._prefix = f"demo-{secrets.token_hex(3)}"

    async def whole(self, *, as_json: bool) -> int:
        """Do everything; return the exit code. Raises TorporError."""
        _end_on_sigterm()
        began_at = clock.monotonic()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._open()
        most = SWEEP_SECONDS if self._sweeps else MOST_SECONDS
        try:
            async with (
                asyncio.timeout(None if self._ask else most),
                opened(self._place.url) as store,
                Workers(self._folder / "nest.log") as workers,
            ):
                proof, played = await self._play(store, workers)
        except TimeoutError:
            raise TorporError(
                f"the demo did not come to its end within {most:g} s", hint=f"its logs are in {self._folder}"
            ) from None
        if as_json:
            sys.stdout.write(json_text.dumps(proof.numbers()) + "\n")
            sys.stdout.flush()
        self._close(proof, played, clock.monotonic() - began_at)
        return 1 if proof.complaints else 0

    async def _play(self, store: Store, workers: Workers) -> tuple[Proof, Played]:
        client = Client(store)
        sweep = Sweep(client, workers, self._folder / "sweep", self._place.url, self._prefix, self._every, self._told)
        if not self._model:
            self._screen.event("it runs once undisturbed first, to be compared with; that takes some seconds")
        undisturbed = None if self._model else await sweep.undisturbed()
        if undisturbed is not None:
            self._screen.event(
                f"undisturbed: {len(undisturbed.asked)} model calls, {len(undisturbed.returns)} tool calls, "
                f"{len(undisturbed.commits)} commit"
            )
        if self._sweeps and undisturbed is not None:
            proof = Proof(undisturbed)
            await sweep.all(proof)
            return proof, undisturbed
        story = Story(
            client,
            workers,
            self._screen,
            self._folder,
            self._place.url,
            f"{self._prefix}-story",
            self._model,
            ask=self._ask,
        )
        points, played = await story.play()
        denied = self._ask and not played.commits
        proof = Proof(None if denied else undisturbed)
        proof.take(points, played)
        proof.expect_deaths(len(points), 1 if denied else 2)
        return proof, played

    # what is said

    def _open(self) -> None:
        says = self._screen
        if self._sweeps:
            says.raw("torpor demo agent: an agent mends a git repository; its worker dies at every point there is.")
        else:
            says.raw("torpor demo agent: an agent mends a git repository while its workers are killed.")
        tape = "a tape, written by hand and replayed as recorded; --model asks a real one"
        says.line("model", self._model or tape)
        says.line("tools", "mcp-server-git over stdio; check; commit, which is done once and asks a person")
        says.line("store", self._place.shown)

    def _told(self, point: Point, proof: Proof) -> None:
        counted = sum(proof.points.values())
        self._screen.progress(f"  {counted:>3} points, {len(proof.complaints)} complaints   {point}")

    def _close(self, proof: Proof, played: Played, seconds: float) -> None:
        if self._sweeps:
            for what, times in sorted(proof.points.items()):
                self._screen.event(f"{what}: {times}")
        good = not proof.complaints
        self._screen.table([(what, str(much), "green" if fine else "bold red") for what, much, fine in proof.table()])
        for complaint in proof.complaints[:10]:
            self._screen.raw(f"not proven: {complaint}", "bold red")
        if not good:
            self._screen.raw(f"hint: repositories and logs are in {self._folder}")
            return
        self._screen.raw(f"done in {seconds:.0f} s")
        if not self._sweeps:
            self._screen.raw(f"next: git -C {self._place.folder / 'agent' / 'repository'} show")
            self._screen.raw(f"      torpor show {played.run} --store {self._place.shown}")


def _end_on_sigterm() -> None:
    """Let SIGTERM do what Ctrl-C does: end the processes first."""
    this = asyncio.current_task()
    if this is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
