"""A line for each explored configuration at the end of the run: how many worlds were visited."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

PROPERTY = "explored"


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print what the tests recorded; it also travels back from the processes of pytest-xdist."""
    lines = [
        (str(name), int(states), int(moves))
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
        for key, value in getattr(report, "user_properties", ())
        if key == PROPERTY and getattr(report, "when", "") == "call"
        for name, states, moves in [value]
    ]
    if not lines:
        return
    terminalreporter.section("the small world of the protocol, every interleaving")
    for name, states, moves in lines:
        terminalreporter.write_line(f"{name:<44} {states:>9,} states {moves:>10,} moves")
    terminalreporter.write_line(f"{'together':<44} {sum(line[1] for line in lines):>9,} states")
