"""`torpor demo`: the whole of it, from the folder to the exit code."""

from __future__ import annotations

import asyncio
import json as json_text
import logging
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torpor import clock
from torpor.client import Client
from torpor.demo import asking
from torpor.demo.audit import counted
from torpor.demo.crew import Crew
from torpor.demo.folder import read_folder
from torpor.demo.place import cancel_unfinished, refuse_others, taken
from torpor.demo.proof import Proof, prove, read_journal
from torpor.demo.screen import Drawn, Silent
from torpor.demo.story import WORKERS, Story
from torpor.errors import TorporError
from torpor.runtime import opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torpor.demo.folder import Folder
    from torpor.demo.place import Place
    from torpor.demo.screen import Screen
    from torpor.store.rows import RunRow

LEASE_SECONDS = 5.0
"""Shorter than a worker's usual 45 s, so that a frozen one is over soon."""
MOST_SECONDS = 180.0
INTERRUPTED = 130
TERMINATED = 143


def command(
    path: str | None,
    *,
    store: str | None = None,
    json: bool = False,
    keep: bool = False,
    lease_seconds: float = LEASE_SECONDS,
) -> int:
    """Run the demo and return its exit code: 0 if everything was proven, 1 if not, 130 after Ctrl-C, 143 after SIGTERM.

    `path`: the folder to audit, or None for torpor's own source. `store`: a URL, or None for an empty SQLite file in
    `.torpor`. `json`: say nothing but one JSON object on standard output. `keep`: leave the workers' logs and the
    service's counts in `.torpor`. Raises TorporError for what a user can mend.
    """
    folder = read_folder(path)
    screen: Screen = Silent() if json else Drawn()
    try:
        with taken(store) as place, _log_kept(place.log_of("demo")):
            return asyncio.run(_whole(folder, place, screen, lease_seconds, as_json=json, keep=keep))
    except (KeyboardInterrupt, asyncio.CancelledError) as end:
        screen.close(["interrupted: the demo's processes are ended, the run stays in the store as it was"])
        return INTERRUPTED if isinstance(end, KeyboardInterrupt) else TERMINATED


async def _whole(
    folder: Folder, place: Place, screen: Screen, lease_seconds: float, *, as_json: bool, keep: bool
) -> int:
    began_at = clock.monotonic()
    _end_on_sigterm()
    try:
        async with opened(place.url) as store, Crew(place) as crew:
            notes = list(folder.notes)
            if not place.fresh:
                await asyncio.to_thread(refuse_others, store)
                if left := await store.transact(cancel_unfinished):
                    notes.append(f"{left} unfinished from an earlier demo, cancelled")
            screen.open(_sentence(folder), notes, place.shown)
            story = Story(Client(store), crew, screen, place, folder)
            async with asyncio.timeout(MOST_SECONDS):
                await story.play(lease_seconds)
                journal = await store.transact(read_journal, story.run_id)
                run = (await store.transact(lambda tx: tx.get_runs([story.run_id])))[story.run_id]
                counts = await asyncio.to_thread(asking.counts, story.port)
            await crew.dismiss()
    except TimeoutError:
        screen.close([])
        raise TorporError(
            f"the demo did not come to its end within {MOST_SECONDS:g} s", hint=f"its logs are in {place.folder}"
        ) from None
    except BaseException:
        screen.close([])
        raise
    proof = prove(run, journal, counts, folder.files, story.before)
    _complain(proof, story, run, place.report)
    seconds = clock.monotonic() - began_at
    if as_json:
        sys.stdout.write(json_text.dumps(_object(folder, place, story, run, proof)) + "\n")
        sys.stdout.flush()
    else:
        _say(screen, place, story, run, proof, seconds)
    if proof.complaints:
        return 1
    if not keep:
        place.tidy([*WORKERS, "counter", "demo"])
    return 0


@contextmanager
def _log_kept(path: Path) -> Iterator[None]:
    """Write this process's own log lines to a file: the terminal belongs to the demo."""
    log = logging.getLogger("torpor")
    kept = logging.FileHandler(path, mode="w", encoding="utf-8")
    before = log.propagate
    log.propagate = False
    log.addHandler(kept)
    try:
        yield
    finally:
        log.removeHandler(kept)
        log.propagate = before
        kept.close()


def _end_on_sigterm() -> None:
    """Let SIGTERM do what Ctrl-C does: end the processes first."""
    this = asyncio.current_task()
    if this is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)


def _sentence(folder: Folder) -> str:
    files = counted(len(folder.files), "file")
    return f"torpor demo: audits {files} of {folder.title}, kills a worker and freezes another. No key, no network."


def _complain(proof: Proof, story: Story, run: RunRow, report: Path) -> None:
    """Add what was to happen and did not: a demo in which nothing was killed proves nothing."""
    claims = [
        (story.kills == 1, f"one worker was to be killed, it was {story.kills}"),
        (run.takeovers >= 2, f"two takeovers were to happen, the store has {run.takeovers}"),  # noqa: PLR2004 - two acts
        (story.settled >= 1, "an unknown effect was to be settled, there was none"),
        (story.fenced == 1, f"one worker was to be fenced, it was {story.fenced}"),
        (report.is_file(), f"the report {report} was to be written"),
    ]
    proof.complaints += [complaint for holds, complaint in claims if not holds]


def _object(folder: Folder, place: Place, story: Story, run: RunRow, proof: Proof) -> dict[str, Any]:
    """The one object of `--json`; times are milliseconds."""
    return {
        "run": story.run_name,
        "files": len(folder.files),
        "steps": proof.steps,
        "effects": proof.effects,
        "effects_repeated": proof.repeated,
        "steps_lost": proof.steps_lost + proof.lost,
        "kills": story.kills,
        "takeovers": run.takeovers,
        "takeover_ms": round(story.takeover_ms, 1),
        "resume_ms": round(story.resume_ms, 1),
        "store": place.shown,
    }


def _say(screen: Screen, place: Place, story: Story, run: RunRow, proof: Proof, seconds: float) -> None:
    lost = proof.lost + proof.steps_lost
    good = not proof.complaints
    first = (
        f"service counted {proof.counted} publishes, journal has {proof.published}: "
        f"repeated {proof.repeated}, lost {lost}"
    )
    facts = (
        f"kills {story.kills}   takeovers {run.takeovers}   fenced {story.fenced}   "
        f"takeover {story.takeover_ms:.0f} ms   resume {story.resume_ms:.0f} ms"
    )
    screen.proof([(first, "green" if good else "bold red"), (facts, "")])
    if not good:
        words = [f"not proven: {complaint}" for complaint in proof.complaints[:10]]
        screen.close([*words, f"hint: logs and counts are in {place.folder}"])
        return
    screen.close(
        [
            f"done in {seconds:.0f} s. The report is {place.report}",
            f"next: torpor show {story.run_name} --store {place.shown}",
        ]
    )
