"""The command line as a user has it: real processes in a folder of their own, with and without a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CTRL_C = "\x03"
TORPOR = [sys.executable, "-m", "torpor"]
SHOP = '''"""An app for the tests of the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

from torpor import App, Context, days

app = App()


@app.effect
async def hold(name: str) -> str:
    print("acting")
    await asyncio.to_thread(Path(name).read_bytes)  # a named pipe: until somebody opens its other end
    return name


@app.flow
async def acts(ctx: Context, name: str) -> str:
    return await ctx.effect(hold, name)


@app.effect
async def refund(order: str) -> str:
    if order == "torn":
        raise OSError("connection reset")
    return f"re_{order}"


@app.flow
async def double(ctx: Context, number: int) -> int:
    return 2 * number


@app.flow
async def broken(ctx: Context, number: int) -> float:
    return 1 / number


@app.flow
async def hears(ctx: Context, name: str) -> object:
    return await ctx.receive(name)


@app.flow
async def naps(ctx: Context, seconds: float) -> str:
    await ctx.sleep(seconds)
    return "slept"


@app.flow
async def sends(ctx: Context, order: str) -> str:
    done = await ctx.effect(refund, order)
    text = "Dear Ana,\\nit is on its way."
    answer = await ctx.approval(f"Send {done}?", show={"order": order, "text": text}, expires=days(1))
    return f"{answer.approved} {answer.note}".strip()
'''
BROKEN_AT = f"shop.py:{SHOP[: SHOP.index('return 1 / number')].count(chr(10)) + 1}"
"""Where `broken` breaks."""


class Done(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def problem(self) -> Any:
        """The JSON problem on standard error."""
        return json.loads(self.err)


def environment(**more: str) -> dict[str, str]:
    """Return an environment without what would change the output, and with what is given."""
    left_out = ("TORPOR_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LC_ALL", "LANG", "PYTHONIOENCODING")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**kept, "TERM": "xterm", "PYTHONUTF8": "1", **more}


class Shell:
    """A folder with `shop.py` in it, in which commands are run."""

    def __init__(self, folder: Path) -> None:
        """Use a folder."""
        self.folder = folder
        (folder / "shop.py").write_text(SHOP, "utf-8")

    def run(self, *words: str, stdin: str = "", **more: str) -> Done:
        """Run `torpor WORDS` to its end, without a terminal; `more` is added to the environment."""
        done = subprocess.run(
            [*TORPOR, *words],
            cwd=self.folder,
            env=environment(**more),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def ok(self, *words: str) -> Any:
        """Run a command that must succeed with `--json`, in this process because that is quick; return its document."""
        out, err = io.StringIO(), io.StringIO()
        with chdir(self.folder), redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
            main([*words, "--json"])
        assert (end.value.code, err.getvalue()) == (0, ""), (words, err.getvalue())
        return json.loads(out.getvalue())

    def said(self, *words: str, **more: str) -> str:
        """Run a command that must succeed in this process; return what people read. `more` is added to the environment."""
        out = io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in more.items():
                patch.setenv(name, value)
            with chdir(self.folder), redirect_stdout(out), pytest.raises(SystemExit) as end:
                main([*words])
        assert end.value.code == 0, words
        return out.getvalue()

    @contextmanager
    def going(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Start `torpor WORDS` without a terminal, and kill it at the end if it is still there."""
        with subprocess.Popen(
            [*TORPOR, *words],
            cwd=self.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def terminal(self, *words: str, **more: str) -> Terminal:
        """Start `torpor WORDS` on a terminal of its own; `more` is added to the environment."""
        return Terminal([*TORPOR, *words], self.folder, **more)


class Terminal:
    """A process on a pseudo terminal: what it prints is read as it comes, keys are typed."""

    def __init__(self, command: list[str], folder: Path, **more: str) -> None:
        """Start it; `more` is added to the environment."""
        self.seen = ""
        self._process, self._screen = pty.fork()
        if self._process == 0:
            try:
                os.chdir(folder)
                os.execvpe(command[0], command, environment(COLUMNS="100", **more))  # noqa: S606 - this very program
            finally:
                os._exit(127)

    def until(self, text: str) -> str:
        """Read until a text appears, and return everything before and with it; the rest is kept for the next time."""
        while text not in self.seen:
            ready, _, _ = select.select([self._screen], [], [], PATIENCE_SECONDS)
            assert ready, f"{text!r} did not come: {self.seen!r}"
            chunk = self._read()
            assert chunk, f"it ended without {text!r}: {self.seen!r}"
            self.seen += chunk
        end = self.seen.index(text) + len(text)
        found, self.seen = self.seen[:end], self.seen[end:]
        return found

    def _read(self) -> str:
        try:
            return os.read(self._screen, 65536).decode("utf-8", "replace")
        except OSError:
            return ""  # Linux says so when the other side is closed

    def type(self, keys: str) -> None:
        """Type keys."""
        os.write(self._screen, keys.encode())

    def end(self) -> tuple[int, str]:
        """Read to the end, and return the exit code and what was printed since."""
        while chunk := self._read():
            self.seen += chunk
        _, status = os.waitpid(self._process, 0)
        self._process = 0
        return os.waitstatus_to_exitcode(status), self.seen

    def close(self) -> None:
        """Kill it if it is still there."""
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        os.close(self._screen)
