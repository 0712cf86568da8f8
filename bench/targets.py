"""What torpor must reach, and whether it did: each target against the rows of a measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cases import STORES, Case
from charts import spoken
from table import Found, median

if TYPE_CHECKING:
    from collections.abc import Callable

MILLION = 1_000_000
_NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


class Line(NamedTuple):
    """One row of the table: what, where, the target, what torpor reached, what the peers did, and whether it is kept."""

    what: str
    store: str
    target: str
    own: str
    peers: str
    kept: bool | None

    @property
    def cells(self) -> str:
        """Return it in Markdown."""
        kept = {True: "yes", False: "**no**", None: "-"}[self.kept]
        return f"| {self.what} | {self.store} | {self.target} | {self.own} | {self.peers} | {kept} |"


class Measured(NamedTuple):
    """The rows beside the peers, and those of torpor alone while something grew."""

    beside: Found
    growth: Found

    def own(self, case: Case, field: str) -> float | None:
        """Return torpor's median, wherever it was measured."""
        for found in (self.growth, self.beside):
            value = median(found.get(case, {}).get("torpor", []), field)
            if value is not None:
                return value
        return None

    def peers(self, case: Case, field: str) -> dict[str, float]:
        """Return the medians of the peers that have one."""
        by_name = self.beside.get(case, {})
        found = {name: median(rows, field) for name, rows in by_name.items() if name != "torpor"}
        return {name: value for name, value in found.items() if value is not None}


