"""Verbs about leases and the workers that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torpor.core.lease import Lease
    from torpor.core.run import Flag
    from torpor.store.rows import NewWorker, WorkerRow


class LeaseVerbs(Protocol):
    """Leases and workers."""

    def leases(self, ids: Sequence[int], *, lock: bool = False, skip_locked: bool = False) -> dict[int, Lease]:
        """Return leases by run."""

    def leases_of(self, worker: int, *, limit: int) -> list[Lease]:
        """Return leases of a worker."""

    def expired_leases(self, *, before: int, limit: int) -> list[Lease]:
        """Return leases that ended before a moment."""

    def nobodys_leases(self, *, limit: int) -> list[Lease]:
        """Return leases whose worker has no row: it was gone before its claim came."""

    def all_leases(self, *, limit: int) -> list[Lease]:
        """Return leases for people."""

    def renew(self, worker: int, leases: Sequence[tuple[int, int, int]], *, lease_micros: int) -> list[Lease]:
        """Extend (run, token, epoch) leases of a worker in one statement; return those that exist. Never makes one."""

    def flag_leases(self, ids: Sequence[int], flags: Flag) -> None:
        """Add flags to the leases of runs."""

    def drop_leases(self, ids: Sequence[int]) -> None:
        """End leases that this transaction has locked."""

    def put_worker(self, worker: NewWorker) -> int:
        """Write a worker and return its number."""

    def see_worker(self, worker: int) -> None:
        """Say that a worker is alive now."""

    def workers(self) -> list[WorkerRow]:
        """Return all workers that were not dropped."""

    def drop_workers(self, ids: Sequence[int]) -> None:
        """Forget workers that are gone and hold no lease."""
