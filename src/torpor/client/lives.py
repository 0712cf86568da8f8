"""A store outside a worker, in a process that may sleep or be copied: no connection is used in another life (G19).

A worker's standing does this at each rousal. Whoever only asks has no standing, so it compares the incarnation at each use,
which costs a quarter of a microsecond: a copy holds the same connections, and an answer on one may be the other's. That
somebody notices, and so ends the life, is up to a watch (`rouse.watch()`); a copy of the process is found without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torpor import rouse
from torpor.store.protocol import Lane

if TYPE_CHECKING:
    from torpor.store.protocol import Store


class Living:
    """An open store, for whoever gets it anew at each use. From any thread."""

    def __init__(self, store: Store) -> None:
        """Its connections are of this life."""
        self._store = store
        self._born_in = rouse.incarnation()

    def get(self) -> Store:
        """Return the store; in another life each of its connections is left, and opened anew when it is needed."""
        now = rouse.incarnation()
        if now != self._born_in:
            for lane in Lane:
                self._store.recover(lane)
            self._born_in = now  # last: two threads may both do it, none uses an old one
        return self._store
