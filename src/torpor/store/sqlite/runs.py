"""Verbs on SQLite: programs, tenants, runs, the hot path."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from torpor.core.run import Flag, State
from torpor.store import texts
from torpor.store.batches import once_each
from torpor.store.rows import ProgramRow
from torpor.store.sqlite import hot, together
from torpor.store.sqlite.begun import Begun
from torpor.store.sqlite.hot import RUN_COLUMNS, run_row
from torpor.store.sqlite.retention import LAST_NUMBER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.store.rows import Append, Claim, Claimed, Leave, Left, NewRun, RunChange, RunFilter, RunRow

_CHANGE = """UPDATE runs SET state = coalesce(v.column2, state), due_at = coalesce(v.column3, due_at),
    head = coalesce(v.column4, head), program = coalesce(v.column5, program), flags = coalesce(v.column6, flags),
    inbox = inbox + v.column7, takeovers = takeovers + v.column8, stalls = coalesce(v.column9, stalls),
    epoch = coalesce(v.column10, epoch), branch = coalesce(v.column11, branch) FROM (VALUES (rows)) v WHERE id = v.column1"""

_INSERT = together.adding("runs (id, created_at, due_at, parent, tenant, program, state, prio)")
_NEXT_NUMBER = f"SELECT max(ifnull((SELECT max(id) FROM runs), 0), ifnull(({LAST_NUMBER}), 0)) + 1"
"""A run's number is part of its effects' keys, so no number is used twice, also when the newest runs were pruned."""


class RunVerbs(Begun):
    """Programs, tenants, runs, and how a run is taken, moved on and put away."""

    def intern_programs(self, programs: Sequence[tuple[str, int, str]], *, tag: str = "") -> list[int]:
        """Return the numbers of programs, writing new ones."""
        texts.check(
            (text for name, _, source in programs for text in (name, source, tag)), "a program's name or source"
        )
        self._db.executemany(
            "INSERT INTO programs (name, version, source, tag) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name, version, tag) DO UPDATE SET source = excluded.source WHERE source <> excluded.source",
            [(*program, tag) for program in programs],
        )
        known = {(row.name, row.version): row.id for row in self.programs() if row.tag == tag}
        return [known[name, version] for name, version, _ in programs]

    def programs(self) -> list[ProgramRow]:
        """Return all programs."""
        return [
            ProgramRow(*row)
            for row in self._db.execute("SELECT id, name, version, source, tag FROM programs ORDER BY id")
        ]

    def intern_tenants(self, names: Sequence[str]) -> list[int]:
        """Return the numbers of tenants, writing new ones."""
        texts.check(names, "a tenant's name")
        self._db.executemany(
            "INSERT INTO tenants (name) VALUES (?) ON CONFLICT DO NOTHING", [(name,) for name in names]
        )
        return [self._db.execute("SELECT id FROM tenants WHERE name = ?", (name,)).fetchone()[0] for name in names]

    def insert_runs(self, runs: Sequence[NewRun]) -> list[int]:
        """Insert runs and their first states."""
        if not runs:
            return []
        now, first = self.now(), self._db.execute(_NEXT_NUMBER).fetchone()[0]
        ids = list(range(first, first + len(runs)))
        rows = []
        for run_id, run in zip(ids, runs, strict=True):
            state, due_at = (State.READY, now) if run.due_at is None else (State.WAITING, run.due_at)
            rows.append((run_id, now, due_at, run.parent, run.tenant, run.program, int(state), run.priority))
        together.write(self._db, _INSERT, rows)
        states = [(run_id, 0, now, 1, run.body) for run_id, run in zip(ids, runs, strict=True)]
        together.write(self._db, together.adding("states (run_id, seq, at, turn, body)"), states)
        return ids

    def claim_keys(self, keys: Sequence[tuple[bytes, int]]) -> dict[bytes, int]:
        """Bind keys that are free; return what each is bound to."""
        self._db.executemany("INSERT INTO run_keys (digest, run_id) VALUES (?, ?) ON CONFLICT DO NOTHING", keys)
        return {
            digest: self._db.execute("SELECT run_id FROM run_keys WHERE digest = ?", (digest,)).fetchone()[0]
            for digest, _ in keys
        }

    def free_keys(self, keys: Sequence[tuple[bytes, int]]) -> None:
        """Unbind keys."""
        self._db.executemany("DELETE FROM run_keys WHERE digest = ? AND run_id = ?", keys)

    def drop_runs(self, ids: Sequence[int]) -> None:
        """Remove runs that lost their key."""
        for table, column in (("runs", "id"), ("states", "run_id"), ("blob_runs", "run_id")):
            self._db.executemany(f"DELETE FROM {table} WHERE {column} = ?", [(run_id,) for run_id in ids])

    def get_runs(self, ids: Sequence[int], *, lock: bool = False, skip_locked: bool = False) -> dict[int, RunRow]:
        """Return runs; the one writer of SQLite needs no row locks."""
        del lock, skip_locked
        return hot.read_runs(self._db, ids)

    def list_runs(self, wanted: RunFilter) -> list[RunRow]:
        """Return runs for people, newest first."""
        states = json.dumps(
            [int(state) for state in wanted.states] if wanted.states is not None else [1, 2, 3, 4, 5, 6]
        )
        programs = None if wanted.programs is None else json.dumps(wanted.programs)
        rows = self._db.execute(
            f"SELECT {RUN_COLUMNS} FROM runs WHERE state IN (SELECT value FROM json_each(?1)) AND (?2 IS NULL OR id < ?2)"
            " AND (?3 IS NULL OR program IN (SELECT value FROM json_each(?3))) ORDER BY id DESC LIMIT ?4",
            (states, wanted.before, programs, wanted.limit),
        )
        return [run_row(row) for row in rows]

    def count_runs(self, states: Sequence[State], *, most: int) -> dict[State, int]:
        """Count runs by state, capped."""
        count = (
            "SELECT count(*) FROM (SELECT 1 FROM runs WHERE state = {} LIMIT ?)"  # the number inside: partial indexes
        )
        return {state: self._db.execute(count.format(int(state)), (most,)).fetchone()[0] for state in states}

    def change_runs(self, changes: Sequence[RunChange]) -> None:
        """Apply changes."""
        once_each([change.id for change in changes])
        together.write(self._db, _CHANGE, [[None if v is None else int(v) for v in change] for change in changes])

    def claim(self, wanted: Claim) -> list[Claimed]:
        """Make ready runs running."""
        return hot.claim(self._db, wanted, self.now())

    def append(self, rows: Sequence[Append], *, lease_micros: int) -> dict[int, Flag]:
        """Append under the fence."""
        return hot.append(self._db, rows, self.now(), lease_micros)

    def leave(self, rows: Sequence[Leave]) -> dict[int, Left]:
        """Append under the fence and end the stretch."""
        return hot.leave(self._db, rows, self.now())

    def fence_order(self, leaving: Sequence[int], going: Sequence[int]) -> None:
        """Lock nothing: the one writer of SQLite needs no row locks."""
        del leaving, going
