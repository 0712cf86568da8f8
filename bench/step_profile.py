"""Where the microseconds of a step go.

    python bench/step_profile.py [--runs 500] [--steps 200] [--functions 15] [--store sqlite|URL]

First the worker alone: real flows, real executors, real batches, only the database's part of a commit left out. A timer
looks at the stack of the worker's thread a few thousand times a second and counts in which part of torpor it is; what
asyncio and the standard library do is counted for the part that asked. A profiler that counts calls would make small
functions look dear.

Then the whole, on a real store: the processor time of each of its threads, from the kernel's own books. What is not on
the worker's thread is the store's; the difference of the two worker figures is the hand over between the threads, the
claims, and what a run costs at its start and end.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torpor.bench.conditions import fdatasync_p50_ms, load1, machine
from torpor.bench.parent import make_known
from torpor.bench.places import fresh
from torpor.bench.programs import app
from torpor.client import Client
from torpor.core.run import Flag
from torpor.runtime import Process, opened
from torpor.store.protocol import Lane
from torpor.store.rows import Left

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from torpor.store.protocol import Store

TICK_SECONDS = 0.0003
ROOT = str(Path(sys.modules["torpor"].__file__ or "").parent) + "/"
PARTS = (
    ("sdk/loop", "flow loop: the body's own event loop"),
    ("sdk/", "asking: ctx.step, the request, arguments"),
    ("core/replay", "identity: keys, replay"),
    ("store/values/digests", "identity: keys, replay"),
    ("worker/turn", "turn: the port between body and executor"),
    ("store/values", "encode and decode"),
    ("worker/bodies", "encode and decode"),
    ("worker/calls", "call: the author's function as an asyncio task"),
    ("bench/programs", "the measured flow and step themselves"),
    ("worker/progress", "progress: what each call needs"),
    ("worker/", "executor: what now, building the commit, replies"),
    ("engine/", "engine: checking and carrying out a batch"),
    ("core/", "engine: checking and carrying out a batch"),
    ("store/", "store: hand over to its thread"),
    ("rouse/", "standing: may this process still act?"),
)
LOOP = "worker's event loop (asyncio)"
_LOOP_FRAMES = ("_run", "_run_once")
HERE = "this script's stand-in for the database"


class NoDatabase:
    """Answers what a commit asks of the database: every fence agrees, nothing is kept."""

    def now(self) -> int:
        """Return the time."""
        return time.time_ns() // 1000

    def append(self, rows: Sequence[Any], *, lease_micros: int) -> dict[int, Flag]:
        """Agree."""
        del lease_micros
        return {row.run_id: Flag.NONE for row in rows}

    def leave(self, rows: Sequence[Any]) -> dict[int, Any]:
        """Agree."""
        return {row.append.run_id: Left(row.after, Flag.NONE) for row in rows}

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Do nothing, for every other verb that writes."""
        return _nothing


def _nothing(*_: object, **__: object) -> None:
    return None


class CommitsNothing:
    """A store in memory whose commits are answered by `NoDatabase`, in the caller's thread; everything else is real."""

    def __init__(self, store: Store) -> None:
        """Stand in front of a store."""
        self._store = store

    def __getattr__(self, name: str) -> Any:
        """Be the store in everything else."""
        return getattr(self._store, name)

    def transact_then(
        self,
        done: Callable[[Any, BaseException | None], None],
        op: Callable[..., Any],
        /,
        *args: Any,
        lane: Lane = Lane.WORK,
        **more: Any,
    ) -> None:
        """Run a commit here, everything else where it belongs."""
        if lane is not Lane.COMMIT:
            self._store.transact_then(done, op, *args, lane=lane, **more)
            return
        value = op(NoDatabase(), *args, **more)
        asyncio.get_running_loop().call_soon(done, value, None)


class Sampler:
    """Counts which part, and which function, the main thread is in."""

    def __init__(self) -> None:
        """Count nothing yet."""
        self.parts: Counter[str] = Counter()
        self.functions: Counter[str] = Counter()
        self._looking = False

    def toggle(self) -> None:
        """Begin to look every TICK_SECONDS, or stop. Main thread only."""
        self._looking = not self._looking
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, *((TICK_SECONDS, TICK_SECONDS) if self._looking else (0, 0)))

    def _look(self, _: int, frame: FrameType | None) -> None:
        while frame is not None:
            path = frame.f_code.co_filename
            if path == __file__:
                self.parts[HERE] += 1
                return
            if path.startswith(ROOT):
                place = path.removeprefix(ROOT)
                self.parts[next((name for start, name in PARTS if place.startswith(start)), place)] += 1
                self.functions[f"{place.removesuffix('.py')}:{frame.f_code.co_qualname}"] += 1
                return
            if path.endswith(("asyncio/events.py", "asyncio/base_events.py")) and frame.f_code.co_name in _LOOP_FRAMES:
                break
            frame = frame.f_back
        self.parts[LOOP] += 1
        self.functions["asyncio: loop and handles"] += 1


