"""The lab, once for all its tests."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab.kept import Kept
from tests.lab.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIGURES = "TORPOR_LAB_FIGURES"
"""Names a file that gets what the tests measure, one JSON object a line."""


@pytest.fixture(scope="session")
def lab_of_all(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Return the lab; the first time on a machine it makes its guest, which takes two minutes, and says so."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", end="", flush=True)  # noqa: T201 - progress of something slow

    return Lab(Kept(say=say), tmp_path_factory.mktemp("machines"))


@pytest.fixture(scope="module")
def lab(lab_of_all: Lab) -> Iterator[Lab]:
    """Return the lab; its machines end with the file that woke them, and the RAM of those that sleep is given back."""
    yield lab_of_all
    lab_of_all.close()


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str, object], None]:
    """Return a function that keeps a measured figure: `figure("hung read, seconds", 5.0)`."""

    def keep(name: str, value: object) -> None:
        place = os.environ.get(FIGURES)
        if place:
            with Path(place).open("a") as opened:
                opened.write(json.dumps({"test": request.node.name, "figure": name, "value": value}) + "\n")

    return keep
