"""What rouse's adapters do to torpor's own connections: nothing, for a life lock's is never opened anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from torpor import rouse
from torpor.rouse.adapters import psycopg as adapter
from torpor.rouse.adapters.waking import Waking
from torpor.store.postgres.connect import Own

if TYPE_CHECKING:
    from tests.stores import Place


def waking() -> Waking:
    """Return a rousal as adapters see it."""
    life = rouse.incarnation()
    return Waking(rouse.Rousal(rouse.Kind.SLEPT, 60.0, ("by hand",), life, life, noticed_at=0))


@pytest.mark.parametrize("left_alone", [False, True])
def test_a_life_lock_outlives_a_closed_lid(direct: Place, monkeypatch: pytest.MonkeyPatch, *, left_alone: bool) -> None:
    """A worker's process adapts psycopg for its author. Looked after like an author's, its own lock would be lost, and it."""
    monkeypatch.setattr(Own, "rouse_leaves_alone", left_alone)
    store = direct.postgres()
    life: Any = store.life_lock("w0")
    own = life._seat.connection  # noqa: SLF001 - whatever else is open in this process is not to be dropped
    found = [each for each in waking().living((psycopg.Connection,)) if each is own]
    adapter.wake(waking(), found)
    assert life.held() is left_alone
    life.release()


def test_an_authors_connection_is_found(direct: Place) -> None:
    """Beside torpor's own ones."""
    with psycopg.connect(direct.postgres().url.partition("?")[0]) as theirs:
        assert any(each is theirs for each in waking().living((psycopg.Connection,)))
