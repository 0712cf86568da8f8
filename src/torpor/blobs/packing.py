"""The digest of content, and how it is compressed. The database's own blob table packs in the same way.

The digest is of the *uncompressed* bytes, so that the compression can change without a new digest, and so that a check
covers the unpacking too.
"""

from __future__ import annotations

import re
from hashlib import blake2b

import zstandard

from torpor.errors import StoreCorrupt, UsageError

DIGEST_BYTES = 16
_LEVEL = 3
_WINDOW_LIMIT = 2**27  # what a reader accepts; a damaged header must not make it allocate more
_DIGEST = re.compile(f"[0-9a-f]{{{DIGEST_BYTES * 2}}}")


def digest_of(content: bytes) -> str:
    """The name of the content: blake2b of 16 bytes, in hexadecimal."""
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def known_digest(digest: str) -> str:
    """The digest itself; `UsageError` if it is none, so that no path or key is ever made of something else."""
    if not _DIGEST.fullmatch(digest):
        raise UsageError(
            f"{digest!r} is no digest of a blob", hint=f"a digest has {DIGEST_BYTES * 2} lower-case hexadecimal digits"
        )
    return digest


def compress(content: bytes) -> bytes:
    """The content as one zstd frame. Safe to call in many threads."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(content)


def decompress(packed: bytes) -> bytes:
    """The content of one zstd frame. Raises `StoreCorrupt` when it is damaged or cut short.

    The size a damaged header claims is never believed: memory grows with what is really there.
    """
    reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW_LIMIT).decompressobj()
    try:
        content = reader.decompress(packed)
    except (zstandard.ZstdError, MemoryError) as error:
        raise StoreCorrupt(f"{len(packed)} packed bytes are damaged: {error}", hint="torpor doctor") from error
    if not reader.eof or reader.unused_data:
        raise StoreCorrupt(f"{len(packed)} packed bytes are cut short or have a tail", hint="torpor doctor")
    return content


def unpack(packed: bytes, digest: str) -> bytes:
    """The content, checked against its digest. Raises `StoreCorrupt` that names the digest."""
    try:
        content = decompress(packed)
    except StoreCorrupt as error:
        raise StoreCorrupt(f"blob {digest} is damaged: {error.message}", hint=error.hint) from error
    if (found := digest_of(content)) != digest:
        raise StoreCorrupt(f"blob {digest} is damaged: its content has the digest {found}", hint="torpor doctor")
    return content
