"""`torpor worker`: an app's runs, until told to stop."""

from __future__ import annotations

import logging
import platform
import sys
from typing import TYPE_CHECKING, Any, cast

from torpor.cli.driving import INTERRUPTED, Driver, last_words, log_to_stderr
from torpor.cli.feed import Feed
from torpor.cli.options import settings
from torpor.cli.screen import Screen
from torpor.client import without_password
from torpor.runtime import load_app, opened
from torpor.worker.exposition import Exposition
from torpor.worker.measured import MeasuredStore

if TYPE_CHECKING:
    from torpor.store.protocol import Store


async def serve(place: str, url: str, options: dict[str, Any]) -> int:
    """Work until stopped, or idle if told so; return the exit code. Raises UsageError for a port that is taken."""
    log_to_stderr(logging.INFO, as_json=options.pop("log_format") == "json")
    port, host = options.pop("metrics_port"), options.pop("metrics_host")
    said = settings()
    usual = {
        "concurrency": said.concurrency,
        "lease_seconds": said.lease_seconds,
        "threads": said.threads,
        "drain_seconds": said.drain_seconds,
        "shut_seconds": said.shut_seconds,
        "snapshot_seconds": said.snapshot_seconds,
    }
    given = {name: value for name, value in options.items() if value is not None}
    app = load_app(place)
    screen = Screen.of(sys.stderr)
    async with opened(url) as store:
        measured = MeasuredStore(store)
        driver = Driver(store if port is None else cast("Store", measured), app, **{**usual, **given})
        driver.process.snapshot_socket = said.snapshot_socket
        feed = Feed(driver.client, screen, only="-", failures=True)  # counts what was lost
        working = await driver.start(feed)
        programs = ", ".join(sorted(driver.process.worker.flows))
        screen.say(
            f"{driver.worker_name} works on {programs}   {without_password(url)}   Python {platform.python_version()}"
        )
        if port is None:
            await working
        else:
            process, counters = driver.process, measured.counters
            process.waker.on_reaped = counters.took
            async with Exposition(store, process.worker, counters, host=host, port=port) as metrics:
                screen.say(f"metrics at http://{host}:{metrics.port}/metrics")
                await working
        await feed.finish()
        screen.say(f"{driver.worker_name} stopped: {await last_words(driver.client, driver, feed)}")
    return INTERRUPTED if driver.interrupted else 0
