"""A read on a connection of another life: it hangs, and with rouse's adapter it is dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.guests import HOST, python, silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.lab import Lab

pytestmark = [pytest.mark.slow, pytest.mark.alone]

HUNG_SECONDS = 6.0
"""How long the read without rouse is watched: it would hang for hours."""


def test_a_read_of_before_hangs(lab: Lab, figure: Callable[[str, object], None]) -> None:
    """The peer is gone and nobody says so: no reset comes to one who only reads."""
    with silent() as server:
        machine = lab.start()
        program = python(machine, "reads", HOST, str(server.port))
        snapshot = machine.snapshot()
        with lab.wake(snapshot, machine.hardware) as copy:
            how, seconds = copy.the(program).ask(f"waited {HUNG_SECONDS}")
        assert server.asked == ["/never"]
    assert how is None
    figure("a read of before, hung for at least, seconds", seconds)


def test_with_rouse_it_is_dropped_and_the_next_one_works(lab: Lab, figure: Callable[[str, object], None]) -> None:
    """Within a look of the watch; a new connection reaches the same server."""
    with silent() as server:
        machine = lab.start()
        program = python(machine, "reads", HOST, str(server.port), "--rouse")
        snapshot = machine.snapshot()
        with lab.wake(snapshot, machine.hardware) as copy:
            its = copy.the(program)
            how, seconds = its.ask("waited 60")
            status = its.ask("again")
        assert server.asked == ["/never", "/at-once"]
    assert how not in (None, "answered 200")
    assert status == 200
    figure("a read of before, dropped by the adapter after, seconds", seconds)
