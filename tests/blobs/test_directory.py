"""What only a folder has: rights, crashes in the middle of a write, sweeping against putting."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from torpor import clock
from torpor.blobs import directory, open_blobs
from torpor.blobs.directory import DirectoryBlobs
from torpor.blobs.packing import digest_of
from torpor.errors import NotFound, StoreUnavailable

if TYPE_CHECKING:
    from pathlib import Path

HOUR = 3_600 * clock.SECOND
CONTENT = b"work " * 10_000

DIES_AT = """
import os, signal, sys
from pathlib import Path
from torpor.blobs import directory

place, moment = Path(sys.argv[1]), sys.argv[2]
blobs = directory.DirectoryBlobs(place)
die = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
if moment == "fsync":
    os.fsync = die
elif moment == "rename":
    Path.rename = die
elif moment == "folder":
    directory._sync_folder = die
elif moment == "unlink":
    digest = blobs.put(b"work " * 10_000)
    Path.unlink = die
    blobs.delete(digest, untouched_since=2**62)
blobs.put(b"work " * 10_000)
"""


def files(folder: Path) -> list[Path]:
    """Every file below a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


def crash(root: Path, moment: str) -> None:
    """Kill a writer (or a deleter) of `CONTENT` at a moment."""
    ended = subprocess.run([sys.executable, "-c", DIES_AT, str(root), moment], check=False)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["fsync", "rename"])
def test_an_interrupted_write_leaves_no_blob(tmp_path: Path, moment: str) -> None:
    """Killed before the rename: nothing is there, the next writer succeeds, a sweep clears up."""
    crash(tmp_path, moment)
    blobs = DirectoryBlobs(tmp_path)
    with pytest.raises(NotFound):
        blobs.get(digest_of(CONTENT))
    assert len(files(tmp_path / "partial")) == 1
    digest = blobs.put(CONTENT)
    assert blobs.get(digest) == CONTENT
    assert list(blobs.untouched_since(clock.wall() - HOUR)) == []
    assert len(files(tmp_path / "partial")) == 1  # its writer might be frozen, not dead
    assert list(blobs.untouched_since(clock.wall() + HOUR)) == [digest]
    assert files(tmp_path / "partial") == []


@pytest.mark.slow
def test_a_write_killed_after_the_rename_is_whole(tmp_path: Path) -> None:
    """What is in its place is always whole."""
    crash(tmp_path, "folder")
    blobs = DirectoryBlobs(tmp_path)
    assert blobs.get(digest_of(CONTENT)) == CONTENT


@pytest.mark.slow
def test_a_deleter_that_died_loses_nothing(tmp_path: Path) -> None:
    """A blob on its way out can be read, and the next sweep puts it back and lists it."""
    crash(tmp_path, "unlink")
    blobs, digest = DirectoryBlobs(tmp_path), digest_of(CONTENT)
    assert not (tmp_path / digest[:2] / digest).exists()
    assert blobs.get(digest) == CONTENT
    assert list(blobs.untouched_since(clock.wall() + HOUR)) == [digest]
    assert (tmp_path / digest[:2] / digest).exists()
    assert files(tmp_path / "leaving") == []


def test_a_put_between_listing_and_deleting_keeps_the_blob(tmp_path: Path) -> None:
    """The race of a sweep with a writer that needs the blob again."""
    blobs = DirectoryBlobs(tmp_path)
    digest = blobs.put(CONTENT)
    os.utime(tmp_path / digest[:2] / digest, (1, 1))
    before_at = clock.wall() - HOUR
    assert list(blobs.untouched_since(before_at)) == [digest]
    blobs.put(CONTENT)
    assert not blobs.delete(digest, untouched_since=before_at)
    assert blobs.get(digest) == CONTENT


def test_a_put_in_the_middle_of_deleting_keeps_the_blob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deleter has taken the blob out of its place and looked at its age; the put comes exactly then."""
    blobs = DirectoryBlobs(tmp_path)
    digest = blobs.put(CONTENT)
    looked_at = directory._touched_at  # noqa: SLF001 - the race is forced at exactly this place

    def put_after_looking(path: Path, *, default: int) -> int:
        touched_at = looked_at(path, default=default)
        monkeypatch.setattr(directory, "_touched_at", looked_at)
        DirectoryBlobs(tmp_path).put(CONTENT)
        return touched_at

    monkeypatch.setattr(directory, "_touched_at", put_after_looking)
    blobs.delete(digest, untouched_since=clock.wall() + HOUR)
    assert blobs.get(digest) == CONTENT


@pytest.mark.parametrize("resolved", [False, True], ids=["before the touch", "in the middle of the touch"])
def test_a_touch_that_meets_the_deleter_keeps_the_blob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, resolved: bool
) -> None:
    """The deleter takes the blob away when the put is about to make it young, or when the system has found the file already."""
    blobs, before_at = DirectoryBlobs(tmp_path), clock.wall() - HOUR
    digest = blobs.put(CONTENT)
    place = tmp_path / digest[:2] / digest
    os.utime(place, (1, 1))
    touch = os.utime

    def taken_away_first(path: Path) -> None:
        assert blobs.delete(digest, untouched_since=before_at)
        if not resolved:  # else the touch reaches a file that has no name any more, and says nothing
            touch(path)

    monkeypatch.setattr(os, "utime", taken_away_first)
    assert blobs.put(CONTENT) == digest
    assert blobs.get(digest) == CONTENT


def test_a_writer_whose_file_was_swept_writes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process frozen for hours in the middle of a write is not dead."""
    blobs = DirectoryBlobs(tmp_path)
    write = DirectoryBlobs._write_partial  # noqa: SLF001 - the race is forced at exactly this place

    def frozen(self: DirectoryBlobs, partial: Path, packed: bytes) -> None:
        write(self, partial, packed)
        monkeypatch.setattr(DirectoryBlobs, "_write_partial", write)
        assert list(blobs.untouched_since(clock.wall() + HOUR)) == []
        assert not partial.exists()

    monkeypatch.setattr(DirectoryBlobs, "_write_partial", frozen)
    assert blobs.get(blobs.put(CONTENT)) == CONTENT


def test_a_full_disk_is_unavailable_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that could not be written does not stay to fill the disk further."""
    blobs = DirectoryBlobs(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        blobs.put(CONTENT)
    assert files(tmp_path) == []


def test_a_folder_that_went_away_is_unavailable(tmp_path: Path) -> None:
    """The writer does not try for ever."""
    blobs = DirectoryBlobs(tmp_path)
    (tmp_path / digest_of(CONTENT)[:2]).rmdir()
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        blobs.put(CONTENT)


def test_only_the_owner_can_read(tmp_path: Path) -> None:
    """0700 for folders and 0600 for files, whatever the umask allows."""
    root = tmp_path / "blobs"
    mask = os.umask(0)
    try:
        blobs = open_blobs(root)
        blobs.put(CONTENT)
    finally:
        os.umask(mask)
    for path in (root, *root.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o600 if path.is_file() else 0o700), path


def test_file_and_folder_are_synced_before_put_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file first, then its folder; the folder also when the blob was there already (its writer may still be at it)."""
    blobs = DirectoryBlobs(tmp_path)
    synced: list[str] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        synced.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    blobs.put(CONTENT)
    blobs.put(CONTENT)
    assert synced == ["file", "folder", "folder"]
