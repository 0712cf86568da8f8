"""docs/rouse.md says of each detector what its docstring says, and its programs for other frameworks work."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import sqlalchemy
import starlette.applications

from tests.house.test_docs import blocks
from torpor import rouse
from torpor.rouse.detectors.outside import explain

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

PAGE = Path(__file__).parents[2] / "docs" / "rouse.md"


def test_the_table_of_detectors_is_theirs() -> None:
    """Row by row, best first."""
    rows = [
        f"| {about.name} | {' | '.join(text.rstrip('.') for text in about.paragraphs.values())} |"
        for about in explain()
    ]
    assert "\n".join(rows) in PAGE.read_text(encoding="utf-8")


def block(words: str) -> str:
    """Return the page's one block with these words."""
    [found] = [each.text for each in blocks(PAGE) if words in each.text]
    return found


def stood_in(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    """Put a module in the place of a library that is not installed."""
    root = name.partition(".")[0]
    known = sys.modules.get(root)
    if (known is not None and known.__spec__ is None) or importlib.util.find_spec(root) is None:
        made = ModuleType(name)
        vars(made).update(content)
        monkeypatch.setitem(sys.modules, name, made)


def slept() -> None:
    """Tell of an hour."""
    life = rouse.incarnation()
    rouse.process_registry.tell(rouse.Rousal(rouse.Kind.SLEPT, 3600.0, ("by hand",), life, life, noticed_at=0))


def test_fastapi(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the application lives its pool is left after a rousal; FastAPI's lifespan is Starlette's."""
    stood_in(monkeypatch, "fastapi", FastAPI=starlette.applications.Starlette)
    engine = sqlalchemy.create_engine("sqlite://")
    names: dict[str, Any] = {"engine": engine}
    exec(block("from fastapi import FastAPI"), names)  # noqa: S102 - the page is ours

    async def live() -> None:
        async with names["app"].router.lifespan_context(names["app"]):
            before = engine.pool
            slept()
            assert engine.pool is not before
        before = engine.pool
        slept()
        assert engine.pool is before

    asyncio.run(live())
    engine.dispose()


def test_celery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each child watches from its start to its end."""
    called: dict[str, Callable[[], None]] = {}

    class Signal:
        """As Celery has them."""

        def __init__(self, name: str) -> None:
            """Know it by its name."""
            self.name = name

        def connect(self, callback: Callable[[], None]) -> Callable[[], None]:
            """Call it at the signal."""
            called[self.name] = callback
            return callback

    names = ("worker_process_init", "worker_process_shutdown")
    stood_in(monkeypatch, "celery", signals=None)
    stood_in(monkeypatch, "celery.signals", **{name: Signal(name) for name in names})
    written: dict[str, Any] = {}
    exec(block("worker_process_init.connect"), written)  # noqa: S102 - the page is ours
    written["begin"]()
    watching = rouse.watch()
    assert watching._thread is not None  # noqa: SLF001 - whether it ticks
    assert watching._thread.is_alive()  # noqa: SLF001 - as above
    written["end"]()
    assert not watching._thread.is_alive()  # noqa: SLF001 - as above
