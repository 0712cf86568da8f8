"""Entries of the journal."""

from __future__ import annotations

from torpor.core.journal import RESOLVES, Entry, Kind, Stored

ENTRY = Entry(Kind.INTENT, "e:pay#1", b"args")


def test_same_as_compares_content_and_epoch() -> None:
    """Every part counts, except the place and the time, which the store gives (G3)."""
    mine = Stored(7, 123, 4, *ENTRY)
    assert mine.same_as(ENTRY, epoch=4)
    assert mine._replace(seq=8, at=456).same_as(ENTRY, epoch=4)
    assert not mine.same_as(ENTRY, epoch=5)
    assert not mine.same_as(ENTRY._replace(kind=Kind.OUTCOME), epoch=4)
    assert not mine.same_as(ENTRY._replace(key="e:pay#2"), epoch=4)
    assert not mine.same_as(ENTRY._replace(body=None), epoch=4)
    assert not mine.same_as(ENTRY._replace(body=b""), epoch=4)


def test_what_resolves_a_call() -> None:
    """Outcomes, failures and what was consumed; a failure is an outcome to people."""
    assert {Kind.OUTCOME, Kind.FAILURE, Kind.CONSUMED} == RESOLVES
    assert Kind.FAILURE.word == "outcome"
    assert Kind.INTENT.word == "intent"
