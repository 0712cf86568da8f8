"""How a worker makes itself known: its row, the schedules of the app it serves, and how long its runs are kept."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.clock import micros
from torpor.engine import retention, runs, schedules
from torpor.errors import UsageError
from torpor.sdk.keeping import LAYERS
from torpor.store import values
from torpor.store.history_rows import RetentionRow
from torpor.store.life import host_identity
from torpor.store.rows import NewWorker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import timedelta

    from torpor.sdk.app import Flow
    from torpor.sdk.schedules import Schedule
    from torpor.store.protocol import Store, Tx


class Served(NamedTuple):
    """What a worker takes: a flow, a version of its states, and the tag its runs were started with, or none."""

    flow: Flow
    version: int
    tag: str


def serve(tx: Tx, flows: Mapping[str, Flow], tags: Sequence[str], alive: frozenset[int]) -> dict[int, Served]:
    """Make an app's programs known under each tag; return what their numbers stand for. Raises Conflict (`runs.register`)."""
    retention.declare(tx, [kept_of(flow) for flow in flows.values()])
    found: dict[int, Served] = {}
    for tag in tags:
        served = [Served(flow, version, tag) for flow in flows.values() for version in flow.versions]
        named = [(one.flow.name, one.version, one.flow.source) for one in served]
        found.update(zip(runs.register(tx, named, alive=alive, tag=tag), served, strict=True))
    return found


def enrol(tx: Tx, name: str, life: str, numbers: list[int]) -> tuple[int, int, str]:
    """Write a worker's row; return its number, the store's time, and the key with which tokens are made."""
    row = NewWorker(name, host_identity(), os.getpid(), life, json.dumps(numbers))
    return tx.put_worker(row), tx.now(), tx.get_meta("token_key") or ""


async def make_known(store: Store, declared: Mapping[str, tuple[Flow, Schedule]], log: Any) -> None:
    """Register an app's schedules, and say what that changed. Raises UsageError for an input that does not fit its flow."""
    if not declared:
        return
    wanted = [_definition(name, flow, one) for name, (flow, one) in declared.items()]
    for done in await store.transact(schedules.register, wanted):
        if done.outcome != "unchanged":
            log.info("schedule registered", schedule=done.name, outcome=done.outcome, what=", ".join(done.what))


def _definition(name: str, flow: Flow, one: Schedule) -> schedules.Definition:
    body = values.encode(one.input, path=f"schedule {name}: input")
    if flow.takes_state and flow.state_type is not None:
        try:
            values.decode(body, hint=flow.state_type)
        except UsageError as error:
            raise UsageError(f"schedule {name}: {error.message}", hint=f"{flow.source} says what it takes") from error
    return schedules.Definition(name, flow.name, one.rule, body, one.tenant, one.priority)


def kept_of(flow: Flow) -> RetentionRow:
    """Return a flow's retention; one that says nothing keeps everything."""
    said = flow.retain
    if said is None:
        return RetentionRow(flow.name)
    return RetentionRow(flow.name, **{layer: _micros(getattr(said, layer)) for layer in LAYERS})


def _micros(given: timedelta | None) -> int | None:
    return None if given is None else micros(given.total_seconds())


def warn(flows: Iterable[Flow], log: Any) -> None:
    """Say what nothing is declared of in what a worker begins to serve."""
    for flow in flows:
        if flow.warns is not None and (said := flow.warns()):
            event = f"{flow.name}: {said}"
            log.warning(event, flow=flow.name)
