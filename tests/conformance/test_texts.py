"""Texts that one database could keep and another could not are treated the same on all (G14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.world import LEASE, WORKER, add, away, populate
from torpor.core.commit import NewMessage, NewRow
from torpor.core.journal import Entry, Kind
from torpor.core.wait import WaitKind
from torpor.errors import UsageError
from torpor.store.rows import NewSignal, WaitRow

if TYPE_CHECKING:
    from torpor.store.protocol import Store

NUL, HALF = "a\x00b", "a\ud800b"


@pytest.mark.parametrize(
    ("said", "kept"),
    [(NUL, "a�b"), (HALF, "a�b"), ("größe 😀", "größe 😀"), ("\x00😀", "�😀"), ("", "")],
    ids=["nul", "half", "plain", "both", "empty"],
)
def test_words_for_people_are_mended(store: Store, said: str, kept: str) -> None:
    """A title shows U+FFFD where it had what cannot be stored."""
    run = populate(store, 1).runs[0]
    store.transact_now(lambda tx: tx.put_waits([WaitRow(run, 0, 1, WaitKind.APPROVAL, None, None, said, None)]))
    assert store.transact_now(lambda tx: tx.waits([run]))[0].title == kept


@pytest.mark.parametrize("bad", [NUL, HALF], ids=["nul", "half"])
def test_names_and_keys_are_refused(store: Store, bad: str) -> None:
    """Two different names must never become equal, so none of them is mended."""
    world = populate(store, 2)
    run, other = world.runs
    lease, second = (claimed.lease for claimed in world.claim())
    entry = Entry(Kind.NOTE, bad, b"")
    attempts = [
        lambda tx: tx.add_signals([NewSignal(run, bad, b"")]),
        lambda tx: tx.add_signals([NewSignal(run, "n", b"", bad)]),
        lambda tx: tx.add_signals([NewSignal(run, "n", b"", None, bad)]),
        lambda tx: tx.add_messages([(run, NewMessage(other, bad, "k", b""))]),
        lambda tx: tx.add_messages([(run, NewMessage(other, "n", bad, b""))]),
        lambda tx: tx.add_rows([(run, NewRow(bad, 0, b""))]),
        lambda tx: tx.append([add(lease, entry)], lease_micros=LEASE),
        lambda tx: tx.append([add(lease, entry), add(second)], lease_micros=LEASE),
        lambda tx: tx.leave([away(lease, entry)]),
        lambda tx: tx.intern_programs([(bad, 1, "m:f")]),
        lambda tx: tx.intern_tenants([bad]),
        lambda tx: tx.put_worker(WORKER._replace(name=bad)),
        lambda tx: tx.put_meta("k", bad),
    ]
    for attempt in attempts:
        with pytest.raises(UsageError, match="cannot be stored") as refusal:
            store.transact_now(attempt)
        assert refusal.value.hint
    assert store.transact_now(lambda tx: tx.journal(run)) == []


def test_names_beyond_ascii_are_kept(store: Store) -> None:
    """Refusing what cannot be stored refuses nothing else."""
    world = populate(store, 1)
    run = world.runs[0]
    names = ["grüße", "日本", "😀", "a b", "tab\t", "\x7f"]
    world.signal(*[NewSignal(run, name, b"", f"key {name}", name) for name in names])
    unread = store.transact_now(lambda tx: tx.unread([run]))[run]
    assert [(signal.name, signal.sender) for signal in unread] == [(name, name) for name in names]
