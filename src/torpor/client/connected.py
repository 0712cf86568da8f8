"""A client's connection to a store: what every part of it stands on."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self

from torpor.client.lives import Living
from torpor.client.places import blobs_address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from torpor.store.protocol import Store


class Connected:
    """An open store."""

    def __init__(self, store: Store) -> None:
        """Speak to an open store."""
        self._living = Living(store)

    @property
    def store(self) -> Store:
        """The store, on connections of this life."""
        return self._living.get()

    @classmethod
    @asynccontextmanager
    async def connect(cls, url: str, *, blobs: str | None = None) -> AsyncIterator[Self]:
        """Open a store that exists and close it at the end. `blobs` is where its large values are kept (`TORPOR_BLOBS`).

        Raises StoreError, UsageError for an URL of no known form.
        """
        from torpor.store.opening import open_store

        store = await asyncio.to_thread(open_store, url, create=False, blobs=blobs_address(blobs))
        try:
            yield cls(store)
        finally:
            await store.close()
