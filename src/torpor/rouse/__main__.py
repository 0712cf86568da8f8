"""`python -m torpor.rouse watch | explain | run -- CMD`. Also from a zip of this room, where it is `python -m rouse`."""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import shutil
import signal
import sys
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

from .detectors.clocks import Limits
from .detectors.outside import explain, names
from .phases import Phase
from .registry import process_registry
from .run import GRACE_SECONDS, Run
from .ticks import watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .event import Rousal

NARROWEST = 40


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line; the exit status."""
    asked = _parser().parse_args(arguments)
    limits = Limits(tick_seconds=asked.tick, freeze_seconds=asked.freeze)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a host may call an event by letters that are none
    try:
        if asked.command == "explain":
            return _explain(as_json=asked.json)
        if asked.command == "watch":
            return _watch(limits, as_json=asked.json)
    except BrokenPipeError:
        return _unread()
    program = asked.program[1:] if asked.program[:1] == ["--"] else asked.program
    if not program or not program[0]:
        _parser().error("run: give the program after --")
    run = Run(program, send=asked.signal, grace_seconds=asked.grace, say=_say_aside)
    return run.run(limits)


def _parser() -> argparse.ArgumentParser:
    limits = argparse.ArgumentParser(add_help=False)
    default = Limits()
    looks = {
        "--tick": (default.tick_seconds, "between two looks"),
        "--freeze": (default.freeze_seconds, "how late a look is a freeze"),
    }
    for name, (seconds, what_for) in looks.items():
        limits.add_argument(name, type=_seconds, default=seconds, metavar="SECONDS", help=f"{what_for} ({seconds:g})")
    parser = argparse.ArgumentParser(prog=_name(), description="Know that you slept, were copied or rolled back.")
    commands = parser.add_subparsers(dest="command", required=True)
    watching = commands.add_parser("watch", parents=[limits], help="print a line for each rousal")
    watching.add_argument("--json", action="store_true", help="one JSON object a line")
    explaining = commands.add_parser("explain", parents=[limits], help="which detectors work here, and what they miss")
    explaining.add_argument("--json", action="store_true", help="as JSON, with needs, cost and fallback")
    running = commands.add_parser(
        "run",
        parents=[limits],
        help="run a program; on a rousal restart or signal it",
        description="Run a program and, on a rousal, restart or signal it: its whole process group, so also what npm or a "
        "shell started.",
    )
    what = running.add_mutually_exclusive_group()
    what.add_argument("--restart", action="store_true", help="end it on a rousal and start it again (the default)")
    what.add_argument(
        "--signal",
        type=_signal,
        metavar="NAME",
        help="send this instead. Only to a program with a handler for it: another one dies of it and is not started "
        "again. USR1 opens Node's debugger",
    )
    running.add_argument(
        "--grace",
        type=_grace,
        default=GRACE_SECONDS,
        metavar="SECONDS",
        help=f"from SIGTERM to SIGKILL ({GRACE_SECONDS:g})",
    )
    running.add_argument("program", nargs=argparse.REMAINDER, metavar="-- CMD", help="the program and its arguments")
    return parser


def _name() -> str:
    return f"python -m {__package__}"


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds above zero")
    return seconds


def _grace(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds, zero or more")
    return seconds


def _signal(name: str) -> signal.Signals:
    try:
        return signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except KeyError:
        raise argparse.ArgumentTypeError(f"no signal is called {name}") from None


def _printable(text: str) -> str:
    """Show what would move the cursor or begin a line by its number: somebody else chose the letters."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _say_aside(line: str) -> None:
    sys.stderr.write(f"rouse: {line}\n")
    sys.stderr.flush()


def _unread() -> int:
    """Whoever read what we print has gone: so do we, and what is still to be written goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _watch(limits: Limits, *, as_json: bool) -> int:
    unread = False

    def tell(rousal: Rousal) -> None:
        nonlocal unread
        try:
            if as_json:
                _say(json.dumps(asdict(rousal)))
            else:
                _say(_printable(f"{rousal.kind}, {rousal.away_seconds:.3f} s away: {'; '.join(rousal.evidence)}"))
        except BrokenPipeError:
            unread = True
            os.kill(os.getpid(), signal.SIGTERM)

    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    process_registry.on_rousal(tell, phase=Phase.OPEN_GATE)
    running = watch(limits)
    _say_aside(f"watching, with {', '.join(names(process_registry.detectors))}")
    signal.sigwait(ends)
    running.stop()
    return _unread() if unread else 0


def _explain(*, as_json: bool) -> int:
    found = explain()
    if as_json:
        _say(json.dumps([asdict(about) for about in found], indent=2))
        return 0
    widths = [max(len(about.name) for about in found), 5]
    rest = max(NARROWEST, shutil.get_terminal_size((120, 24)).columns - sum(widths) - 6) // 2
    rows = [("detector", "here", "sees", "cannot see"), ("", "", "", "")]
    rows += [
        (
            about.name,
            "yes" if about.works else "no",
            about.paragraphs["Sees"],
            about.paragraphs["Cannot see"] + (f" Not here: {about.why_not}." if not about.works else ""),
        )
        for about in found
    ]
    for row in rows:
        cells = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, [*widths, rest, rest], strict=True)]
        for number in range(max(map(len, cells))):
            line = [cell[number] if number < len(cell) else "" for cell in cells]
            _say("  ".join(text.ljust(width) for text, width in zip(line, [*widths, rest, rest], strict=True)).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
