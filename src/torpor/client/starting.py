"""Starting runs, and ending them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torpor.client.connected import Connected
from torpor.clock import as_micros
from torpor.engine import runs
from torpor.engine.decisions import find_run
from torpor.engine.large import put_aside
from torpor.errors import UsageError
from torpor.store import values

if TYPE_CHECKING:
    from datetime import datetime

    from torpor.engine.runs import Cancelled
    from torpor.store.protocol import Tx


class Started(NamedTuple):
    """A run that was started. `created` is False when its key had been used: this is the run that was started then."""

    run_id: str
    created: bool


class Starting(Connected):
    """Start and cancel."""

    async def start(
        self,
        program: str,
        input: Any = None,  # noqa: A002 - the word that authors use
        *,
        key: str | None = None,
        tenant: str = "default",
        priority: int = 0,
        at: datetime | None = None,
    ) -> Started:
        """Start a run of a program that a worker has made known; with `at` (an aware datetime) not before then.

        The same `key` of the same program finds the same run, however often it is said. A lower `priority` number goes
        first. Raises UsageError for an unknown program, UnstorableValue for an input that would not come back.
        """
        if key is not None and key.startswith("~"):
            raise UsageError(f"key={key!r}: keys that begin with ~ are torpor's own", hint="any other first letter")
        body, blob = put_aside(values.encode(input, path="input"))
        wanted = runs.Start(program, body, key, tenant, priority, None if at is None else _moment(at), blob)
        done = (await self.store.transact(runs.start, [wanted]))[0]
        return Started(done.name, done.created)

    async def cancel(self, run: str) -> Cancelled:
        """Ask a run and its descendants to end as cancelled, the independent ones excepted; acknowledged means durable.

        Returns its state now, and how many descendants are being cancelled with it (G12).
        """
        return await self.store.transact(_cancel, run)


def _moment(at: datetime) -> int:
    try:
        return as_micros(at)
    except ValueError as error:
        raise UsageError(f"at={at!r} has no time zone", hint="datetime(..., tzinfo=UTC)") from error


def _cancel(tx: Tx, run: str) -> Cancelled:
    return runs.cancel(tx, find_run(tx, run)[0].id)
