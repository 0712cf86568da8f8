"""Calls that ask somebody, and how that ends is the test's to say."""

from __future__ import annotations

import asyncio

from tests.patience import PATIENCE_SECONDS

HELD: list[asyncio.Queue[asyncio.Future[str]]] = []


async def ask() -> str:
    """Ask somebody; the test says how that ends."""
    said: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    HELD[-1].put_nowait(said)
    return await said


async def asked() -> asyncio.Future[str]:
    """Wait until somebody is asked, and return what the answer is to be put into."""
    return await asyncio.wait_for(HELD[-1].get(), PATIENCE_SECONDS)
