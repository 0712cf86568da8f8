"""What is agreed between the demo and its workers: the name, the work, where things lie. It loads no model library."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from torpor.testing.mortal import Place

NAME = "maintenance"
PROMPT = (
    "Users report that the last page is missing: page_count(10, 3) says 3. Find the commit that broke it, mend it, "
    "and add a test and a line in the changelog."
)


@dataclass(frozen=True, slots=True)
class Errand:
    """What a worker is told. `folder` holds the repository and the count of requests; it takes only runs with its `tag`.

    `model` is a name for pydantic-ai, or empty for the tape. The rest says where it dies: `deaths.Death`.
    """

    who: str
    url: str
    folder: str
    tag: str
    lease_seconds: float
    model: str = ""
    place: str = Place.UNDISTURBED.value
    point: int = 0
    what: str = ""
    freeze: bool = False

    @property
    def repository(self) -> Path:
        """Where the agent works."""
        return Path(self.folder) / "repository"

    @property
    def asked(self) -> Path:
        """Where the model's requests are counted."""
        return Path(self.folder) / "asked.jsonl"

    @property
    def log(self) -> Path:
        """Where this worker's log lines go, and its MCP server's."""
        return Path(self.folder) / f"{self.who}.log"


@dataclass(frozen=True, slots=True)
class Request:
    """A request that a model was sent: its digest, how many messages it had, and by which process."""

    digest: str
    messages: int
    pid: int


def requests(place: Path) -> list[Request]:
    """Return every request that was counted in a file, in order."""
    if not place.exists():
        return []
    return [Request(**json.loads(line)) for line in place.read_text("ascii").splitlines()]
