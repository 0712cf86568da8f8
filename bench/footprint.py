"""What torpor weighs: bytes stored for a payload, milliseconds to import, memory of a worker that has nothing to do.

python bench/footprint.py (bytes|idle) STORE           prints a row; STORE is sqlite or a postgresql:// URL
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from torpor.bench.conditions import conditions, fdatasync_p50_ms, load1
from torpor.bench.parent import Child, make_known
from torpor.bench.places import fresh
from torpor.bench.programs import KILOBYTE, app
from torpor.bench.throughput import drive
from torpor.client import Client
from torpor.runtime import opened

STEPS = 300
_TIMES = 9
_RSS = """
for line in open('/proc/self/status'):
    if line.startswith('VmRSS'):
        print(int(line.split()[1]) / 1024)
"""


def stored(store: str) -> dict[str, Any]:
    """Measure how much a run of 300 steps of 1 KB each leaves, all indexes included and the log brought back."""
    with fresh(store) as place:

        async def run() -> int:
            async with opened(place.url) as opened_store:
                await make_known(opened_store, app)
                empty = place.size_bytes()
                await Client(opened_store).start("wide", STEPS)
                await drive(opened_store, 1)
                return empty

        empty = asyncio.run(run())
        to = place.copying()
        to.settle()
        to.close()
        left = place.size_bytes() - empty
        payload = STEPS * KILOBYTE
        row = {"stored_bytes": left, "payload_bytes": payload, "times_payload": round(left / payload, 3)}
        return {"w": "bytes", "peer": place.peer, **row, **conditions(place)}


def idle(store: str) -> dict[str, Any]:
    """Measure the memory of a worker process that has just become ready and has nothing to do."""
    with fresh(store) as place:
        asyncio.run(_make_store(place.url))
        with Child("go", place) as worker:
            worker.heard("ready")
            row = {"w": "idle", "peer": place.peer, "rss_mb": worker.rss_mb()}
        return {**row, **conditions(place)}


async def _make_store(url: str) -> None:
    async with opened(url) as store:
        await make_known(store, app)


def imported(python: str, statement: str) -> dict[str, Any]:
    """Measure a statement in fresh interpreters, in turn with nothing: the difference of the medians, and the memory."""
    took: dict[str, list[float]] = {"": [], statement: []}
    memory: dict[str, float] = {}
    subprocess.run([python, "-c", statement], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - caches get warm
    for _ in range(_TIMES):
        for code, seconds in took.items():
            began = time.perf_counter()
            done = subprocess.run([python, "-c", code + _RSS], check=True, capture_output=True, text=True)  # noqa: S603
            seconds.append(time.perf_counter() - began)
            memory[code] = float(done.stdout)
    bare, whole = (statistics.median(seconds) for seconds in took.values())
    with tempfile.TemporaryDirectory() as folder:
        disk = fdatasync_p50_ms(Path(folder))
    return {
        "w": "import",
        "statement": statement,
        "import_ms": round((whole - bare) * 1e3, 1),
        "bare_ms": round(bare * 1e3, 1),
        "rss_mb": round(memory[statement], 1),
        "bare_rss_mb": round(memory[""], 1),
        "load1": load1(),
        "fdatasync_p50_ms": disk,
    }


if __name__ == "__main__":
    print(json.dumps({"bytes": stored, "idle": idle}[sys.argv[1]](sys.argv[2])))
