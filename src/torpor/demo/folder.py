"""Which files are audited: regular text files, in order of their names, a bounded number."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torpor
from torpor.demo.audit import HEAD_BYTES, counted, is_binary, spoken
from torpor.errors import NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_FILES = 300
"""So many files are audited: about ten seconds of work."""
MOST_SEEN = 10_000
"""So many are counted; a folder that has more has "more than"."""
_PASSED_BY = frozenset({"__pycache__", "node_modules"})


class Folder(NamedTuple):
    """A folder to audit. `files` are relative to `root`; `notes` say what was left out and why."""

    root: Path
    title: str
    files: list[Path]
    notes: list[str]


def read_folder(path: str | None) -> Folder:
    """Return what there is to audit at `path`, or in torpor's own installed source.

    Hidden folders and links are passed by. Raises NotFound, UsageError for something that is no folder, cannot be
    listed, or has no text in it.
    """
    own = Path(torpor.__file__).parent
    root = own if path is None else Path(path)
    name = spoken(root)
    title = "torpor itself" if path is None else name
    if not root.exists():
        raise NotFound(f"there is no folder {name}", hint="torpor demo PATH, or without a path: torpor's own source")
    if not root.is_dir():
        raise UsageError(f"{name} is not a folder", hint=f"torpor demo {spoken(root.parent)}")
    unlisted: list[OSError] = []
    found, seen, binary, unreadable = _choose(root, unlisted)
    notes = _notes(len(found), seen, binary, unreadable, len(unlisted))
    if not found:
        why = f": {unlisted[0].strerror}" if unlisted and not seen else ""
        raise UsageError(
            f"{name} has nothing to audit{why}{''.join(f'; {note}' for note in notes)}",
            hint="torpor demo PATH, with a path to some source code; without one it audits torpor itself",
        )
    return Folder(root.absolute(), title, found, notes)


def _choose(root: Path, unlisted: list[OSError]) -> tuple[list[Path], int, int, int]:
    """Return the files to audit, and how many were seen, are binary, and cannot be read."""
    found: list[Path] = []
    seen = binary = unreadable = 0
    for place in _regular(root, unlisted):
        seen += 1
        if seen > MOST_SEEN:
            break
        if len(found) < MOST_FILES:
            try:
                head = _head(place)
            except OSError:
                unreadable += 1
                continue
            if is_binary(head):
                binary += 1
            else:
                found.append(place.relative_to(root))
    return found, seen, binary, unreadable


def _regular(root: Path, unlisted: list[OSError]) -> Iterator[Path]:
    """Yield regular files; a pipe or a device would keep whoever opens it waiting."""
    for folder, inner, names in os.walk(root, onerror=unlisted.append):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in _PASSED_BY)
        for name in sorted(names):
            place = Path(folder, name)
            try:
                if stat.S_ISREG(place.lstat().st_mode):
                    yield place
            except OSError:
                continue  # it went away while the folder was read


def _head(place: Path) -> bytes:
    with place.open("rb") as file:
        return file.read(HEAD_BYTES)


def _notes(found: int, seen: int, binary: int, unreadable: int, unlisted: int) -> list[str]:
    notes = []
    if found >= MOST_FILES and seen > found + binary + unreadable:
        total = f"more than {MOST_SEEN:,}" if seen > MOST_SEEN else f"{seen:,}"
        notes.append(f"the first {found} text files of {total} files")
    if binary:
        notes.append(f"{counted(binary, 'binary file')} skipped")
    if unreadable:
        notes.append(f"{counted(unreadable, 'file')} cannot be read, skipped")
    if unlisted:
        notes.append(f"{counted(unlisted, 'folder')} cannot be listed, skipped")
    return notes
