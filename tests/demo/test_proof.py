"""The proof can fail: each way in which something could repeat or get lost is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from torpor.core.effect import effect_key
from torpor.core.journal import Kind, Stored
from torpor.core.run import Flag, State
from torpor.demo.audit import Finding
from torpor.demo.proof import prove
from torpor.store import values
from torpor.store.rows import RunRow

RUN = RunRow(7, 0, None, None, 1, 1, 3, 0, 0, 0, 0, State.COMPLETED, 0, 2, 0, Flag.NONE)
FILES = [Path("a.py"), Path("b.txt")]
Counts = dict[str, dict[str, Any]]


def written() -> tuple[list[Stored], Counts]:
    """Return the journal of an audit of two files, a turn each, and what the service counted."""
    journal: list[Stored] = []
    counts: Counts = {}

    def add(kind: Kind, key: str | None, body: bytes | None, epoch: int) -> None:
        journal.append(Stored(len(journal) + 1, 0, epoch, kind, key, body))

    for turn, path in enumerate(FILES, start=1):
        add(Kind.OUTCOME, f"s:measure#1~{path}", b"1", turn)
        if path.suffix == ".py":
            add(Kind.OUTCOME, f"s:parse#1~{path}", b"1", turn)
        arguments = {"args": (80, Finding(str(path)))}
        add(Kind.INTENT, f"e:publish#1~{path}", values.encode(arguments, path="args"), turn)
        add(Kind.OUTCOME, f"e:publish#1~{path}", values.encode(turn, path="result"), turn)
        add(Kind.OUTCOME, f"s:confirm#1~{path}", b"1", turn)
        add(Kind.CHECKPOINT, None, None, turn)
        counts[effect_key(7, 0, turn, f"e:publish#1~{path}")] = {"name": str(path), "receipts": [turn]}
    add(Kind.OUTCOME, "e:write_report#1", b"1", 3)
    return journal, counts


def test_what_fits_is_proven() -> None:
    """Every publication counted once, under the key that follows from the journal."""
    journal, counts = written()
    proof = prove(RUN, journal, counts, FILES, [journal[:5], journal[:9]])
    assert proof.complaints == []
    assert (proof.counted, proof.published, proof.effects, proof.steps) == (2, 2, 3, 5)
    assert (proof.repeated, proof.lost, proof.steps_lost) == (0, 0, 0)


def test_counted_twice_is_repeated() -> None:
    """A second count of one key is seen."""
    journal, counts = written()
    next(iter(counts.values()))["receipts"].append(3)
    proof = prove(RUN, journal, counts, FILES, [])
    assert (proof.repeated, proof.complaints) == (1, ["the service counted a.py 2 times"])


def test_never_counted_is_lost() -> None:
    """The journal says published, and the service knows nothing of it."""
    journal, counts = written()
    counts.popitem()
    proof = prove(RUN, journal, counts, FILES, [])
    assert (proof.lost, proof.complaints) == (1, ["the journal has published b.txt, the service never counted it"])


def test_counted_under_another_key_is_no_proof() -> None:
    """An unknown key at the service: the effect acted, and torpor has no record of it."""
    journal, counts = written()
    counts["other"] = {"name": "a.py", "receipts": [3]}
    assert prove(RUN, journal, counts, FILES, []).lost == 1


@pytest.mark.parametrize("wrong", [{"name": "c"}, {"receipts": [9]}])
def test_another_name_or_receipt_is_no_proof(wrong: dict[str, Any]) -> None:
    """What was counted must be what was sent, and the answer recorded the answer given."""
    journal, counts = written()
    next(iter(counts.values())).update(wrong)
    assert prove(RUN, journal, counts, FILES, []).lost == 1


def test_a_file_without_a_publication_is_lost() -> None:
    """The number of files is known from outside too."""
    journal, counts = written()
    assert prove(RUN, journal, counts, [*FILES, Path("c.txt")], []).lost == 1


def test_entries_that_are_gone_are_lost() -> None:
    """What the journal held before a kill must be in it, entry for entry (G3)."""
    journal, counts = written()
    earlier = [journal[0]._replace(body=b"2"), journal[1]]
    proof = prove(RUN, journal, counts, FILES, [earlier])
    assert (proof.steps_lost, proof.complaints) == (1, ["1 of 2 entries are gone, or other than they were"])


def test_a_checkpoint_may_be_emptied_and_nothing_else() -> None:
    """The state of an old checkpoint goes by `keep_checkpoints`; its entry stays, and no outcome may lose its body."""
    journal, counts = written()
    state = next(entry for entry in journal if entry.kind is Kind.CHECKPOINT)._replace(body=b"state")
    assert prove(RUN, journal, counts, FILES, [[state]]).complaints == []
    renamed = state._replace(key="c:9")
    assert prove(RUN, journal, counts, FILES, [[renamed]]).steps_lost == 1
    emptied = [journal[0]._replace(body=None), *journal[1:]]
    assert prove(RUN, emptied, counts, FILES, [[journal[0]]]).steps_lost == 1


def test_steps_recorded_twice_or_never_are_seen() -> None:
    """Each step of each file has one outcome."""
    journal, counts = written()
    again = [*journal, journal[-3]._replace(seq=12)]
    assert prove(RUN, again, counts, FILES, []).steps_lost == 1
    assert prove(RUN, journal[1:], counts, FILES, []).steps_lost == 1


def test_a_late_write_is_seen() -> None:
    """An entry under an epoch that was over means that somebody was not fenced (G1)."""
    journal, counts = written()
    late = [*journal, Stored(12, 0, 1, Kind.NOTE, None, None)]
    assert prove(RUN, late, counts, FILES, []).complaints == ["entries [12] were written under an epoch that was over"]
