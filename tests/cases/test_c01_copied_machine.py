"""C01 with real machines: one with a torpor worker is copied in the middle of a run, and the original lives on.

Nothing in the two differs; the store is on the host. The original keeps its connections, the copy's lead nowhere, and so does
its life lock. Right: before the gate's last look exactly one of them acts, and the other stops and says why (G1, G2, G4). After
it, inside the effect, both act: the stated exception of G4; what a `keyed` effect does then has one key (G5), and one outcome
is recorded all the same.
"""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.cases.outside import Outside
from tests.cases.world import World
from tests.lab.doors import serving
from tests.lab.guests import HOST, python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.lab.agent import Program
    from tests.lab.doors import Doors
    from tests.lab.lab import Lab
    from tests.lab.machine import Machine, Snapshot

pytestmark = [pytest.mark.slow, pytest.mark.alone]

PLACES = ("look", "gate", "effect", "acted")
STOPS = "life lock is lost"


@pytest.fixture
def world(tmp_path: Path, server_url: Callable[[str], str]) -> Iterator[World]:
    """A database of the host that workers in guests can share."""
    server, schema, outside = server_url("postgres"), f"lab_{secrets.token_hex(6)}", Outside()
    made = World(f"{server}?schema={schema}", tmp_path, outside)
    yield made
    made.close()
    outside.close()
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


@pytest.fixture
def doors() -> Iterator[Doors]:
    """Places where the run stands."""
    with serving() as made:
        yield made


@pytest.fixture(scope="module")
def asleep(lab: Lab) -> tuple[Snapshot, Machine, Program]:
    """A machine in which a worker has been imported, and waits to be told for which store: that takes long, so once."""
    machine = lab.start()
    program = python(machine, "works")
    return machine.snapshot(), machine, program


class Both:
    """An original that stands at a place, and its copy, which stands there too."""

    def __init__(
        self,
        lab: Lab,
        asleep: tuple[Snapshot, Machine, Program],
        world: World,
        doors: Doors,
        *,
        place: str,
        safety: str,
    ) -> None:
        """Run up to the place and copy the machine there; it has the doors before the place open."""
        self._lab, self._doors, self._place = lab, doors, place
        snapshot, machine, program = asleep
        original = lab.wake(snapshot, machine.hardware, savable=True)
        original.set_clock(time.time())
        original.put("/run/machine", "original")
        self.machines = {"original": original}
        self.programs = {"original": original.the(program)}
        store = ["--store", world.url.replace("127.0.0.1", HOST), "--name", "w0", "--lease-seconds", "60"]
        argv = ["worker", "/source/programs/copied.py", *store]
        self.programs["original"].write(json.dumps({"argv": argv, "env": {"LAB_DOORS": doors.url}}))
        for passed in PLACES[: PLACES.index(place)]:
            doors.open(passed, "original")
        world.until(lambda: world.store.transact_now(lambda tx: tx.workers()), "the worker began")
        self.run = world.start("copies", safety)
        doors.came(place, "original")
        original.pause()
        self._snapshot = original.copied()

    def wake_copy(self) -> None:
        """Wake the copy; it stands at the place, too, unless its door is open."""
        copy = self._lab.wake(self._snapshot, self.machines["original"].hardware)
        copy.put("/run/machine", "copy")
        self.machines["copy"], self.programs["copy"] = copy, copy.the(self.programs["original"])
        self._doors.came(self._place, "copy")

    def let_go(self, name: str) -> None:
        """Open every door for one of them; the original also lives on."""
        for place in PLACES:
            self._doors.open(place, name)
        if name == "original":
            self.machines["original"].go_on()

    def close(self) -> None:
        """End both."""
        for machine in self.machines.values():
            machine.close()


@pytest.mark.parametrize(
    ("place", "first"), [("look", "copy"), ("look", "original"), ("gate", "copy"), ("gate", "original")]
)
def test_copied_before_the_last_look_exactly_one_acts(
    lab: Lab, asleep: tuple[Snapshot, Machine, Program], world: World, doors: Doors, place: str, first: str
) -> None:
    """Before the intent, and after its answer: whichever goes first, the original acts and the copy stops."""
    both = Both(lab, asleep, world, doors, place=place, safety="once")
    both.wake_copy()
    both.let_go(first)
    if first == "copy":
        both.programs["copy"].error(STOPS)
        assert doors.acts == []
        both.let_go("original")
    key = world.result(both.run)
    both.let_go("copy")
    both.programs["copy"].error(STOPS)
    both.close()
    assert [act.machine for act in doors.acts] == ["original"]
    assert doors.acts[0].key == key
    assert recorded(world, both.run) == ["intent", "outcome"]


@pytest.mark.parametrize("safety", ["once", "keyed"])
def test_copied_inside_the_effect_there_is_one_key_and_one_outcome(
    lab: Lab, asleep: tuple[Snapshot, Machine, Program], world: World, doors: Doors, safety: str,
    figure: Callable[[str, object], None],
) -> None:  # fmt: skip
    """The stated hole of G4: past the gate the copy may act as well. It never acts twice, and records nothing."""
    both = Both(lab, asleep, world, doors, place="effect", safety=safety)
    both.let_go("copy")
    both.wake_copy()
    both.programs["copy"].error(STOPS)
    both.let_go("original")
    key = world.result(both.run)
    both.close()
    acted = [act.machine for act in doors.acts]
    assert sorted(acted) in (["copy", "original"], ["original"])
    assert {act.key for act in doors.acts} == {key}
    assert recorded(world, both.run) == ["intent", "outcome"]
    figure(f"copied inside a {safety} effect: who acted", acted)


def recorded(world: World, run: int) -> list[str]:
    """Return the kinds of the entries about the effect, in order; all of them are of one claim."""
    lines = [line for line in world.journal(run) if line.key in {"charge#1", "pay#1"}]
    assert {line.epoch for line in lines} == {1}
    return [line.kind for line in lines]
