"""`torpor worker`: an app's runs, until told to stop."""

from __future__ import annotations

import logging
import platform
import sys
from typing import Any

from torpor.cli.driving import INTERRUPTED, Driver, last_words, log_to_stderr
from torpor.cli.feed import Feed
from torpor.cli.options import settings
from torpor.cli.screen import Screen
from torpor.client import without_password
from torpor.runtime import load_app, opened


async def serve(place: str, url: str, options: dict[str, Any]) -> int:
    """Work until stopped, or idle if told so; return the exit code."""
    log_to_stderr(logging.INFO)
    said = settings()
    usual = {
        "concurrency": said.concurrency,
        "lease_seconds": said.lease_seconds,
        "threads": said.threads,
        "drain_seconds": said.drain_seconds,
    }
    given = {name: value for name, value in options.items() if value is not None}
    app = load_app(place)
    screen = Screen.of(sys.stderr)
    async with opened(url) as store:
        driver = Driver(store, app, **{**usual, **given})
        feed = Feed(driver.client, screen, only="-", failures=True)  # counts what was lost
        working = await driver.start(feed)
        programs = ", ".join(sorted(driver.process.worker.flows))
        screen.say(
            f"{driver.worker_name} works on {programs}   {without_password(url)}   Python {platform.python_version()}"
        )
        await working
        await feed.finish()
        screen.say(f"{driver.worker_name} stopped: {await last_words(driver.client, driver, feed)}")
    return INTERRUPTED if driver.interrupted else 0
