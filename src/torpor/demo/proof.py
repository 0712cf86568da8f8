"""The proof: what the service outside counted, against what the journal says, entry by entry.

Nothing here believes the demo's own account. The journal is read anew, from its first entry; every publication in it has
a key that can be computed again (`core.effect.effect_key`), and under exactly that key the service must have counted
exactly once, with the same name and the same receipt. What the journal held at the moment of a kill or a freeze must
still be in it, entry for entry; only the state of a checkpoint goes when enough newer ones have come.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from torpor.core.effect import effect_key
from torpor.core.journal import RESOLVES, Kind
from torpor.core.replay import CallKind, kind_of, name_of
from torpor.store import values

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torpor.core.journal import Stored
    from torpor.store.protocol import Tx
    from torpor.store.rows import RunRow

PAGE = 2000


@dataclass
class Proof:
    """What was compared. `complaints` says in words what does not fit; empty means proven."""

    counted: int = 0
    """Publications that the service counted."""
    published: int = 0
    """Publications that the journal has an outcome of."""
    effects: int = 0
    steps: int = 0
    repeated: int = 0
    """How often the service counted something more than once."""
    lost: int = 0
    """Publications that only one side knows, and files without one."""
    steps_lost: int = 0
    """Entries that were in the journal and are not, and steps of a file that are missing or recorded twice."""
    complaints: list[str] = field(default_factory=list)


def read_journal(tx: Tx, run_id: int, after: int = 0) -> list[Stored]:
    """Return a run's entries above `after`, all of them."""
    found: list[Stored] = []
    while page := tx.journal(run_id, after=found[-1].seq if found else after, limit=PAGE):
        found += page
    return found


def prove(
    run: RunRow,
    journal: Sequence[Stored],
    counts: dict[str, dict[str, Any]],
    files: Sequence[Path],
    before: Sequence[Sequence[Stored]],
) -> Proof:
    """Compare everything. `before` holds the journal as it was at each kill and freeze."""
    proof = Proof(counted=sum(len(one["receipts"]) for one in counts.values()))
    expected = Counter({"measure": len(files), "confirm": len(files)})
    expected["parse"] = sum(path.suffix == ".py" for path in files)
    _publications(proof, run, journal, counts, len(files))
    _steps(proof, journal, expected)
    _kept(proof, journal, before)
    _fenced(proof, journal)
    return proof


def _publications(
    proof: Proof, run: RunRow, journal: Sequence[Stored], counts: dict[str, dict[str, Any]], files: int
) -> None:
    turn = 1
    names: dict[str, str] = {}
    known: set[str] = set()
    for entry in journal:
        if entry.kind is Kind.CHECKPOINT:
            turn += 1
        if not entry.key or kind_of(entry.key) is not CallKind.EFFECT:
            continue
        if entry.kind in RESOLVES:
            proof.effects += 1
        if name_of(entry.key) != "publish":
            continue
        key = effect_key(run.id, run.branch, turn, entry.key)
        if entry.kind is Kind.INTENT:
            names[key] = values.plain(entry.body or b"")["args"][1]["name"]
        elif entry.kind in RESOLVES:
            proof.published += 1
            known.add(key)
            _one(proof, names.get(key, "?"), counts.get(key), entry)
    for key, one in counts.items():
        extra = len(one["receipts"]) - 1
        if extra:
            proof.repeated += extra
            proof.complaints.append(f"the service counted {one['name']} {extra + 1} times")
        if key not in known:
            proof.lost += 1
            proof.complaints.append(f"the service counted {one['name']}, the journal has no outcome of it")
    if proof.published != files:
        proof.lost += abs(files - proof.published)
        proof.complaints.append(f"{files} files, and {proof.published} publications in the journal")


def _one(proof: Proof, name: str, counted: dict[str, Any] | None, outcome: Stored) -> None:
    if counted is None:
        proof.lost += 1
        proof.complaints.append(f"the journal has published {name}, the service never counted it")
        return
    receipt = values.plain(outcome.body or b"null")
    if outcome.kind is Kind.FAILURE or counted["name"] != name or receipt not in counted["receipts"]:
        proof.lost += 1
        proof.complaints.append(f"{name}: the journal says {receipt}, the service says {counted}")


def _steps(proof: Proof, journal: Sequence[Stored], expected: Counter[str]) -> None:
    """Each step of each file is recorded exactly once, whatever was interrupted."""
    found: Counter[str] = Counter()
    once: set[tuple[int, str]] = set()
    turn = 1
    for entry in journal:
        if entry.kind is Kind.CHECKPOINT:
            turn += 1
        if entry.key and entry.kind in RESOLVES and kind_of(entry.key) is CallKind.STEP:
            proof.steps += 1
            if (turn, entry.key) in once or entry.kind is Kind.FAILURE:
                proof.steps_lost += 1
                proof.complaints.append(f"{entry.key} of turn {turn} is recorded twice, or failed")
            once.add((turn, entry.key))
            found[name_of(entry.key)] += 1
    for name, count in expected.items():
        missing = abs(count - found[name])
        if missing:
            proof.steps_lost += missing
            proof.complaints.append(f"{count} steps {name} were to be done, the journal has {found[name]}")


def _kept(proof: Proof, journal: Sequence[Stored], before: Sequence[Sequence[Stored]]) -> None:
    """What was committed is kept (G3): the journal begins, entry for entry, with what it held before."""
    for earlier in before:
        gone = [entry for entry in earlier if not _is_kept(entry, journal[entry.seq - 1 : entry.seq])]
        if gone:
            proof.steps_lost += len(gone)
            proof.complaints.append(f"{len(gone)} of {len(earlier)} entries are gone, or other than they were")


def _is_kept(entry: Stored, found: Sequence[Stored]) -> bool:
    """Whether this is what was found in its place: unchanged, or a checkpoint emptied because newer ones had come."""
    emptied = entry._replace(body=None) if entry.kind is Kind.CHECKPOINT else entry
    return list(found) in ([entry], [emptied])


def _fenced(proof: Proof, journal: Sequence[Stored]) -> None:
    """Who lost the run wrote nothing any more (G1): epochs in the journal never go back."""
    late = [entry.seq for before, entry in pairwise(journal) if entry.epoch < before.epoch]
    if late:
        proof.complaints.append(f"entries {late[:5]} were written under an epoch that was over")
