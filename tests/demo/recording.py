"""What the tape of the agent's demo was recorded from: a model written by hand, because there was no key.

`python -m tests.demo.recording` records it anew, through the real MCP server, on a fresh repository; the test beside it
records it, too, and compares.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ToolReturnPart

from torpor.demo.agent import repository
from torpor.demo.agent.errand import NAME, PROMPT
from torpor.demo.agent.play import PERSON
from torpor.demo.agent.program import maintenance
from torpor.testing import Cassette, Lab, Script, call

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

TAPE = Path(repository.__file__).with_name("tape.jsonl")
NOTE = "Written by hand, as there was no key, and replayed as recorded: tests/demo/recording.py is the model."
MESSAGE = """\
Count the last page when it is not full

ea923b6 took the rounding up out of page_count, so 10 items in pages of
3 made 3 pages instead of 4."""
PLAN = (
    "Plan: find the commit that broke page_count, write a patch with a test and a line in the changelog, "
    "try it, have it approved, and commit it once."
)
PATCH = """\
--- a/pages.py
+++ b/pages.py
@@ -12,4 +12,4 @@
     \"""Return how many pages `total` items make.\"""
     if size < 1:
         raise ValueError(f"a page has at least one item, not {size}")
-    return total // size
+    return (total + size - 1) // size
--- a/test_pages.py
+++ b/test_pages.py
@@ -15,6 +15,8 @@
     def test_page_count(self):
         self.assertEqual(page_count(4, 2), 2)
         self.assertEqual(page_count(0, 2), 0)
+        self.assertEqual(page_count(10, 3), 4)
+        self.assertEqual(page_count(10, 3), len(pages(range(10), 3)))
 
     def test_no_size(self):
         self.assertRaises(ValueError, pages, [1], 0)
--- a/CHANGELOG.md
+++ b/CHANGELOG.md
@@ -1,5 +1,9 @@
 # Changelog
 
+## Unreleased
+
+- `page_count` counts the last page again when it is not full.
+
 ## 1.2.0
 
 - Simpler arithmetic.
"""  # noqa: W293 - a patch has a blank in front of an empty line


def report(messages: list[ModelMessage], _: Any) -> Any:
    """Report what became of the commit."""
    result = next(part for part in messages[-1].parts if isinstance(part, ToolReturnPart))
    cause = "ea923b6 (Simpler arithmetic in page_count) divides without rounding up."
    if result.outcome == "denied":
        words = ["It was denied, so I leave everything as it is.", "Nothing: the commit was denied."]
        return [words[0], call("final_result", cause=cause, mended=words[1], commit=None)]
    commit = str(result.content).split()[1].rstrip(":")
    mended = "page_count rounds up again; there is a test with a page that is not full, and a line in the changelog."
    return ["Committed. ", call("final_result", cause=cause, mended=mended, commit=commit)]


def model() -> Script:
    """Return the model."""
    here = {"repo_path": "."}
    return Script(
        [
            PLAN,
            call("git_log", **here, max_count=10),
            call("git_status", **here),
        ],
        [
            "The tests divide evenly only, so ea923b6 could break it unseen. I read that commit and the files.",
            call("git_show", **here, revision="ea923b6"),
            call("git_show", **here, revision="HEAD:pages.py"),
            call("git_show", **here, revision="HEAD:test_pages.py"),
            call("git_show", **here, revision="HEAD:CHANGELOG.md"),
        ],
        ["`total // size` drops a page that is not full. I try a patch.", call("check", patch=PATCH)],
        ["It holds. I propose to commit it.", call("commit", message=MESSAGE, patch=PATCH)],
        report,
        model="by-hand:maintainer",
    )


async def record(tape: Path, folder: Path) -> None:
    """Record a tape: the agent run twice to its end, approved once and denied once."""
    for number, approved in enumerate((True, False)):
        place = folder / str(number)
        await asyncio.to_thread(repository.make, place)
        app = maintenance(NAME, place, Cassette(tape, model(), note=NOTE), folder / "server.log")
        async with Lab(app) as lab:
            run = await lab.start(NAME, PROMPT)
            await lab.settle()
            await (lab.approve if approved else lab.deny)(by=PERSON)
            report = await lab.result(run)
        assert (report.commit is not None) == approved
        assert len(repository.commits(place)) == approved


def main() -> None:
    """Record the tape of the package anew."""
    TAPE.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(record(TAPE, Path(folder)))
    sys.stdout.write(f"{TAPE}: {len(TAPE.read_text().splitlines())} lines\n")


if __name__ == "__main__":
    main()
