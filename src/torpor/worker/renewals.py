"""Renewals: every lease of the worker in one statement, from a thread and a connection of their own.

Only code that holds the interpreter's lock can stop it; a busy event loop or a blocking step cannot (measured in
docs/performance.md). What a renewal finds is told to the loop, which decides what it means.

The thread also notices what the loop itself cannot say: that it is blocked, by a flow that loops for ever or an `async def`
that does not await. Leases stay alive meanwhile, so without a word nobody would know why nothing moves (G13).
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from typing import TYPE_CHECKING

from torpor import rouse
from torpor.engine.leases import renew
from torpor.errors import StoreError
from torpor.store.protocol import Lane
from torpor.worker.places import authors_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torpor.core.lease import Lease
    from torpor.store.protocol import Store

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
        self._worker_loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._moved = threading.Event()
        self._moved.set()
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
        pause = self._lease_seconds / 3
        while not self._stop.wait(pause):
            try:
                if rouse.incarnation() != self._born:
                    self._store.recover(Lane.RENEW)  # no connection of another life is used
                    self._born = rouse.incarnation()
                self._look_at_loop()
                self.now()
                pause = self._lease_seconds / 3
            except StoreError:
                pause = min(1.0, self._lease_seconds / 10)
            except Exception:
                # a thread that ends here would end every lease in silence (G13)
                log.exception("a renewal failed; it is tried again")
                pause = min(1.0, self._lease_seconds / 10)

    def _look_at_loop(self) -> None:
        """Say where the worker's loop is blocked, if it did not move since the last renewal."""
        if not self._moved.is_set():
            stack = traceback.extract_stack(sys._current_frames().get(self._loop_thread))  # noqa: SLF001 - the only way
            frame = authors_frame(stack)
            place = f"{frame.filename}:{frame.lineno} in {frame.name}" if frame is not None else "a place nobody knows"
            log.error(
                "the worker's loop has not moved for %.0f s, so none of its runs goes on; it is at %s. "
                "Put blocking work in a step that is a plain def: it runs in a thread",
                self._lease_seconds / 3,
                place,
            )
        self._moved.clear()
        self._worker_loop.call_soon_threadsafe(self._moved.set)

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