def _said(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {spoken(value)}" for name, value in sorted(values.items(), key=lambda one: one[1]))


def _times(seen: Measured, case: Case, field: str, wanted: dict[str, float]) -> Line | None:
    """At least so many times as much as these peers."""
    own, peers = seen.own(case, field), seen.peers(case, field)
    if own is None:
        return None
    ratios = {name: own / peers[name] for name in wanted if peers.get(name)}
    reached = ", ".join(f"{ratio:.1f} x {name}" for name, ratio in ratios.items())
    kept = all(ratios[name] >= wanted[name] for name in ratios) if ratios else None
    target = ", ".join(f">= {times:g} x {name}" for name, times in wanted.items())
    return Line("W1 steps a second", _NAMES[case.store], target, f"{spoken(own)} ({reached})", _said(peers), kept)


def _share(seen: Measured, case: Case, field: str, most: float) -> Line | None:
    """At most such a share of the best peer."""
    own, peers = seen.own(case, field), seen.peers(case, field)
    if own is None:
        return None
    best = min(peers.values(), default=None)
    kept = None if best is None else own <= most * best
    share = "" if best is None else f" ({own / best:.2f} x)"
    words = "W4 ms from step to step, p50"
    return Line(words, _NAMES[case.store], f"<= {most:g} x the best peer", f"{own:.3g}{share}", _said(peers), kept)


def _most(
    what: str, target: str, case: Case, field: str, most: float, *, beside: Case | None = None
) -> Callable[[Measured], Line | None]:
    """Return what says: at most so much. `beside` is the case in which the peers were measured."""

    def line(seen: Measured) -> Line | None:
        own = seen.own(case, field)
        if own is None:
            return None
        peers = seen.peers(beside or case, field)
        return Line(what, _NAMES.get(case.store, ""), target, spoken(own), _said(peers), own <= most)

    return line


def _grows(what: str, small: Case, large: Case, field: str, most: float) -> Callable[[Measured], Line | None]:
    """Return what says: at the large size at most so many times what it is at the small one."""

    def line(seen: Measured) -> Line | None:
        before, after = seen.own(small, field), seen.own(large, field)
        if not before or after is None:
            return None
        own = f"{after / before:.2f} x ({spoken(before)}, {spoken(after)})"
        store = _NAMES[small.store]
        return Line(
            what, store, f"<= {most:g} x from {small.size:,} to {large.size:,}", own, "", after / before <= most
        )

    return line


def _memory(store: str) -> Callable[[Measured], Line | None]:
    def line(seen: Measured) -> Line | None:
        case = Case("w2", store, MILLION)
        before, after = seen.own(case, "rss0_mb"), seen.own(case, "rss_parked_mb")
        if before is None or after is None:
            return None
        thousand = Case("w2", store, 1000)
        full, empty = seen.peers(thousand, "rss_parked_mb"), seen.peers(thousand, "rss0_mb")
        grown = {name: full[name] - empty[name] for name in full if name in empty}
        own = f"{after - before:+.1f} ({before:g}, {after:g})"
        words = "W2 MiB a worker grows by for parked runs, 1,000,000 (peers: 1,000)"
        return Line(words, _NAMES[store], "0", own, _said(grown), after - before < 1)

    return line


def _wanted() -> list[Callable[[Measured], Line | None]]:
    found: list[Callable[[Measured], Line | None]] = [
        lambda seen: _times(seen, Case("w1", "postgres"), "steps_s", {"restate": 8, "dbos": 25}),
        lambda seen: _times(seen, Case("w1", "sqlite"), "steps_s", {"langgraph": 30}),
        lambda seen: _share(seen, Case("w4", "postgres"), "p50_ms", 0.6),
        lambda seen: _share(seen, Case("w4", "sqlite"), "p50_ms", 0.25),
    ]
    for store in STORES:
        thousand, million = Case("w2", store, 1000), Case("w2", store, MILLION)
        few, many = Case("w3", store, 100), Case("w3", store, 100_000)
        w2 = "1,000,000 parked (peers: 1,000)"
        found += [
            _most(f"W2 wake ms p50, {w2}", "<= 3", million, "p50_ms", 3, beside=thousand),
            _most(f"W2 wake ms p99, {w2}", "<= 12", million, "p99_ms", 12, beside=thousand),
            _grows("W2 wake ms p99", thousand, million, "p99_ms", 1.3),
            _most("W2 wake by time, ms late p50, 1,000,000 parked", "-", million, "timer_p50_ms", float("inf")),
            _most(f"W2 bytes per run, {w2}", "<= 800", million, "store_bytes_per_parked", 800, beside=thousand),
            _memory(store),
            _most("W2 claim ms p50, 1,000,000 asleep", "<= 1", million, "claim_p50_ms", 1),
            _most("W3 s from loaded to the first new step, history 100", "<= 0.06", few, "launch_to_step_s", 0.06),
            _most("W3 the same, history 5,000", "<= 0.06", Case("w3", store, 5000), "launch_to_step_s", 0.06),
            _most("W3 the same, history 100,000", "<= 0.06", many, "launch_to_step_s", 0.06),
            _grows("W3 the same", few, many, "launch_to_step_s", 1.2),
            _grows(
                "W4 ms from step to step, in one run", Case("w4", store, 100), Case("w4", store, 100_000), "p50_ms", 1.2
            ),
            _most(
                "W5 ms until a killed worker's run is taken over", "<= 1,000", Case("w5", store), "takeover_ms", 1000
            ),
            _most("W5 times an effect that is not repeatable ran", "1", Case("w5", store), "effect_executions", 1),
            _most("W6 another's claim, ms p99, 100,000 due at once", "<= 20", Case("w6", store, 100_000), "p99_ms", 20),
            _most(
                "Bytes stored for 300 steps of 1 KB, times the payload",
                "<= 2",
                Case("bytes", store),
                "times_payload",
                2,
            ),
            _most("Idle worker, MiB", "<= 50", Case("idle", store), "rss_mb", 50),
        ]
    found.append(_most("Import, ms over bare Python", "<= 80", Case("import"), "import_ms", 80))
    return found


def lines(seen: Measured) -> list[Line]:
    """Return a line for each target that was measured."""
    return [line for one in _wanted() if (line := one(seen)) is not None]
