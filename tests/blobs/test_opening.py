"""Addresses of blobs, the extra that may be missing, and packing on its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor.blobs import open_blobs
from torpor.blobs.directory import DirectoryBlobs
from torpor.blobs.objects import ObjectBlobs
from torpor.blobs.packing import compress, decompress, unpack
from torpor.client import blobs_address
from torpor.errors import StoreCorrupt, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_an_address_says_what_to_open(tmp_path: Path) -> None:
    """A path, a file URL, a bucket."""
    assert isinstance(open_blobs(tmp_path), DirectoryBlobs)
    assert isinstance(open_blobs(f"file://{tmp_path}"), DirectoryBlobs)
    assert isinstance(open_blobs("s3://bucket/prefix"), ObjectBlobs)


def test_an_address_of_nothing_is_refused() -> None:
    """The error names the address."""
    with pytest.raises(UsageError, match="gopher://hole"):
        open_blobs("gopher://hole")


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """`None` in `sys.modules` is how Python says that a module is not to be had."""
    monkeypatch.delitem(sys.modules, "torpor.blobs.objects", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(UsageError, match=r"pip install 'torpor\[s3\]'"):
        open_blobs("s3://bucket/prefix")


def test_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given, the environment, a `.env` file, in this order; else the store itself."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TORPOR_BLOBS", raising=False)
    assert blobs_address() == ""
    (tmp_path / ".env").write_text("TORPOR_BLOBS=from-file\n")
    assert blobs_address() == "from-file"
    monkeypatch.setenv("TORPOR_BLOBS", "from-environment")
    assert blobs_address() == "from-environment"
    assert blobs_address("given") == "given"


def test_a_folder_needs_no_extra(tmp_path: Path) -> None:
    """The library obstore is loaded for buckets only."""
    script = (
        "import sys; from torpor.blobs import open_blobs; open_blobs(sys.argv[1]); sys.exit('obstore' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, env=dict(os.environ))


@given(st.binary())
def test_packing(content: bytes) -> None:
    """Any bytes come back."""
    assert decompress(compress(content)) == content


@pytest.mark.parametrize("packed", [b"", b"\x28\xb5\x2f\xfd", compress(b"x") * 2, compress(b"x" * 99)[:-5]])
def test_damaged_packing(packed: bytes) -> None:
    """Without a digest, too, damage is `StoreCorrupt`."""
    with pytest.raises(StoreCorrupt):
        decompress(packed)


def test_a_claimed_size_is_not_believed() -> None:
    """A header that claims 2**62 bytes is damage, not an attempt to allocate them."""
    honest = compress(b"x" * 100_000)
    assert honest[4] & 0xC0 == 0x80  # the size takes four bytes
    claimed = honest[:4] + bytes([honest[4] | 0xC0]) + (2**62).to_bytes(8, "little") + honest[9:]
    with pytest.raises(StoreCorrupt, match="0" * 32):
        unpack(claimed, "0" * 32)
