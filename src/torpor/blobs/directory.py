"""Blobs in a local folder.

    blobs/ab/abcdef...       a packed blob (0600), in the folder of its digest's first two digits (0700)
    blobs/partial/...        what is being written; a crash leaves it there, a sweep removes it
    blobs/leaving/abcdef...  what is being deleted

**Writing.** The bytes go to a file of its own in `partial`, are fsynced, renamed to their place, and the folder is fsynced.
So a blob is there whole or not at all, any number of writers may do it at once, and a crash costs nothing but a file in
`partial`.

**Deleting against putting**, without a lock that a frozen process could keep: a deleter first renames the blob to
`leaving` and then looks at its age. A putter first makes the blob young and then looks whether it is still in its place.
Whichever comes second sees the other: either the deleter finds a young blob and puts it back, or the putter finds none and
writes it anew. A blob in `leaving`, after a deleter died there, can still be read, and a sweep puts it back.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from torpor.blobs.packing import compress, digest_of, is_digest, known_digest, unpack
from torpor.errors import NotFound, StoreCorrupt, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
_SHARDS = tuple(f"{number:02x}" for number in range(256))


class DirectoryBlobs:
    """Blobs in one folder of a local file system, for any number of threads and processes. Makes the folder."""

    def __init__(self, root: Path) -> None:
        """Make every folder now and fsync them once, so that a later `put` has only its own to fsync."""
        self._root = root
        self._partial = root / "partial"
        self._leaving = root / "leaving"
        with _reachable(root):
            root.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            for name in ("partial", "leaving", *_SHARDS):
                (root / name).mkdir(mode=_FOLDER_MODE, exist_ok=True)
            _sync_folder(root)

    def put(self, content: bytes) -> str:
        """See `Blobs.put`."""
        digest = digest_of(content)
        self._keep(digest, lambda: compress(content))
        return digest

    def put_packed(self, digest: str, packed: bytes) -> None:
        """See `Blobs.put_packed`."""
        self._keep(digest, lambda: packed)

    def _keep(self, digest: str, packed: Callable[[], bytes]) -> None:
        place = self._place(digest)
        with _reachable(self._root):
            if not self._made_young(place, digest):
                self._write(place, packed())
            # Also when it was there: its writer may not have come to this line yet.
            _sync_folder(place.parent)

    def get(self, digest: str) -> bytes:
        """See `Blobs.get`."""
        return unpack(self._read(digest), digest, where=str(self._root))

    def get_packed(self, digest: str) -> bytes:
        """See `Blobs.get_packed`."""
        packed = self._read(digest)
        unpack(packed, digest, where=str(self._root))
        return packed

    def _read(self, digest: str) -> bytes:
        place = self._place(digest)
        with _reachable(self._root):
            # In its place, or on its way out, or just put back from there.
            for path in (place, self._leaving / digest, place):
                with suppress(FileNotFoundError):
                    return path.read_bytes()
        raise NotFound(f"there is no blob {digest} in {self._root}", hint="torpor doctor")

    def untouched_since(self, before_at: int) -> Iterator[str]:
        """See `Blobs.untouched_since`. Also clears up after processes that died while they wrote or deleted."""
        with _reachable(self._root):
            self._clear_up(before_at)
            for shard in _SHARDS:
                for entry in os.scandir(self._root / shard):
                    if is_digest(entry.name) and _touched_at(Path(entry.path), default=before_at) < before_at:
                        yield entry.name

    def delete(self, digest: str, *, untouched_since: int) -> bool:
        """See `Blobs.delete`."""
        place, leaving = self._place(digest), self._leaving / digest
        with _reachable(self._root):
            try:
                place.rename(leaving)
            except FileNotFoundError:
                return False
            if _touched_at(leaving, default=untouched_since) >= untouched_since:
                self._put_back(leaving)
                return False
            leaving.unlink(missing_ok=True)
        return True

    def _place(self, digest: str) -> Path:
        return self._root / known_digest(digest)[:2] / digest

    def _made_young(self, place: Path, digest: str) -> bool:
        """Whether the blob is there, whole, and safe from every sweep that has not begun to delete it."""
        try:
            unpack(place.read_bytes(), digest)
            os.utime(place)
            place.stat()  # after the touch: if it is still in its place, a deleter will find it young
        except (FileNotFoundError, StoreCorrupt):
            return False
        return True

    def _write(self, place: Path, packed: bytes) -> None:
        while True:
            partial = self._partial / uuid4().hex
            try:
                self._write_partial(partial, packed)
                partial.rename(place)
            except FileNotFoundError:
                # A sweep took a process that was frozen for a dead one, and its file with it. The content is still here.
                self._partial.stat()
                place.parent.stat()  # (raises if it was no sweep, and the folders are gone)
                continue
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
            return

    def _write_partial(self, partial: Path, packed: bytes) -> None:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(packed)
            file.flush()
            os.fsync(file.fileno())

    def _clear_up(self, before_at: int) -> None:
        for path in self._partial.iterdir():
            if _touched_at(path, default=before_at) < before_at:
                path.unlink(missing_ok=True)
        for path in self._leaving.iterdir():
            self._put_back(path)

    def _put_back(self, leaving: Path) -> None:
        place = self._place(leaving.name)
        with suppress(FileExistsError, FileNotFoundError):  # written anew meanwhile, or put back by another
            place.hardlink_to(leaving)
            _sync_folder(place.parent)
        leaving.unlink(missing_ok=True)


def _touched_at(path: Path, *, default: int) -> int:
    """When the file was last written or touched, in microseconds; `default` if it went away meanwhile."""
    try:
        return path.stat().st_mtime_ns // 1000
    except FileNotFoundError:
        return default


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _reachable(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(
            f"the blobs in {root} cannot be used: {error}", hint="look at the disk's free space and the folder's rights"
        ) from error
