"""What importing torpor loads and costs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone

TORPOR = str(Path(sys.executable).with_name("torpor"))
LAZY = (
    "cronsim",
    "pydantic",
    "pydantic_settings",
    "psycopg",
    "sqlite3",
    "fastapi",
    "pydantic_ai",
    "rich",
    "typer",
    "obstore",
    "opentelemetry",
)
PAIRS = 15
FACE_SECONDS = 0.080
HELP_SECONDS = 0.200
BARE = [sys.executable, "-c", "pass"]
BARE_SECONDS = 0.012
"""What bare Python takes on the machine that the floors are meant for; where it takes longer, so may torpor."""


def run(command: list[str]) -> str:
    """Run a command that must succeed and return what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def python(code: str) -> str:
    """Run code in a fresh interpreter and return what it printed."""
    return run([sys.executable, "-c", code])


def seconds(command: list[str]) -> float:
    """Return how long a command takes, from its start to its end."""
    began = time.perf_counter()
    run(command)
    return time.perf_counter() - began


def test_importing_torpor_loads_nothing_heavy() -> None:
    """`import torpor` loads no database driver, no model library, no web framework and not even pydantic."""
    loaded = python("import sys, torpor; print(*sorted({name.split('.')[0] for name in sys.modules}))").split()
    assert "torpor" in loaded
    assert [name for name in LAZY if name in loaded] == []


def test_an_author_pays_for_no_library() -> None:
    """`from torpor import App, Context` loads neither pydantic nor a driver nor asyncio: they come with the first use."""
    loaded = python("import sys; from torpor import App, Context; print(*sys.modules)").split()
    assert "torpor.sdk.app" in loaded
    assert [name for name in ("asyncio", "pydantic", "psycopg", "fastapi", "pydantic_ai") if name in loaded] == []


def test_the_face_is_complete() -> None:
    """Every name that the public face promises can be imported, and `dir` shows it."""
    python(
        "import torpor; [getattr(torpor, name) for name in torpor.__all__]; assert set(torpor.__all__) <= set(dir(torpor))"
    )


def best(command: list[str]) -> tuple[float, float]:
    """Return the best of several paired runs of a command, and of bare Python; the best, for all else only adds."""
    seconds(command)  # writes the byte code
    pairs = [(seconds(command), seconds(BARE)) for _ in range(PAIRS)]
    return min(with_it for with_it, _ in pairs), min(without for _, without in pairs)


@pytest.mark.slow
def test_the_face_is_cheap() -> None:
    """`from torpor import App, Context` costs at most 80 ms over bare Python."""
    taken, bare = best([sys.executable, "-c", "from torpor import App, Context"])
    assert taken - bare <= FACE_SECONDS * max(1, bare / BARE_SECONDS), f"{(taken - bare) * 1000:.0f} ms, {bare=}"


@pytest.mark.slow
def test_help_is_fast() -> None:
    """`torpor --help` answers in under 0.2 s."""
    taken, bare = best([TORPOR, "--help"])
    assert taken < HELP_SECONDS * max(1, bare / BARE_SECONDS), f"{taken * 1000:.0f} ms, {bare=}"
