"""One suite for every place of blobs: a folder, and an object store (moto's server on localhost)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import obstore
import pytest
from obstore.store import from_url

from tests.buckets import KEYS, s3
from torpor import clock
from torpor.blobs.directory import DirectoryBlobs
from torpor.blobs.objects import ObjectBlobs
from torpor.blobs.packing import compress, digest_of
from torpor.errors import NotFound, StoreCorrupt, StoreUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torpor.blobs.protocol import Blobs

HOUR = 3_600 * clock.SECOND
CONTENTS = [b"", b"a", b"\0" * 100_000, bytes(range(256)) * 300, "Mäuse".encode() * 9_000]


class Place(NamedTuple):
    """A place under test, and a way to see and change what lies there behind its back."""

    blobs: Blobs
    packed: Callable[[str], bytes]
    replace: Callable[[str, bytes], object]


@pytest.fixture(scope="module")
def bucket() -> Iterator[dict[str, Any]]:
    """An S3 of our own, with one bucket; yields obstore's arguments."""
    with s3() as endpoint:
        yield {"config": {"endpoint": endpoint, **KEYS}, "client_options": {"allow_http": True}}


@pytest.fixture(params=["directory", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Each place in turn, empty."""
    if request.param == "directory":

        def path(digest: str) -> Path:
            return tmp_path / digest[:2] / digest

        return Place(
            DirectoryBlobs(tmp_path),
            lambda digest: path(digest).read_bytes(),
            lambda digest, packed: path(digest).write_bytes(packed),
        )
    url, options = f"s3://blobs/{tmp_path.name}", request.getfixturevalue("bucket")
    store = from_url(url, **options)
    return Place(
        ObjectBlobs(url, **options),
        lambda digest: obstore.get(store, digest).bytes().to_bytes(),
        lambda digest, packed: obstore.put(store, digest, packed),
    )


@pytest.mark.parametrize("content", CONTENTS, ids=len)
def test_what_is_read_is_what_was_put(place: Place, content: bytes) -> None:
    """The digest names the uncompressed bytes, and gives them back."""
    digest = place.blobs.put(content)
    assert digest == digest_of(content)
    assert place.blobs.get(digest) == content


@pytest.mark.parametrize("content", CONTENTS, ids=len)
def test_packed_content_is_the_same_blob(place: Place, content: bytes) -> None:
    """Whoever packed it already need not unpack it, and gets it back packed and checked."""
    digest, packed = digest_of(content), compress(content)
    place.blobs.put_packed(digest, packed)
    assert place.blobs.get(digest) == content
    assert place.blobs.get_packed(digest) == packed
    place.replace(digest, packed[:-1])
    with pytest.raises(StoreCorrupt, match=digest):
        place.blobs.get_packed(digest)


def test_content_is_compressed(place: Place) -> None:
    """A hundred thousand zeros take a few bytes."""
    assert len(place.packed(place.blobs.put(b"\0" * 100_000))) < 100


def test_a_missing_blob_is_not_found(place: Place) -> None:
    """The error names the digest."""
    digest = digest_of(b"never put")
    with pytest.raises(NotFound, match=digest):
        place.blobs.get(digest)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 32, "a" * 31, "a" * 33, "a" * 32 + "\n"])
def test_only_a_digest_names_a_blob(place: Place, name: str) -> None:
    """No path and no key is made of anything else."""
    with pytest.raises(UsageError, match="no digest"):
        place.blobs.get(name)
    with pytest.raises(UsageError, match="no digest"):
        place.blobs.delete(name, untouched_since=0)


def test_every_flipped_bit_is_noticed_and_healed(place: Place) -> None:
    """Damage anywhere is `StoreCorrupt` with the digest, or changes nothing; the next put of the content heals it."""
    content = b"the only copy of work " * 3
    digest = place.blobs.put(content)
    packed = place.packed(digest)
    noticed = 0
    for position in range(len(packed)):
        flipped = bytearray(packed)
        flipped[position] ^= 1 << position % 8
        place.replace(digest, bytes(flipped))
        try:
            assert place.blobs.get(digest) == content  # a bit of the frame that means nothing
        except StoreCorrupt as error:
            assert digest in str(error)  # noqa: PT017 - either outcome is right, and this one must say which blob
            noticed += 1
    assert noticed >= len(packed) - 1
    assert place.blobs.put(content) == digest
    assert place.blobs.get(digest) == content


@pytest.mark.parametrize(
    "change", [lambda _: b"", lambda found: found[:-1], lambda found: found + b"x", lambda _: b"text"]
)
def test_a_blob_cut_short_or_grown_is_corrupt(place: Place, change: Callable[[bytes], bytes]) -> None:
    """Also when what is left would unpack."""
    digest = place.blobs.put(b"content " * 50)
    place.replace(digest, change(place.packed(digest)))
    with pytest.raises(StoreCorrupt, match=digest):
        place.blobs.get(digest)


def test_another_blob_in_its_place_is_corrupt(place: Place) -> None:
    """A whole frame with other content does not pass."""
    digest, other = place.blobs.put(b"one"), place.blobs.put(b"two")
    place.replace(digest, place.packed(other))
    with pytest.raises(StoreCorrupt, match=other):
        place.blobs.get(digest)


def test_many_writers_of_one_blob(place: Place) -> None:
    """They start together, all are right, and a reader in between sees nothing or all of it."""
    writers = 8
    start = threading.Barrier(writers + 1)
    content = bytes(range(256)) * 1_000
    digest = digest_of(content)

    def put() -> str:
        start.wait()
        return place.blobs.put(content)

    with ThreadPoolExecutor(writers) as pool:
        putting = [pool.submit(put) for _ in range(writers)]
        start.wait()
        while not all(each.done() for each in putting):
            try:
                assert place.blobs.get(digest) == content
            except NotFound:
                continue
    assert {each.result() for each in putting} == {digest}
    assert place.blobs.get(digest) == content


def test_age(place: Place) -> None:
    """Only blobs older than the asked moment are listed and deleted."""
    digest = place.blobs.put(b"old or young")
    now = clock.wall()
    assert list(place.blobs.untouched_since(now - HOUR)) == []
    assert list(place.blobs.untouched_since(now + HOUR)) == [digest]
    assert not place.blobs.delete(digest, untouched_since=now - HOUR)
    assert place.blobs.get(digest) == b"old or young"
    assert place.blobs.delete(digest, untouched_since=now + HOUR)
    assert not place.blobs.delete(digest, untouched_since=now + HOUR)
    with pytest.raises(NotFound):
        place.blobs.get(digest)
    assert list(place.blobs.untouched_since(now + HOUR)) == []


def test_an_unreachable_place_is_unavailable(tmp_path: Path) -> None:
    """Neither a file in the way nor a port nobody listens on is a traceback of another library."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        DirectoryBlobs(tmp_path / "file" / "blobs")
    nobody = ObjectBlobs(
        "s3://blobs",
        config={"endpoint": "http://127.0.0.1:9", **KEYS},
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    with pytest.raises(StoreUnavailable, match="s3://blobs"):
        nobody.put(b"x")
