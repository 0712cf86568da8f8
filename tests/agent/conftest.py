"""A provider over real HTTP for whoever asks: `provider.say(...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agent.provider.openai_stub import Provider, serving

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def provider() -> Iterator[Provider]:
    """Return a provider that has nothing to say yet."""
    with serving() as running:
        yield running
