"""Medians of measured rows, and a table of them in Markdown."""

from __future__ import annotations

import statistics
from collections import defaultdict

from cases import FIGURES, Case, Row

Found = dict[Case, dict[str, list[Row]]]
"""Rows by case, then by who was measured."""


def by_case(rows: list[Row]) -> Found:
    """Return rows in the order of their cases."""
    found: Found = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[Case(row["workload"], row["store"], row["size"])][row["who"]].append(row)
    return found


def numbers(rows: list[Row], field: str) -> list[float]:
    """Return a field of each row that has it; of a list the greatest."""
    values = [row[field] for row in rows if row.get(field) is not None]
    return [float(max(value)) if isinstance(value, list) else float(value) for value in values]


def median(rows: list[Row], field: str) -> float | None:
    """Return the median of a field, None if no row has it."""
    values = numbers(rows, field)
    return statistics.median(values) if values else None


def table(rows: list[Row]) -> str:
    """Return a table in Markdown: medians, spread, the ratio to torpor, load and disk."""
    lines = ["| Workload | Who | Figure | Median | Least .. most | torpor : this | Load | fdatasync ms |"]
    lines.append("|---|---|---|---:|---|---:|---|---|")
    for case, by_name in by_case(rows).items():
        figure = FIGURES[case.workload]
        own = median(by_name.get("torpor", []), figure.field)
        for name, some in by_name.items():
            middle = median(some, figure.field)
            if middle is None:
                lines.append(
                    f"| {case.words} | {name} | {figure.words} | failed: {some[-1].get('error', '?')} | | | | |"
                )
                continue
            values = numbers(some, figure.field)
            ratio = f"{own / middle:.3g}" if own is not None and name != "torpor" and middle else ""
            spread = f"{min(values):g} .. {max(values):g}" if len(values) > 1 else ""
            loads, disk = numbers(some, "load1"), median(some, "fdatasync_p50_ms")
            under = f"{min(loads):g} - {max(loads):g} | {disk:g}" if loads and disk is not None else "|"
            lines.append(f"| {case.words} | {name} | {figure.words} | {middle:g} | {spread} | {ratio} | {under} |")
    return "\n".join(lines)
