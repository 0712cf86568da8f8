"""What a person types at a terminal, line by line, while everything else goes on."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from torpor.cli.region import Region

_READ = 65_536


class Keyboard:
    """Standard input, if it is a terminal. Questions are written to standard error; nothing blocks, and Ctrl-C is heard."""

    def __init__(self, region: Region) -> None:
        """Ask below a region of the terminal."""
        self._region = region
        self._begun = b""
        self._over = False

    @property
    def there(self) -> bool:
        """Whether a person can be asked: both ways lead to a terminal."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def forget(self) -> None:
        """Drop what was typed before a question was asked: it was no answer to it."""
        import termios

        self._begun = b""
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    async def line(self, question: str) -> str | None:
        """Ask, and return the line that is typed; None at the end of the input (Ctrl-D)."""
        self._region.ask(question)
        fd = sys.stdin.fileno()
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        while b"\n" not in self._begun and not self._over:
            readable.clear()
            loop.add_reader(fd, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(fd)
            self._read(fd)
        over, self._over = self._over, False  # a terminal may be asked again after its Ctrl-D
        if over and not self._begun:
            self._region.begin_line()
            return None
        self._region.answered()
        line, _, self._begun = self._begun.partition(b"\n")
        return line.decode("utf-8", "replace").strip()

    async def text(self, question: str) -> str | None:
        """Ask, and return a text of one line, or of several if they were pasted at once; None at the end of the input."""
        said = await self.line(question)
        if said is None:
            return None
        fd, lines = sys.stdin.fileno(), [said]
        while select.select([fd], [], [], 0)[0] and not self._over:
            self._read(fd)
        while b"\n" in self._begun:
            line, _, self._begun = self._begun.partition(b"\n")
            lines.append(line.decode("utf-8", "replace").rstrip())
        return "\n".join(lines).strip()

    def _read(self, fd: int) -> None:
        try:
            chunk = os.read(fd, _READ)
        except OSError:  # the terminal is gone
            chunk = b""
        self._over = not chunk
        self._begun += chunk

    async def line_unless(self, question: str, other: Coroutine[Any, Any, Any], *, text: bool = False) -> str | None:
        """Ask until something else happens: then raise what it raises, or Overtaken with what it returns."""
        happening = asyncio.ensure_future(other)
        typing = asyncio.ensure_future(self.text(question) if text else self.line(question))
        both = [happening, typing]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if typing.done():
                return await typing
            self._region.begin_line()
            raise Overtaken(str(await happening or ""))
        finally:
            for one in both:
                one.cancel()
            await asyncio.wait(both)  # the next question reads the same terminal


class Overtaken(Exception):
    """Something else happened before the line was typed; its text says what."""
