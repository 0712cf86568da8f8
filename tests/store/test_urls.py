"""Addresses of servers that are none."""

from __future__ import annotations

import pytest

from torpor.errors import UsageError
from torpor.store.postgres.connect import parse


@pytest.mark.parametrize("url", ["postgresql://[::", "postgresql://host:many/db", "postgresql://host:99999/db"])
def test_what_is_no_url(url: str) -> None:
    """It is said in a line, with one that is."""
    with pytest.raises(UsageError, match="cannot be read") as refused:
        parse(url)
    assert refused.value.hint.startswith("postgresql://")
