"""What `rouse.adapt` takes, when an adapter is active, and what happens if one fails."""

from __future__ import annotations

import gc
import http.client
import importlib
import random
import socket
import sqlite3
import subprocess
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from tests.patience import PATIENCE_SECONDS
from torpor import rouse
from torpor.rouse import adapters
from torpor.rouse.adapters import dropping, waking

SLEPT = rouse.Rousal(
    rouse.Kind.SLEPT, 3600.0, ("by hand",), rouse.Incarnation("before"), rouse.Incarnation("after"), noticed_at=0
)
ALONE = """
import sys
from torpor import rouse
loaded = set(sys.modules)
rouse.adapt()
life = rouse.incarnation()
rouse.process_registry.tell(rouse.Rousal(rouse.Kind.SLEPT, 1.0, (), life, life, noticed_at=0))
assert set(sys.modules) == loaded, set(sys.modules) - loaded
import random, json, http.client
state = random.getstate()
rouse.process_registry.tell(rouse.Rousal(rouse.Kind.SLEPT, 1.0, (), life, life, noticed_at=0))
assert random.getstate() != state
state = random.getstate()
rouse.process_registry.tell(rouse.Rousal(rouse.Kind.CLOCK_STEP, 0.0, (), life, life, noticed_at=0, certain=True))
assert random.getstate() == state
"""


def test_an_adapter_imports_nothing_and_sees_what_is_imported_later() -> None:
    """A rousal with no library loads none; `random`, imported after `adapt()`, is reseeded, but not for a mere step."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_what_nobody_knows_is_refused_and_twice_is_once() -> None:
    """A typo in `adapt(client)` must not look like care."""
    with pytest.raises(TypeError, match="SimpleNamespace"):
        rouse.adapt(SimpleNamespace())
    assert adapters._registrations == []  # noqa: SLF001 - nothing was done
    generator = random.Random(1)  # noqa: S311 - that it can be guessed is the question
    rouse.adapt(generator)
    rouse.adapt(generator)
    assert [each.phase for each in adapters._registrations] == [  # noqa: SLF001 - once
        rouse.Phase.RESEED, rouse.Phase.CONNECTIONS, rouse.Phase.SCHEDULES
    ]  # fmt: skip
    found = waking.Waking(SLEPT).under_care((random.Random,))
    assert sum(each is generator for each in found) == 1


def test_a_failing_adapter_lets_the_others_do_their_work_and_fails_the_rousal() -> None:
    """Fail closed."""
    done: list[str] = []

    class Broken:
        LIBRARIES = ("sys",)

        def classes(self) -> tuple[type, ...]:
            """Nothing."""
            return ()

        def wake(self, _waking: waking.Waking, _found: list[Any], /) -> None:
            """Fail."""
            raise OSError("broken")

    class Sound(Broken):
        def wake(self, _waking: waking.Waking, _found: list[Any], /) -> None:
            """Work."""
            done.append("sound")

    both = adapters._Registered(rouse.Phase.TIME, (Broken(), Sound()), everywhere=True, kinds=frozenset(rouse.Kind))  # noqa: SLF001 - as there
    with pytest.raises(ExceptionGroup, match="TIME"):
        both(SLEPT)
    assert done == ["sound"]


def test_a_person_is_told_of_adapters_by_what_they_called() -> None:
    """Not by how they are made: a worker's log names the callback that failed."""
    rouse.adapt()
    assert {each.name for each in adapters._registrations} == {"rouse.adapt()"}  # noqa: SLF001 - nothing else shows it
    registry, (connections,) = rouse.Registry(), [each for each in adapters._PHASES if each.everywhere][:1]  # noqa: SLF001 - as above
    assert repr(registry.on_rousal(connections, phase=connections.phase)) == "<rouse.adapt() in CONNECTIONS>"


def test_what_was_frozen_is_found() -> None:
    """A server that forks its workers calls `gc.freeze()` first; what it froze stays frozen."""
    connection = http.client.HTTPConnection("127.0.0.1")
    gc.freeze()
    try:
        found = waking.Waking(SLEPT).living((http.client.HTTPConnection,))
        assert any(each is connection for each in found)
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_only_what_is_looked_for_is_held() -> None:
    """A look in a thread that kept a cursor alive would leave its statement open, and somebody's COMMIT would fail."""
    connection, other = http.client.HTTPConnection("127.0.0.1"), SimpleNamespace(database=sqlite3.connect(":memory:"))
    cursor = other.database.execute("PRAGMA journal_mode")
    alive = weakref.ref(cursor)
    looking = waking.Waking(SLEPT)
    assert any(each is connection for each in looking.living((http.client.HTTPConnection,)))
    del cursor
    assert alive() is None
    other.database.close()


def test_a_subclass_is_found_and_one_that_is_to_be_left_alone_is_not() -> None:
    """By whatever class it was asked for."""

    class Own(http.client.HTTPConnection):
        pass

    class Lone(Own):
        rouse_leaves_alone = True

    own, lone = Own("127.0.0.1"), Lone("127.0.0.1")
    looking = waking.Waking(SLEPT)
    for kind in (http.client.HTTPConnection, Own):
        found = [id(each) for each in looking.living((kind,))]
        assert id(own) in found
        assert id(lone) not in found


def test_a_diverted_descriptor_leads_nowhere_and_the_other_holder_goes_on() -> None:
    """An error first, then the end; writing fails. The copy of the descriptor notices nothing."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.dup() as shared:
        dropping.drop(ours.fileno(), process_copied=True)
        with pytest.raises(ConnectionResetError):
            ours.recv(1)
        assert ours.recv(1) == b""
        with pytest.raises(BrokenPipeError):
            ours.send(b"x")
        shared.send(b"still here")
        theirs.send(b"so am I")
        assert (theirs.recv(99), shared.recv(99)) == (b"still here", b"so am I")
    dropping.drop(-1, process_copied=True)
    with open("/dev/null", "rb") as no_socket:  # noqa: PTH123 - the number is what is wanted
        dropping.drop(no_socket.fileno(), process_copied=True)
        assert no_socket.read() == b""


def test_seeds_differ_even_if_the_kernel_repeats_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copied machine whose kernel was not told: the clocks and the name of the life must do."""
    monkeypatch.setattr(importlib.import_module("os"), "urandom", lambda size: b"\0" * size)
    one = waking.Waking(SLEPT)
    assert len({one.seed(), one.seed(), waking.Waking(SLEPT).seed()}) == 3
