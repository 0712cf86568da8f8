"""A script: a worker's process draws, is copied twice past every hook, and each copy draws. `python drawing.py bare | tuned`.

The last line on standard output is a JSON list of what was drawn: before, then in each copy.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from tests.rouse.copying import in_copy, raw_clone
from torpor import rouse
from torpor.runtime import tune
from torpor.store.life import FileLock
from torpor.worker.worker import Worker

Drawn = dict[str, str]


def life_lock() -> str:
    """Take a life lock, and let go of it."""
    lock = FileLock("")
    lock.release()
    return lock.name


def drawn() -> Drawn:
    """Draw what torpor names things by, and what the libraries around it draw."""
    nowhere: Any = None
    return {
        "worker": Worker(nowhere, {}).name + Worker(nowhere, {}).name,
        "life lock": life_lock(),
        "random": str(random.random()),  # noqa: S311 - that it is no secret is the point
        "span": str(RandomIdGenerator().generate_span_id()),
    }


def main(how: str) -> None:
    """Draw, be copied, draw."""
    if how == "tuned":
        tune()
    watcher = rouse.Watcher(rouse.Limits(tick_seconds=600.0))

    def in_a_copy() -> Drawn:
        watcher.check()  # what a worker does before anything else
        return drawn()

    before = drawn()
    sys.stdout.write(json.dumps([before, in_copy(in_a_copy, raw_clone), in_copy(in_a_copy, raw_clone)]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
