"""`make sim SEED=1234 [STORE=postgres] [SEEDS=1000]`: repeat a seed and shrink what fails, or run many with their record."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers import server
from tests.simulation.harness import Record, Stores, chunk, repeat, shrink, story

if TYPE_CHECKING:
    from collections.abc import Sequence

CHUNK = 50
"""So many seeds are run in one process before a fresh one takes over."""


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def one(seed: int, stores: Stores, *, trace: bool) -> int:
    """Run one seed; tell its smallest story if it fails."""
    outcome = stores.seed(seed, keep_lines=True)
    say(f"seed {seed}: {outcome.seconds:.2f} s, {outcome.events} events, digest {outcome.digest}")
    if not outcome.broken:
        if trace:
            say("\n".join(outcome.lines))
        say("nothing is broken")
        return 0
    say("\n".join(f"BROKEN {one}" for one in outcome.broken))
    say("shrinking ...")
    plan, smallest = shrink(stores, stores.draw(seed), outcome.broken, say)
    say("\n".join(story(plan, smallest)))
    say(repeat(seed, stores.kind))
    return 1


def many(first: int, count: int, kind: str, url: str, processes: int, log: str) -> int:
    """Run many seeds; chunks that stand in `log` are not run again."""
    record, began = Record(), time.monotonic()
    known = _read(log)
    chunks = [(at, min(CHUNK, first + count - at), kind, url) for at in range(first, first + count, CHUNK)]
    for at, found in known.items():
        if any(at == one[0] for one in chunks):
            record.merge(found)
    left = [one for one in chunks if one[0] not in known]
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=1) as pool:
        for at, found in pool.imap_unordered(chunk, left):
            record.merge(found)
            _write(log, at, found)
            for seed, broken in found.failed.items():
                say(f"{repeat(seed, kind)}   # {broken[0]}")
            rate = record.seeds / max(time.monotonic() - began, 0.001)
            say(f"{record.seeds} of {count} seeds, {rate:.1f} a second, {len(record.failed)} failed")
    say("\n".join(record.table()))
    say(str(record))
    return 1 if record.failed else 0


def _write(log: str, at: int, found: Record) -> None:
    if log:
        struck = [[*key, n] for key, n in found.struck.items()]
        said = [found.seeds, found.seconds, found.events, found.copies, struck, dict(found.runs), found.failed]
        with Path(log).open("a") as file:
            file.write(f"{at} {json.dumps(said)}\n")


def _read(log: str) -> dict[int, Record]:
    known: dict[int, Record] = {}
    if log and Path(log).exists():
        for line in Path(log).read_text().splitlines():
            at, _, text = line.partition(" ")
            seeds, seconds, events, copies, struck, runs, failed = json.loads(text)
            record = known[int(at)] = Record(seeds, seconds, events, copies)
            record.struck.update({(kind, moment): n for kind, moment, n in struck})
            record.runs.update(runs)
            record.failed.update({int(seed): broken for seed, broken in failed.items()})
    return known


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit code is 1 if something is broken."""
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the seed, or the first of many")
    parser.add_argument("--seeds", type=int, default=0, help="how many, from --seed on")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--log", default="", help="a file that remembers what was run, to go on after a stop")
    parser.add_argument("--trace", action="store_true", help="print what happened also if nothing is broken")
    said = parser.parse_args(arguments)
    on_server = said.store == "postgres"
    with server("postgres", str(os.getpid())) if on_server else nullcontext("") as url:
        if said.seeds:
            return many(said.seed, said.seeds, said.store, url, said.processes, said.log)
        return one(said.seed, Stores(said.store, url), trace=said.trace)


if __name__ == "__main__":
    sys.exit(main())
