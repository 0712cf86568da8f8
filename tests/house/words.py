"""The words of torpor, for the tests that keep them: docs/glossary.md defines each, source and tests use no other."""

from __future__ import annotations

WORDS = (
    "program",
    "run",
    "turn",
    "step",
    "effect",
    "safety",
    "intent",
    "outcome",
    "journal",
    "entry",
    "head",
    "checkpoint",
    "replay",
    "diverged",
    "worker",
    "executor",
    "waker",
    "claim",
    "lease",
    "epoch",
    "token",
    "fence",
    "stretch",
    "takeover",
    "wait",
    "signal",
    "schedule",
    "slot",
    "suspend",
    "wake",
    "resume",
    "hint",
    "attention",
    "incarnation",
    "branch",
    "gate",
    "era",
    "rousal",
    "life lock",
    "transcript",
    "window",
    "watchdog",
)
"""Every word that has one meaning here and is in use. A later word comes with the code that needs it."""

BANNED_PARTS = frozenset(
    {
        "job",
        "jobs",
        "task",
        "tasks",
        "workflow",
        "workflows",
        "session",
        "sessions",
        "manager",
        "managers",
        "helper",
        "helpers",
        "util",
        "utils",
        "services",
    }
)
"""Banned wherever they stand in a name: `run_task`, `TaskTable`."""

BANNED_NAMES = frozenset({"handle", "handles", "data", "info", "common", "base"})
"""Banned as a whole name; as a part they may be needed to say something (`base_seconds`, `exc_info`)."""

ASYNCIO_OWN = frozenset({"task", "tasks", "handle", "handles"})
"""asyncio has these things. A module that imports asyncio may name them."""

FORCED = {
    "info": "the name of a log level everywhere: ctx.log.info",
    "pytest_sessionstart": "the name of a hook of pytest",
    "pytest_sessionfinish": "the name of a hook of pytest",
}
"""Names that somebody else's interface forces upon a file."""
