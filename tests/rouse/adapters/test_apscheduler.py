"""APScheduler waits by a clock that stands still while the machine sleeps."""

from __future__ import annotations

import importlib
import logging
import threading
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.rouse.adapters import trials
from torpor import rouse


def trial() -> trials.Report:
    """Runs in a process of its own. What is due in an hour is asked for after an hour's sleep."""
    schedulers: Any = importlib.import_module("apscheduler.schedulers.background")
    clocks: Any = importlib.import_module("apscheduler.schedulers.base")
    ran, looked = threading.Event(), threading.Event()

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("Next wakeup is due"):
                looked.set()

    logger = logging.getLogger("apscheduler")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(Listening())
    scheduler = schedulers.BackgroundScheduler(timezone="UTC")
    scheduler.add_job(ran.set, "interval", hours=1, misfire_grace_time=None)
    scheduler.start()
    assert looked.wait(PATIENCE_SECONDS)  # from here on it waits for an hour to pass

    class AnHourLater(datetime):
        """The wall clock after the sleep; no other clock has moved."""

        @classmethod
        def now(cls, tz: Any = None) -> AnHourLater:
            """An hour and a bit more than now."""
            return super().now(tz) + timedelta(hours=1, seconds=1)

    clocks.datetime = AnHourLater
    bare = ran.wait(trials.SOON_SECONDS)
    rouse.adapt()
    trials.wake()
    return {"bare": bare, "cured": ran.wait(PATIENCE_SECONDS)}


@pytest.mark.slow
def test_what_fell_due_in_the_sleep_is_run_after_it() -> None:
    """Without the adapter it would be run an hour late."""
    assert trials.report("test_apscheduler") == {"bare": False, "cured": True}
