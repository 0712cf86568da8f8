"""A step that forks: what ends its children does not end the worker."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cases.world import World


@pytest.mark.slow
def test_a_signal_to_a_child_is_not_the_workers(world: World) -> None:
    """A forked child shares the pipe through which asyncio hears of signals: the worker took it for its own, and drained."""
    world.outside.free("says", value="on")
    worker = world.worker("forking")
    run = world.start("forks")
    assert world.result(run) == [signal.SIGTERM, "on"]
    assert worker.process.poll() is None
    assert "stopp" not in worker.log
    assert worker.stop() == 0
