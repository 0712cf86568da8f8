"""Renewals: every lease of the worker in one statement, from a thread and a connection of their own.

Only code that holds the interpreter's lock can stop it; a busy event loop or a blocking step cannot (measured in
docs/performance.md). What a renewal finds is told to the loop, which decides what it means.

The thread also notices what the loop itself cannot say: that it is blocked (`blocked`).
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from torpor import clock, rouse
from torpor.engine.leases import renew
from torpor.errors import StoreError
from torpor.store.protocol import Lane
from torpor.worker.blocked import LOOK_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torpor.core.lease import Lease
    from torpor.store.protocol import Store
    from torpor.worker.blocked import LoopWatch

log = logging.getLogger("torpor.worker")

Held = tuple[int, int, int]
"""(run, token, epoch)."""


class Renewals:
    """The renewing thread."""

    def __init__(
        self,
        store: Store,
        worker: int,
        held: Callable[[], Sequence[Held]],
        found: Callable[[Sequence[Held], list[Lease]], None],
        watch: LoopWatch,
        *,
        lease_seconds: float,
    ) -> None:
        """Renew what `held()` lists; tell `found(asked, renewed)` from the thread."""
        self._store = store
        self._worker = worker
        self._held = held
        self._found = found
        self._lease_seconds = lease_seconds
        self._stop = threading.Event()
        self._born = rouse.incarnation()
        self._watch = watch
        self._due_at, self._look_at = (clock.monotonic() + seconds for seconds in (lease_seconds / 3, LOOK_SECONDS))
        self._thread = threading.Thread(target=self._loop, name="torpor-renewals", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def now(self) -> list[Lease]:
        """Renew at once, in the caller's thread; used after a gap, before anything else. Raises StoreError."""
        asked = list(self._held())
        renewed = self._store.transact_now(
            renew, self._worker, asked, lane=Lane.RENEW, lease_micros=round(self._lease_seconds * 1e6)
        )
        self._found(asked, renewed)
        return renewed

    def _loop(self) -> None:
        while not self._stop.wait(self.pause()):
            self.beat()

    def pause(self) -> float:
        """Return how many seconds there are until something is due."""
        return max(min(self._due_at, self._look_at) - clock.monotonic(), 0.0)

    def beat(self) -> None:
        """Do what is due: what the thread does again and again."""
        try:
            if clock.monotonic() >= self._look_at:
                self._look_at = clock.monotonic() + LOOK_SECONDS
                self._watch.look()
            if clock.monotonic() < self._due_at:
                return
            if rouse.incarnation() != self._born:
                self._store.recover(Lane.RENEW)  # no connection of another life is used
                self._born = rouse.incarnation()
            self.now()
            self._due_at = clock.monotonic() + self._lease_seconds / 3
        except StoreError:
            self._due_at = clock.monotonic() + min(1.0, self._lease_seconds / 10)
        except Exception:
            # a thread that ends here would end every lease in silence (G13)
            log.exception("a renewal failed; it is tried again")
            self._due_at = clock.monotonic() + min(1.0, self._lease_seconds / 10)

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