def thread_seconds() -> dict[str, float]:
    """Return the processor seconds of each thread of this process, by its name."""
    found: dict[str, float] = {}
    for thread in threading.enumerate():
        books = Path(f"/proc/self/task/{thread.native_id}/schedstat")
        seconds = int(books.read_text("ascii").split()[0]) / 1e9
        name = "worker" if thread is threading.main_thread() else thread.name
        found[name] = found.get(name, 0.0) + seconds
    return found


async def drive(store: Store, runs: int, steps: int, around: Callable[[], None]) -> tuple[dict[str, float], float]:
    """Let a worker end so many runs. Return the processor seconds by thread and the wall seconds."""
    await make_known(store, app)
    client = Client(store)
    await asyncio.gather(*[client.start("loop", steps) for _ in range(runs)])
    process = Process(store, app)
    left = runs
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    moments = [0.0, 0.0]

    def tell(event: str, *_: object) -> None:
        nonlocal left
        if event == "awake" and not before:
            before.update(thread_seconds())
            moments[0] = time.perf_counter()
            around()
        elif event == "left":
            left -= 1
            if left == 0:
                around()
                moments[1] = time.perf_counter()
                after.update(thread_seconds())
                process.worker.stop()

    process.worker.on_event = tell
    await process.run(signals=True)  # as a process that is a worker and nothing else
    return {name: after[name] - before.get(name, 0.0) for name in after}, moments[1] - moments[0]


async def alone(runs: int, steps: int, around: Callable[[], None]) -> float:
    """Return the worker's own processor microseconds per step, with the database left out."""
    async with opened(":memory:") as store:
        stand_in: Any = CommitsNothing(store)
        seconds, _ = await drive(stand_in, runs, steps, around)
        return seconds["worker"] / (runs * steps) * 1e6


async def whole(url: str, runs: int, steps: int) -> tuple[dict[str, float], float]:
    """Return processor microseconds per step by thread, and wall microseconds per step, on a real store."""
    async with opened(url) as store:
        seconds, wall = await drive(store, runs, steps, lambda: None)
        return {name: used / (runs * steps) * 1e6 for name, used in seconds.items()}, wall / (runs * steps) * 1e6


def print_alone(arguments: argparse.Namespace) -> float:
    """Print the table of the worker alone, and return its microseconds per step."""
    runs, steps = arguments.runs, arguments.steps
    asyncio.run(alone(runs, max(1, steps // 10), lambda: None))  # warm
    quiet = asyncio.run(alone(runs, steps, lambda: None))
    sampler = Sampler()
    asyncio.run(alone(runs, steps, sampler.toggle))
    total = sampler.parts.total()
    print(f"\n{runs} runs x {steps} steps, the database left out: **{quiet:.1f} us per step** on the worker's thread\n")
    print("| Part | % | us per step |\n|---|---:|---:|")
    for name, count in sampler.parts.most_common():
        print(f"| {name} | {100 * count / total:.1f} | {quiet * count / total:.1f} |")
    print(f"\nThe {arguments.functions} dearest functions, themselves and what they call outside torpor:\n")
    print("| Function | % | us per step |\n|---|---:|---:|")
    for name, count in sampler.functions.most_common(arguments.functions):
        print(f"| `{name}` | {100 * count / total:.1f} | {quiet * count / total:.1f} |")
    return quiet


def print_whole(store: str, runs: int, steps: int, quiet: float) -> None:
    """Print the table of a real store's threads."""
    with fresh(store) as place:
        threads, wall = asyncio.run(whole(place.url, runs, steps))
        print(
            f"\n{runs} runs x {steps} steps on {place.peer.removeprefix('torpor-')}: {wall:.1f} us per step by the clock\n"
        )
        print("| Thread | processor us per step |\n|---|---:|")
        for name, used in sorted(threads.items(), key=lambda item: -item[1]):
            if used >= 0.05:  # noqa: PLR2004 - it would be printed as 0.0
                print(f"| {name} | {used:.1f} |")
        print(f"| of the worker's: hand over, claims, beginnings and ends of runs | {threads['worker'] - quiet:.1f} |")
        print(f"\nload {load1()}, fdatasync {fdatasync_p50_ms(place.folder)} ms, {machine()}")


def main() -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description="Where the microseconds of a step go.")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--functions", type=int, default=15, help="how many of the dearest functions to name")
    parser.add_argument("--store", action="append", help="a store for the second half; may be given twice")
    arguments = parser.parse_args()
    print(f"Step profile, {time.strftime('%Y-%m-%d %H:%M')}, load {load1()}, {machine()}")
    quiet = print_alone(arguments)
    for store in arguments.store or ["sqlite"]:
        print_whole(store, arguments.runs, max(1, arguments.steps // 2), quiet)


if __name__ == "__main__":
    main()
