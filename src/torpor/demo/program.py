"""The audit as an author of torpor writes it: steps that read, an effect that cannot be repeated, an approval, a report."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003 - the annotations of a stored state are read when it is decoded
from typing import TYPE_CHECKING, Any

from torpor import App, Context, EffectContext, Rows
from torpor.demo import asking
from torpor.demo.audit import READ_BYTES, Finding, measured, parsed, report, spoken, together

if TYPE_CHECKING:
    from collections.abc import Callable

    from torpor import Again

BATCH = 8
"""Files of one turn. What a takeover replays from the journal is at most one turn."""

app = App()

noticed: list[Callable[[str], None]] = []
"""Told when a step or effect really begins, as opposed to being replayed: for the demo's stop watch."""


@dataclass
class Audit:
    """The state of the run: what is left to do, and what was found."""

    title: str
    root: Path
    port: int
    """Where the counting service listens on this machine."""
    report: Path
    todo: list[Path]
    done: Rows[Finding] = field(default_factory=Rows)


@app.step
def measure(root: Path, name: Path) -> Finding:
    """Look at a file as text."""
    return _looked_at(root, name, "measure")


@app.step
def parse(root: Path, name: Path) -> Finding:
    """Look at a file as Python."""
    return _looked_at(root, name, "parse")


def _looked_at(root: Path, name: Path, step: str) -> Finding:
    _begins(step)
    try:
        with (root / name).open("rb") as file:
            content = file.read(READ_BYTES)
    except OSError as error:
        return Finding(spoken(name), trouble=error.strerror or type(error).__name__)
    return parsed(spoken(name), content) if step == "parse" else measured(spoken(name), content)


@app.effect(safety="once")
def publish(ctx: EffectContext, port: int, finding: Finding) -> int:
    """Tell the counting service, which counts everything it is told: doing it twice would be seen. Returns its receipt."""
    _begins("publish")
    return asking.publish(port, ctx.key, finding.name)


@app.step(retries=3)
def confirm(port: int, receipt: int) -> int:
    """Ask the service how often it counted what has this receipt."""
    _begins("confirm")
    return asking.confirm(port, receipt)


@app.effect(safety="keyed")
def write_report(ctx: EffectContext, path: Path, text: str) -> int:
    """Write the report; the same call writes the same file, so it may be done again. Returns its size in bytes."""
    _begins("write_report")
    unfinished = path.with_name(f".{path.name}.{ctx.key}")
    content = text.encode("utf-8", "backslashreplace")
    unfinished.write_bytes(content)
    os.replace(unfinished, path)  # noqa: PTH105 - the one call that replaces a file whole
    return len(content)


@app.flow
async def audit(ctx: Context, state: Audit) -> Again[Audit] | dict[str, Any]:
    """Audit a folder, a few files in a turn, and report once a person has approved."""
    if state.todo:
        for name in state.todo[:BATCH]:
            finding = await ctx.step(measure, state.root, name)
            if name.suffix == ".py":
                finding = together(finding, await ctx.step(parse, state.root, name))
            receipt = await ctx.effect(publish, state.port, finding)
            await ctx.step(confirm, state.port, receipt)
            state.done.append(finding)
        del state.todo[:BATCH]
        return ctx.again(state)
    findings = [finding async for finding in state.done]
    remarks = sum(finding.total for finding in findings)
    shown = {"report": str(state.report), "files": len(findings), "remarks": remarks}
    approved = await ctx.approval(f"Write the report on {len(findings)} files?", show=shown)
    if approved:
        await ctx.effect(write_report, state.report, report(state.title, findings))
    return {**shown, "written": bool(approved)}


def _begins(what: str) -> None:
    for tell in noticed:
        tell(what)
