"""docs/rouse.md says of each detector what its docstring says."""

from __future__ import annotations

from pathlib import Path

from torpor.rouse.detectors.outside import explain

PAGE = Path(__file__).parents[2] / "docs" / "rouse.md"


def test_the_table_of_detectors_is_theirs() -> None:
    """Row by row, best first."""
    rows = [
        f"| {about.name} | {' | '.join(text.rstrip('.') for text in about.paragraphs.values())} |"
        for about in explain()
    ]
    assert "\n".join(rows) in PAGE.read_text(encoding="utf-8")
