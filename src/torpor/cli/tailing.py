"""`torpor tail`: what a run emits, as it comes."""

from __future__ import annotations

import json
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.options import Store, store_url

if TYPE_CHECKING:
    from torpor.cli.screen import Screen
    from torpor.client import Part

INTERRUPTED = 130
_QUOTED_LETTERS = 40


def tail(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or its letters alone.")],
    store: Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document a line for each part.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    after: Annotated[int, typer.Option("--after", min=0, help="Begin after the part of this number.")] = 0,
) -> None:
    """Read what a run emits.

    Text stands as it came; what a dropped attempt had said is taken back in words. Without -f only what is kept now is
    shown. Ctrl-C ends the reading, never the run.
    """
    import asyncio

    from torpor.cli.screen import Screen

    teller = Lines() if as_json else Teller(Screen.of()) if follow else Whole(Screen.of())
    teller.n = after
    try:
        asyncio.run(_read(store, run, teller, follow=follow))
    except KeyboardInterrupt:
        teller.end()
        again = f"torpor tail -f {run} --after {teller.n}"
        sys.stderr.write(f"{run} is left alone and goes on\nnext: {again}\n")
        raise typer.Exit(INTERRUPTED) from None
    teller.end()
    if teller.n == after and not as_json:  # on the other channel: a pipe gets what was emitted, and that is nothing
        sys.stderr.write(f"{run} has emitted nothing{f' after part {after}' if after else ''}\n")


async def _read(store: str | None, run: str, teller: Lines | Teller, *, follow: bool) -> None:
    from torpor.client import Client

    async with (
        Client.connect(store_url(store)) as client,
        aclosing(client.stream(run, teller.n, follow=follow)) as parts,
    ):
        async for part in parts:
            teller.take(part)
            teller.n = part.n


class Lines:
    """Parts for programs: JSON lines."""

    n = 0

    def take(self, part: Part) -> None:
        """Write a part."""
        from torpor.cli.documents import write

        write(part, line=True)

    def end(self) -> None:
        """Write nothing more."""


class Teller:
    """Parts for people, as they come. A screen cannot take back what scrolled away, so a retraction is said."""

    n = 0

    def __init__(self, screen: Screen) -> None:
        """Begin at the start of a line."""
        from torpor.core.stream import Kept

        self._screen = screen
        self._kept = Kept()
        self._within = False

    def take(self, part: Part) -> None:
        """Show a part."""
        if part.kind == "pruned":
            self._kept.take(part.n, part.kind, part.body)
            self._line(self._screen.paint(f"[{_gone(part)}]", "dim"))
            return
        gone = self._kept.take(part.n, part.kind, part.body)
        if part.kind == "retract":
            self._line(self._screen.paint(_taken_back(part, gone), "dim"))
            before = [number for number in self._kept.parts if gone and number > min(gone)]
            if before:  # others spoke in between: what stands above is no longer one text
                self._line(self._screen.paint("kept so far:", "dim"))
                for body in self._kept.parts.values():
                    self._show(body)
        else:
            self._show(part.body)

    def _show(self, body: object) -> None:
        from torpor.cli.live import call_words, value_lines
        from torpor.core.stream import SAYS, TOOL

        if isinstance(body, str):
            self._write(body)
        elif isinstance(body, dict) and SAYS in body:
            self._end_line()  # an answer begins
        elif isinstance(body, dict) and TOOL in body:
            self._line(self._screen.paint(f"  {call_words(body)}", "dim"))
        else:
            for line in value_lines(body):
                self._line(line)

    def _write(self, text: str) -> None:
        """Write text as it is; what would drive a terminal is written out."""
        from torpor.cli.screen import clean

        lines = text.split("\n")
        shown = "\n".join("\t".join(clean(cell) for cell in line.split("\t")) for line in lines)
        self._screen.put(shown)
        self._within = bool(lines[-1]) or (self._within and len(lines) == 1)

    def _line(self, text: str) -> None:
        self._end_line()
        self._screen.say(text)

    def _end_line(self) -> None:
        if self._within:
            self._screen.say()
        self._within = False

    def end(self) -> None:
        """End the last line."""
        self._end_line()


class Whole(Teller):
    """Parts for people, once: what is kept of them."""

    def take(self, part: Part) -> None:
        """Take a part; nothing is shown before the end, except that some are gone."""
        if part.kind == "pruned":
            self._line(self._screen.paint(f"[{_gone(part)}]", "dim"))
        self._kept.take(part.n, part.kind, part.body)

    def end(self) -> None:
        """Show what is kept."""
        for body in self._kept.parts.values():
            self._show(body)
        self._kept.parts.clear()
        self._end_line()


def _gone(part: Part) -> str:
    """Return which parts were pruned, when and why."""
    from torpor.cli.screen import clean
    from torpor.engine.streams import gone_words

    return clean(gone_words(part.body["from"], part.n, part.at, part.body["why"]))


def _taken_back(part: Part, gone: dict[int, object]) -> str:
    """Return a retraction in words: of a text its beginning, of a call its name and arguments, else the parts' numbers."""
    from torpor.cli.live import call_words
    from torpor.core.stream import TOOL

    text = "".join(body for body in gone.values() if isinstance(body, str))
    calls = [call_words(body) for body in gone.values() if isinstance(body, dict) and TOOL in body]
    if not text and calls:
        return f"[taken back: {', '.join(calls)}; what follows replaces it]"
    if not text:
        numbers = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in part.body)
        return f"[taken back: part {numbers}]"
    quoted = json.dumps(text[:_QUOTED_LETTERS], ensure_ascii=False)[1:-1]
    more = "..." if len(text) > _QUOTED_LETTERS else ""
    return f'[{len(text)} character{"s" if len(text) != 1 else ""} taken back: "{quoted}{more}"]'
