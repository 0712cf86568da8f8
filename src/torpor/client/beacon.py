"""A beacon in torpor's store: of two memories that woke from one state, the store says which one may go on.

    place = rouse.Place(StoreBeacon("postgresql://..."), "agent-7")
    place.take_over()                   # when the process starts
    rouse.on_rousal(place.confirm)      # the gate stays closed in whoever may not go on

It asks on connections of this life alone: one from before a rousal is held by every copy, and the answer may be another's.

The store must be outside of what is copied or rolled back: a server. A file that is copied with its machine is two beacons,
each of which says yes.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from torpor.client.lives import Living
from torpor.engine import marks
from torpor.errors import StoreError
from torpor.store import texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torpor.rouse import Mark
    from torpor.store.protocol import Store


class StoreBeacon:
    """Marks in a store (`rouse.Beacon`). From any thread; blocking."""

    def __init__(self, store: Store | str) -> None:
        """Use an open store, or the one of a URL, which exists and is opened at the first use."""
        self._url = store if isinstance(store, str) else ""
        self._living = None if isinstance(store, str) else Living(store)

    def read(self, machine: str) -> Mark | None:
        """See `rouse.Beacon`. Raises UsageError for a name that no store can keep."""
        texts.check((machine,), "a machine's mark")
        with _answering():
            return self._opened().transact_now(marks.read, machine)

    def compare_and_set(self, machine: str, expected: Mark | None, new: Mark) -> bool:
        """See `rouse.Beacon`. Raises UsageError for a name that no store can keep."""
        with _answering():
            return self._opened().transact_now(marks.compare_and_set, machine, expected, new)

    def close(self) -> None:
        """Close the store, if it was opened here and is still open."""
        if self._living is not None:
            self._living.get().close_now()

    def _opened(self) -> Store:
        if self._living is None:
            from torpor.store.opening import open_store

            self._living = Living(open_store(self._url, create=False))
        return self._living.get()


@contextmanager
def _answering() -> Iterator[None]:
    """Say what a beacon says that does not answer: an OSError, which keeps the gate closed."""
    try:
        yield
    except StoreError as error:
        raise OSError(f"the store's beacon does not answer: {error.message}") from error
