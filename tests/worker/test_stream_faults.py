"""What goes wrong between a run's stream and its store: answers lost, store away, a copy that was faster (G2, G3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from tests.worker.labs import FaultyStore, Hold, no_fault, on, once, times
from tests.worker.speaking import GATES, app, check_numbers, fresh_gates, one, parts, tells, work
from torpor.client import Client
from torpor.core.ids import parse_run
from torpor.core.stream import NewPart, PartKind, StreamWrite
from torpor.engine import streams
from torpor.engine.commit import commit
from torpor.engine.streams import Said

if TYPE_CHECKING:
    from tests.stores import Moment
    from torpor.store.protocol import Store
    from torpor.testing import Lab


@pytest.fixture(autouse=True)
def _gates() -> None:
    fresh_gates()


@pytest.mark.parametrize("fault", ["lost", "away"])
def test_a_commit_whose_answer_is_lost(store: Store, moment: Moment, fault: str) -> None:
    """What travelled with it is found out, not repeated: nothing is missing and nothing doubled (G3)."""
    faulty = FaultyStore(store)

    async def check(lab: Lab) -> None:
        faulty.fault = times(2, commit, fault)
        run = await lab.start(tells, "")
        assert await lab.result(run) == await Client(store).text(str(run))
        assert faulty.faults
        faulty.fault = no_fault
        await check_numbers(lab, run)

    on(cast("Store", faulty), moment, app, check)


@pytest.mark.parametrize("fault", ["lost", "away", "broken"])
def test_a_write_whose_answer_is_lost(store: Store, moment: Moment, fault: str) -> None:
    """The same between two commits; one that the store refuses costs its run the lease, and nothing else."""
    faulty = FaultyStore(store)

    async def check(lab: Lab) -> None:
        broken = fault == "broken"
        faulty.fault = times(1 if broken else 2, streams.append, OSError("refused") if broken else fault)
        run = await lab.start(one, state=False)
        going = await work(lab)
        await GATES["said"].wait()
        while not faulty.faults:
            await lab.change()
        GATES["said on"].set()
        if broken:
            await lab.kill()
        await going
        assert await lab.result(run) == await Client(store).text(str(run)) == "attempt 1"
        faulty.fault = no_fault
        await check_numbers(lab, run)
        assert len(await parts(lab, run)) == 1

    on(cast("Store", faulty), moment, app, check)


def test_a_copy_that_wrote_first_wins(store: Store, moment: Moment) -> None:
    """Who finds the counter moved by an equal writer stops before its next effect, and its commit changes nothing (G2)."""
    faulty = FaultyStore(store)
    hold = Hold()

    async def check(lab: Lab) -> None:
        faulty.fault = once(lambda op, _: op is streams.append, hold)
        run = await lab.start(one, state=False)
        going = await work(lab)
        await hold.reached.wait()
        number = parse_run(str(run))[1]
        lease = (await store.transact(lambda tx: tx.leases([number])))[number]
        copied = Said(number, lease.token, lease.epoch, StreamWrite(None, [NewPart(1, PartKind.TEXT, b'"copy"')]))
        assert await store.transact(streams.append, [copied]) == [1]
        hold.released.set()
        worker = await lab.worker()
        while number in worker.executors:
            await lab.change()
        assert [part.body for part in await parts(lab, run)] == ["copy"]
        GATES["said on"].set()
        moment.advance(100)
        await lab.kill()
        await going
        await lab.result(run)
        assert await Client(store).text(str(run)) == "attempt 1"

    on(cast("Store", faulty), moment, app, check)
