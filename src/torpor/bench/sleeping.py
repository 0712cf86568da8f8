"""W2: so many runs are asleep, and one of them is woken. How soon does it do its next step, and what do the others cost?

Each has done one step; half of them wait for a message, half sleep until a moment a year away. A worker in a process of
its own parks the first ten thousand; the others are copies of those (`copies`). Another worker, which has seen none of
them, wakes some: it is its memory that is compared with that of the first before anything was parked.
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import TYPE_CHECKING, NamedTuple

from torpor import clock
from torpor.bench.claiming import claimant
from torpor.bench.conditions import conditions
from torpor.bench.copies import copy_run
from torpor.bench.parent import Child, make_known
from torpor.bench.places import fresh
from torpor.bench.programs import app
from torpor.bench.rows import Row, Wanted, median_row, spread_ms
from torpor.client import Client
from torpor.clock import SECOND
from torpor.core.ids import run_name
from torpor.engine import runs
from torpor.runtime import opened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torpor.bench.places import Place
    from torpor.store.protocol import Store

DRIVEN = 10_000
"""So many runs torpor parks itself; more are copies."""
_WARM = 2_000
"""Parked before anything is measured: code, caches and the tables of what runs now have their size then."""
_SEEN = 200
"""Parked by the other worker before its memory is looked at: it has used its code too."""
_WAKES = 200
_PER_SECOND = 50
_CLAIMS = 200
_AT_ONCE = 500
_YEAR = 365 * 86_400 * SECOND
_LEAD = 2 * SECOND
"""So long before the first of them is due the runs are started that time wakes."""


class Parked(NamedTuple):
    """What is asleep: those that wait for a message, by number; how many were copied; how long parking took."""

    waiting: list[int]
    copied: int
    seconds: float


def sleeping(wanted: Wanted) -> Row:
    """Measure W2. Progress of more than DRIVEN runs is told on standard error."""
    return median_row(lambda: _trial(wanted.store, wanted.parked), wanted.trials, by="p50_ms")


def _trial(store: str, parked: int) -> Row:
    with fresh(store) as place:
        return {
            "w": "w2",
            "peer": place.peer,
            "parked": parked,
            **asyncio.run(_measured(place, parked)),
            **conditions(place),
        }


async def _measured(place: Place, parked: int) -> Row:
    async with opened(place.url) as store:
        await make_known(store, app)
        with Child("go", place) as first:
            await asyncio.to_thread(first.heard, "ready")
            await drive(store, first, "parked", _SEEN)
            rss0 = first.rss_mb()
            await drive(store, first, "parked", _WARM)
            sizes = [await asyncio.to_thread(_settled_bytes, place)]
            waiting = await park(store, place, first, "parked", parked - parked // 2)
            sizes.append(await asyncio.to_thread(_settled_bytes, place))
            dozing = await park(store, place, first, "dozing", parked // 2)
            sizes.append(await asyncio.to_thread(_settled_bytes, place))
        with Child("go", place) as second:
            await asyncio.to_thread(second.heard, "ready")
            await drive(store, second, "parked", _SEEN)
            rss = second.rss_mb()
            woken = await _wake(store, second, waiting.waiting)
        return {
            "copied": waiting.copied + dozing.copied,
            "park_secs": round(waiting.seconds + dozing.seconds, 2),
            **woken,
            "store_bytes_per_parked": round((sizes[1] - sizes[0]) / (parked - parked // 2)),
            "store_bytes_per_timer": round((sizes[2] - sizes[1]) / max(1, parked // 2)),
            "rss0_mb": rss0,
            "rss_parked_mb": rss,
        }


async def _wake(store: Store, worker: Child, waiting: list[int]) -> Row:
    """Wake some by a signal, let as many others fall due, and time claims of other runs."""
    chosen = random.Random(1).sample(waiting, min(_WAKES, len(waiting)))  # noqa: S311 - which of them, the same each time
    answered, awake, woken = await _signalled(store, worker, chosen)
    late = await _fallen_due(store, worker, len(chosen))
    async with claimant(store) as other:
        claims = [await other.claim() for _ in range(_CLAIMS)]
    return {
        **spread_ms(woken),
        "signal_p50_ms": spread_ms(answered)["p50_ms"],
        "awake_p50_ms": spread_ms(awake)["p50_ms"],
        **{f"timer_{name}": value for name, value in spread_ms(late).items() if name != "n"},
        **{f"claim_{name}": value for name, value in spread_ms(claims).items() if name != "n"},
    }


async def park(store: Store, place: Place, worker: Child, program: str, count: int) -> Parked:
    """Let so many runs of a program be parked: the first DRIVEN / 2 by the worker, the others copied from one of them."""
    began = clock.monotonic()
    driven = await drive(store, worker, program, min(count, DRIVEN // 2))
    copied = count - len(driven)
    copies = await asyncio.to_thread(_copy, place, driven[0], driven[-1] + 1, copied) if copied else range(0)
    return Parked([*driven, *copies], copied, clock.monotonic() - began)


async def drive(store: Store, worker: Child, program: str, count: int) -> list[int]:
    """Start runs, and wait until the worker has put all of them away. Return their numbers, which count up."""
    state = b"0" if program == "parked" else str(clock.wall() + _YEAR).encode()
    started: list[int] = []
    for first in range(0, count, _AT_ONCE):
        some = await store.transact(runs.start, [runs.Start(program, state)] * min(_AT_ONCE, count - first))
        started += [one.run_id for one in some]
        await asyncio.to_thread(_put_away, worker, len(some))
    return started


def _put_away(worker: Child, count: int) -> None:
    while count:
        count -= worker.heard("left")["state"] == "waiting"


def _copy(place: Place, model: int, first: int, count: int) -> range:
    """Copy a run, and return the numbers of the copies."""
    to = place.copying()
    try:
        copy_run(to, model, first, count, lambda done: _tell(done, count))
    finally:
        to.close()
    return range(first, first + count)


def _tell(done: int, count: int) -> None:
    if done % 100_000 == 0 or done == count:
        sys.stderr.write(f"{done:,} of {count:,} runs parked as copies\n")


def _settled_bytes(place: Place) -> int:
    to = place.copying()
    try:
        to.settle()
        return place.size_bytes()
    finally:
        to.close()


async def _signalled(
    store: Store, worker: Child, chosen: Iterable[int]
) -> tuple[list[float], list[float], list[float]]:
    """Signal runs at a steady pace. Return how long each took, in seconds, from before the signal.

    Until its answer; until a worker had claimed the run; until the run's next step began.
    """
    client = Client(store)
    sent: dict[str, int] = {}
    answered = []
    next_at = clock.monotonic()
    for number in chosen:
        name = run_name("parked", number)
        sent[name] = clock.wall()
        at = clock.monotonic()
        await client.signal(name, "go", "now")
        answered.append(clock.monotonic() - at)
        next_at += 1 / _PER_SECOND
        await asyncio.sleep(max(0.0, next_at - clock.monotonic()))
    took: dict[str, list[float]] = {"awake": [], "woken": []}
    while len(took["woken"]) < len(sent):
        said = await asyncio.to_thread(worker.heard, "awake", "woken")
        took[said["event"]].append((said["at"] - sent[said["run"]]) / SECOND)
    return answered, took["awake"], took["woken"]


async def _fallen_due(store: Store, worker: Child, count: int) -> list[float]:
    """Let runs fall due at a steady pace: how late each did its step, in seconds."""
    first = clock.wall() + _LEAD
    due = [first + n * SECOND // _PER_SECOND for n in range(count)]
    started = await store.transact(runs.start, [runs.Start("dozing", str(at).encode()) for at in due])
    due_at = {one.name: at for one, at in zip(started, due, strict=True)}
    heard = [await asyncio.to_thread(worker.heard, "woken") for _ in due]
    return [(one["at"] - due_at[one["run"]]) / SECOND for one in heard]
