"""The rules of a stream: numbers, what is loose, what a reader keeps (G11)."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torpor.core.stream import FLOW, Kept, NewPart, PartKind, PartRow, StreamRow, StreamWrite, accepts, advance, merged


def part(voice: int, text: str = "x") -> NewPart:
    """Return a text part."""
    return NewPart(voice, PartKind.TEXT, json.dumps(text).encode())


def taken(rows: list[PartRow]) -> list[tuple[int, str, Any]]:
    """Return what a reader sees of rows."""
    return [(row.n, row.kind.word, json.loads(row.body)) for row in rows]


def test_parts_are_numbered_and_loose_until_kept() -> None:
    """A call's outcome keeps what it said; the next dropped one takes back only its own ranges."""
    row, added = advance(None, StreamWrite(None, [part(1, "a"), part(2, "b"), part(1, "c")]), run_id=7, epoch=3)
    assert [one.n for one in added] == [1, 2, 3]
    assert row == StreamRow(7, 3, 3, "1:1-1,3-3 2:2-2")
    row, added = advance(row, StreamWrite(3, [part(1, "d")], keeps=[1]), run_id=7, epoch=3)
    assert row == StreamRow(7, 4, 3, "2:2-2")
    row, added = advance(row, StreamWrite(4, [part(FLOW, "e")], drops=[2]), run_id=7, epoch=3)
    assert taken(added) == [(5, "retract", [[2, 2]]), (6, "text", "e")]
    assert row == StreamRow(7, 6, 3, "")


def test_the_end_of_a_stretch_drops_what_is_loose() -> None:
    """All but what the same commit keeps; a stream with nothing loose is not touched by it."""
    row, _ = advance(None, StreamWrite(None, [part(1), part(2), part(3)]), run_id=1, epoch=1)
    row, added = advance(row, StreamWrite(3, [part(2)], keeps=[2], ends=True), run_id=1, epoch=1)
    assert taken(added) == [(4, "retract", [[1, 1], [3, 3]]), (5, "text", "x")]
    assert advance(row, StreamWrite(5, ends=True), run_id=1, epoch=1) == (row, [])


@pytest.mark.parametrize(
    ("row", "from_n", "accepted"),
    [
        (None, None, True),
        (None, 0, False),
        (StreamRow(1, 4, 1, ""), None, True),
        (StreamRow(1, 4, 2, ""), None, False),
        (StreamRow(1, 4, 2, ""), 4, True),
        (StreamRow(1, 4, 2, ""), 3, False),
        (StreamRow(1, 4, 1, ""), 4, False),
        (StreamRow(1, 4, 3, ""), 4, False),
        (StreamRow(1, 4, 3, ""), None, False),
    ],
)
def test_who_may_write(row: StreamRow | None, from_n: int | None, accepted: bool) -> None:  # noqa: FBT001 - a parameter
    """In epoch 2: the first of an epoch, or whoever knows the counter (G1, G2)."""
    assert accepts(row, epoch=2, from_n=from_n) is accepted


@given(st.lists(st.integers(0, 30)))
def test_ranges_hold_exactly_their_numbers(numbers: list[int]) -> None:
    """Merged ranges are in order, apart, and hold what was put in."""
    ranges = merged([(n, n) for n in numbers])
    assert {n for first, last in ranges for n in range(first, last + 1)} == set(numbers)
    assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(ranges))


def test_a_reader_from_the_middle() -> None:
    """It is told of parts it never had, which changes nothing for it."""
    kept = Kept()
    assert kept.take(5, "text", "new") == {}
    assert kept.take(6, "retract", [[2, 5]]) == {5: "new"}
    kept.take(7, "value", {"a": 1})
    kept.take(8, "text", "end")
    assert (kept.n, kept.text) == (8, "end")
