"""Runs whose version or tag no living worker serves, although one serves the same program otherwise (G13)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torpor.store.rows import ProgramRow, WorkerRow


class Stranded(NamedTuple):
    """Why nobody takes a run up, and the ways out."""

    text: str
    hint: str


def stranded(
    run: str, program: ProgramRow, programs: Mapping[int, ProgramRow], living: Sequence[WorkerRow]
) -> Stranded | None:
    """Return what is said of a run of `program`; None if it is served, or no worker that lives knows the program."""
    others: list[tuple[int, str]] = []
    tagged = False
    for row in living:
        served = json.loads(row.programs)
        if program.id in served:
            return None
        known = [programs[number] for number in served if number in programs]
        others += [(other.version, row.name) for other in known if other.name == program.name]
        tagged = tagged or any((other.name, other.tag) == (program.name, program.tag) for other in known)
    if not others:
        return None
    version, worker = max(others)
    if program.tag and not tagged:
        text = f'{run} was started for workers with the tag "{program.tag}"; {worker} serves {program.name} without it'
        return Stranded(text, f"torpor worker APP.py --tag {program.tag}")
    text = f"{run} is version {program.version}; {worker} serves {program.name} version {version}"
    old = f"a worker with the code of version {program.version}"
    if version < program.version:
        return Stranded(text, old)
    return Stranded(text, f'app.upcast({program.version}, fn, flow="{program.name}") in the new code, or {old}')
