"""Elements of `Rows` that are packed where they lie."""

from __future__ import annotations

import base64
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor.blobs.rows import LEAST_BYTES, pack, unpack
from torpor.core.journal import BLOB_BYTES, BLOB_MARK, PACKED_MARK
from torpor.errors import StoreCorrupt

MESSAGE = (
    b'{"timestamp":"2026-11-30T12:12:16.498736Z","kind":"request","parts":[{"tool_name":"look","content":"It stands in the'
    b' garden, behind the shed.","tool_call_id":"pyd_ai_7bdea226","timestamp":"2026-11-30T12:12:16.295706Z","part_kind":'
    b'"tool-return"}],"pydantic_ai":"2.68.0"}'
)
STORED = (
    "ASi1L/1gDQANAwACBA8VkNkBUEzTPxKMbUeyxuSfhNcNxk7kh4ekq6q8F5v2d93Y+0KgeS8KQf+HjaFrfIaSLGIiCWYLzeOgIDMM"
    "AIMA0KrMugCxNEdYq7F5A7i0/n1rYc0Ws33G9fW2iQEC"
)
"""What a store holds of it, in base64."""


@given(st.binary(max_size=2_000).filter(lambda body: body[:1] not in {BLOB_MARK, PACKED_MARK}))
def test_what_is_unpacked_is_what_was_packed(body: bytes) -> None:
    """Whatever it is, and it never gets longer."""
    assert unpack(pack(body)) == body
    assert len(pack(body)) <= len(body)


def test_a_message_takes_half_of_its_room() -> None:
    """One by one: nothing is known of the messages before it."""
    packed = pack(MESSAGE)
    assert packed[:1] == PACKED_MARK
    assert len(packed) < len(MESSAGE) / 2


def test_what_was_packed_once_can_be_read() -> None:
    """The dictionary is a part of the format: this element was packed when there was the first one."""
    assert unpack(base64.b64decode(STORED)) == MESSAGE


def test_what_is_not_worth_the_while_stays() -> None:
    """Short ones, those that packing does not shorten, names of blobs."""
    noise = random.Random(7).randbytes(2_000)  # noqa: S311 - not for secrets
    for body in (MESSAGE[: LEAST_BYTES - 1], b"\x02" + noise, BLOB_MARK + noise[:16], BLOB_MARK + MESSAGE):
        assert pack(body) is body
    assert unpack(BLOB_MARK + MESSAGE) == BLOB_MARK + MESSAGE


def test_many_threads_pack_at_once() -> None:
    """A worker packs on its thread, a test's lab on another."""
    bodies = [MESSAGE + b" " * n + str(n).encode() for n in range(400)]
    with ThreadPoolExecutor(4) as threads:
        assert [unpack(one) for one in threads.map(pack, bodies)] == bodies
        assert list(threads.map(unpack, map(pack, bodies))) == bodies


@pytest.mark.parametrize(
    "stored",
    [PACKED_MARK, PACKED_MARK + b"no frame", pack(MESSAGE)[:-3], pack(MESSAGE)[:9], pack(b"a" * (BLOB_BYTES + 1))],
    ids=["empty", "no frame", "cut", "a head alone", "too large"],
)
def test_what_is_damaged_is_said(stored: bytes) -> None:
    """Memory does not grow with what a damaged head claims."""
    with pytest.raises(StoreCorrupt, match=r"^element 7 of messages of looker-AAAA \(\d+ packed bytes\) is damaged"):
        unpack(stored, "element 7 of messages of looker-AAAA")


def test_no_flipped_bit_becomes_another_message() -> None:
    """It is said to be damaged, or it did not matter: nobody is told what was never said."""
    packed = pack(MESSAGE)
    flipped = 0
    for place in range(8, 8 * len(packed)):
        bits = int.from_bytes(packed, "little") ^ (1 << place)
        try:
            assert unpack(bits.to_bytes(len(packed), "little")) == MESSAGE
        except StoreCorrupt:
            flipped += 1
    assert flipped > 7 * len(packed)
