"""Blobs in an object store: S3 and what speaks like it, Google Cloud Storage, Azure. Needs the extra `torpor[s3]`.

A put to an object store is whole and durable when it is answered, and replaces what was there with the same bytes, so `put`
always writes: that makes the blob young and heals it. `delete` looks at the age and deletes in two calls, since not every
store can do it in one: a put that falls in between is lost. So a sweep agrees with writers in the database first
(`store.outside`). An object's age has whole seconds on S3, so one that was put within the second of `untouched_since` may
pass for older.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from torpor.blobs.packing import compress, digest_of, is_digest, known_digest, unpack
from torpor.clock import as_micros
from torpor.errors import NotFound, StoreUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

try:
    import obstore
    from obstore.exceptions import BaseError
    from obstore.store import from_url
except ImportError as missing:
    raise UsageError("blobs in an object store need obstore", hint="pip install 'torpor[s3]'") from missing


_PATIENCE: dict[str, Any] = {"max_retries": 3, "retry_timeout": timedelta(seconds=10)}
"""A lane of the store waits for an answer, and a lease is 45 s: better a clear error, tried again later, than minutes."""


def _usual() -> dict[str, Any]:
    """Return the options that are not the library's own defaults; said here, they would hide what the environment says."""
    plain = os.environ.get("AWS_ALLOW_HTTP", "").lower() in {"1", "true"}
    return {
        "client_options": {"timeout": "10s", "connect_timeout": "3s", "allow_http": plain},
        "retry_config": _PATIENCE,
    }


class ObjectBlobs:
    """Blobs under one URL, for example `s3://bucket/prefix`. Credentials come from the environment, as usual."""

    def __init__(self, url: str, **options: Any) -> None:
        """`options` are those of `obstore.store.from_url`; an endpoint of one's own is `config={"endpoint": ...}`."""
        self._url = url
        try:
            self._store = from_url(url, **{**_usual(), **options})
        except (BaseError, ValueError) as error:
            raise UsageError(
                f"{url} is no address of an object store: {error}", hint="for example s3://bucket/prefix"
            ) from error

    def put(self, content: bytes) -> str:
        """See `Blobs.put`."""
        digest = digest_of(content)
        self.put_packed(digest, compress(content))
        return digest

    def put_packed(self, digest: str, packed: bytes) -> None:
        """See `Blobs.put_packed`."""
        with self._reachable():
            obstore.put(self._store, known_digest(digest), packed)

    def get(self, digest: str) -> bytes:
        """See `Blobs.get`."""
        return unpack(self._read(digest), digest, where=self._url)

    def get_packed(self, digest: str) -> bytes:
        """See `Blobs.get_packed`."""
        packed = self._read(digest)
        unpack(packed, digest, where=self._url)
        return packed

    def _read(self, digest: str) -> bytes:
        with self._reachable():
            try:
                return obstore.get(self._store, known_digest(digest)).bytes().to_bytes()
            except FileNotFoundError:
                raise NotFound(f"there is no blob {digest} in {self._url}", hint="torpor doctor") from None

    def untouched_since(self, before_at: int) -> Iterator[str]:
        """See `Blobs.untouched_since`."""
        with self._reachable():
            for batch in obstore.list(self._store):
                for entry in batch:
                    if is_digest(entry["path"]) and as_micros(entry["last_modified"]) < before_at:
                        yield entry["path"]

    def delete(self, digest: str, *, untouched_since: int) -> bool:
        """See `Blobs.delete`."""
        with self._reachable():
            try:
                entry = obstore.head(self._store, known_digest(digest))
            except FileNotFoundError:
                return False
            if as_micros(entry["last_modified"]) >= untouched_since:
                return False
            obstore.delete(self._store, digest)
        return True

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            raise StoreUnavailable(
                f"the blobs at {self._url} cannot be used: {error}",
                hint="check the address, the credentials and the network",
            ) from error
