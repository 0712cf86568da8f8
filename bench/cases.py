"""What is measured: which workload, on which store, at which size, and by whom."""

from __future__ import annotations

from typing import Any, NamedTuple

STORES = ("sqlite", "postgres")
MOST_FOR_SLOW = 1000
Row = dict[str, Any]


class Figure(NamedTuple):
    """The field of a row that is compared, how it is called, and whether more of it is better."""

    field: str
    words: str
    more: bool = False


FIGURES = {
    "floor": Figure("batched_steps_s", "steps a second, batches of 500", more=True),
    "w1": Figure("steps_s", "steps a second", more=True),
    "w2": Figure("p50_ms", "ms from signal to step, p50"),
    "w3": Figure("launch_to_step_s", "s from loaded to the first new step"),
    "w4": Figure("p50_ms", "ms from step to step, p50"),
    "w5": Figure("effect_executions", "times the effect acted"),
    "w6": Figure("p99_ms", "ms of another's claim, p99"),
    "bytes": Figure("times_payload", "bytes stored for each byte of payload"),
    "import": Figure("import_ms", "ms to import, over bare Python"),
    "idle": Figure("rss_mb", "MiB of an idle worker"),
}


class Case(NamedTuple):
    """One thing to be measured. `size` is what grows: runs parked, steps of history, steps in a run; 0: the usual one."""

    workload: str
    store: str = ""
    size: int = 0
    repeated: bool = True
    """Whether it is measured in every round, or in the first alone: what takes long and hardly varies."""
    alone: bool = False
    """Whether torpor is measured by itself."""

    @property
    def words(self) -> str:
        """Its name in tables."""
        return " ".join(word for word in (self.workload, self.store, f"{self.size:,}" if self.size else "") if word)


class Peer(NamedTuple):
    """A system that is measured in turn with torpor. One with a store of its own stands beside PostgreSQL."""

    name: str
    stores: tuple[str, ...]
    own_store: bool = False
    imports: str = ""
    slow: bool = False
    """It is so slow here that it gets a tenth of the runs, steps and parked runs, and no long history."""

    def takes_part(self, case: Case) -> bool:
        """Whether it is measured in a case."""
        if case.alone or case.workload in {"floor", "bytes", "w6"}:
            return False
        if self.slow and case.workload == "w3" and case.size > MOST_FOR_SLOW:
            return False
        return case.workload == "import" or case.store in self.stores


PEERS = (
    Peer("dbos", ("sqlite", "postgres"), imports="from dbos import DBOS"),
    Peer("langgraph", ("sqlite", "postgres"), imports="from langgraph.graph import StateGraph"),
    Peer("absurd", ("postgres",), imports="from absurd_sdk import Absurd"),
    Peer("restate", ("postgres",), own_store=True, imports="import restate"),
    Peer(
        "temporal",
        ("postgres",),
        own_store=True,
        imports="from temporalio import workflow, activity; from temporalio.worker import Worker",
        slow=True,
    ),
)


def beside_peers() -> list[Case]:
    """Return what `make bench` measures, in order."""
    found = [Case("import", repeated=False)]
    for store in STORES:
        found += [Case("idle", store, repeated=False)]
        found += [Case("floor", store), Case("w1", store), Case("w4", store), Case("w2", store, 1000)]
        found += [Case("w3", store, 100, repeated=False), Case("w3", store, 5000, repeated=False)]
        found += [Case("w5", store, repeated=False), Case("bytes", store, repeated=False, alone=True)]
    return found


def quick() -> list[Case]:
    """Return what `make bench-quick` measures."""
    found = [Case("import", alone=True)]
    for store in STORES:
        found += [Case("floor", store, alone=True), Case("w1", store, alone=True), Case("w4", store, alone=True)]
        found += [Case("w2", store, 1000, repeated=False, alone=True), Case("w3", store, 1000, alone=True)]
        found += [Case("w5", store, repeated=False, alone=True), Case("bytes", store, repeated=False, alone=True)]
    return found


def growth() -> list[Case]:
    """Return what `make bench-growth` measures: the same figures while something grows by powers of ten."""
    found = []
    for store in STORES:
        found += [Case("w2", store, parked, alone=True) for parked in (1_000, 10_000, 100_000, 1_000_000)]
        found += [Case("w3", store, history, alone=True) for history in (100, 1_000, 10_000, 100_000)]
        found += [Case("w4", store, steps, alone=True) for steps in (100, 1_000, 10_000, 100_000)]
        found += [Case("w1", store, steps, alone=True) for steps in (100, 1_000, 10_000)]
        found += [Case("w6", store, 100_000, alone=True)]
    return found
