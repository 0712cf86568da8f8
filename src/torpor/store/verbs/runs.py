"""Verbs about programs, tenants and the rows of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.run import State
    from torpor.store.rows import NewRun, ProgramRow, RunChange, RunFilter, RunRow


class RunVerbs(Protocol):
    """Programs, tenants, runs."""

    def intern_programs(self, programs: Sequence[tuple[str, int, str]], *, tag: str = "") -> list[int]:
        """Return the number of each (name, version, source) under a tag; new ones are written, a changed source is updated."""

    def programs(self) -> list[ProgramRow]:
        """Return all programs."""

    def intern_tenants(self, names: Sequence[str]) -> list[int]:
        """Return the number of each tenant, writing new ones."""

    def insert_runs(self, runs: Sequence[NewRun]) -> list[int]:
        """Insert ready runs with their first state (entry 0, turn 1), and return their numbers."""

    def claim_keys(self, keys: Sequence[tuple[bytes, int]]) -> dict[bytes, int]:
        """Bind each (digest, run) unless the digest is bound; return the run that each digest is bound to now."""

    def free_keys(self, keys: Sequence[tuple[bytes, int]]) -> None:
        """Unbind each digest from a run, unless it is bound to another one by now."""

    def drop_runs(self, ids: Sequence[int]) -> None:
        """Remove runs that were inserted in this transaction and lost their key to another."""

    def get_runs(self, ids: Sequence[int], *, lock: bool = False, skip_locked: bool = False) -> dict[int, RunRow]:
        """Return runs by number; with `lock`, locked in order of number until the transaction ends."""

    def list_runs(self, wanted: RunFilter) -> list[RunRow]:
        """Return runs for people, newest first."""

    def count_runs(self, states: Sequence[State], *, most: int) -> dict[State, int]:
        """Count runs by state, each count capped at `most`."""

    def change_runs(self, changes: Sequence[RunChange]) -> None:
        """Apply changes to runs this transaction has locked."""

    def due_runs(self, *, before: int, limit: int) -> list[int]:
        """Return waiting runs whose due time has come, earliest first."""

    def next_due(self) -> int | None:
        """Return the least due time of a waiting run."""

    def sweep_blobs(self, *, before: int, limit: int) -> int:
        """Remove blobs written before a moment that no run names; return how many. Those outside go after the commit."""
