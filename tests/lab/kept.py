"""Things that take long to make, kept in the user's cache folder under a key of everything they are made of.

A folder is made under another name and renamed when it is whole, so a half-made one is never used. A lock on a file makes
the second of two processes wait for the first; the kernel lets go of it when its holder dies.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MADE = "made"
"""A file in each folder with a name of its own for this making: what is made anew of equal parts is not equal, byte by byte."""
UNUSED_SECONDS = 14 * 24 * 3600.0
"""A folder of another key that nobody used for so long is thrown away when a new one is made."""


class Kept:
    """A folder of folders, each named by what it holds and its key."""

    def __init__(self, place: Path | None = None, *, say: Callable[[str], object] = print) -> None:
        """Keep them in `place`, `$XDG_CACHE_HOME/torpor-lab` (`~/.cache/torpor-lab`) unless given. `say` tells progress."""
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.place = place or home / "torpor-lab"
        self.say = say

    def get(self, name: str, parts: list[str], make: Callable[[Path], None]) -> Path:
        """Return the folder `name` made of `parts`; `make(folder)` fills it if it is not there."""
        folder = self.place / f"{name}-{key_of(parts)}"
        if not (folder / MADE).is_file():
            self.place.mkdir(parents=True, exist_ok=True)
            with (self.place / f"{name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not (folder / MADE).is_file():
                    self._make(name, folder, make)
        os.utime(folder)
        return folder

    def _make(self, name: str, folder: Path, make: Callable[[Path], None]) -> None:
        began = time.monotonic()
        self._throw_away(name)
        self.say(f"lab: making {name} (kept in {folder})")
        unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=self.place))
        unfinished.chmod(0o755)
        try:
            make(unfinished)
            (unfinished / MADE).write_text(uuid.uuid4().hex)
            remove(folder)  # somebody took parts of it away
            unfinished.rename(folder)
        finally:
            remove(unfinished)
        self.say(f"lab: {name} is made, after {time.monotonic() - began:.0f} s")

    def _throw_away(self, name: str) -> None:
        """Remove what a process that was killed left half made (the lock is ours), and what nobody used for long.

        By length, for one name may begin another: what is made under that one's lock is not ours.
        """
        long_ago = time.time() - UNUSED_SECONDS
        for left in self.place.glob(f".{name}-{'?' * 8}"):
            remove(left)
        for old in self.place.glob(f"{name}-{'?' * 16}"):
            if old.stat().st_mtime < long_ago:
                remove(old)


def making(folder: Path) -> str:
    """Return the name of a kept folder's making: for the key of what is made of its bytes."""
    return (folder / MADE).read_text()


def remove(folder: Path) -> None:
    """Remove a folder and all in it, but nothing that is mounted there: a build that was killed may have left that."""
    if folder.exists():
        subprocess.run(["rm", "-rf", "--one-file-system", "--", str(folder)], check=False)


def key_of(parts: list[str]) -> str:
    """Return a short name for all of `parts`, each with its length, so that no two lists have one text."""
    digest = hashlib.sha256()
    for part in parts:
        text = part.encode()
        digest.update(b"%d:" % len(text) + text)
    return digest.hexdigest()[:16]
