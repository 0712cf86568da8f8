"""Bytes by their digest: large values and files, kept once, compressed, checked when they are read.

`open_blobs` opens a place by its address: a folder, or a bucket (`s3://`, `gs://`, `az://`; extra `torpor[s3]`). The rules
are in `protocol.py`; `packing.py` has the digest and the compression, which the database's own blob table uses as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torpor.blobs.protocol import Blobs

__all__ = ["open_blobs"]


def open_blobs(address: str | Path) -> Blobs:
    """Open the blobs at a folder or at the URL of a bucket. Raises `UsageError` when the extra for buckets is missing."""
    if isinstance(address, str) and "://" in address and not address.startswith("file://"):
        from torpor.blobs.objects import ObjectBlobs

        return ObjectBlobs(address)
    from torpor.blobs.directory import DirectoryBlobs

    return DirectoryBlobs(Path(str(address).removeprefix("file://")))
