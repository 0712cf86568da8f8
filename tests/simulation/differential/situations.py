"""Where a run can stand when something happens to it: the second half of every (operation, situation) pair."""

from __future__ import annotations

from typing import Any

LATER, QUEUED, NEW, READY, DOOMED = "later", "queued", "new", "ready", "doomed"
RUNNING, CANCELLED, OVERDUE = "running", "running, cancelled", "overdue"
SLEEPING, LISTENING, ASKING, JOINING, UNDOING = "sleeping", "listening", "asking", "joining", "undoing"
COMPLETED, FAILED, ENDED_CANCELLED, GONE = "completed", "failed", "cancelled", "gone"
COPIED, TAKEN_OVER = "copied", "taken over"

SITUATIONS = {
    LATER: "waits for the moment of its start",
    QUEUED: "waits for a place in its line",
    NEW: "is ready and was never claimed",
    READY: "is ready again: woken, put back, taken from the dead, or retried",
    DOOMED: "is ready, and cancel was asked",
    RUNNING: "is leased",
    CANCELLED: "is leased, and cancel was asked",
    OVERDUE: "is leased, and its lease's time is over",
    SLEEPING: "waits for time, and for nothing else",
    LISTENING: "waits for a message, a callback or an event",
    ASKING: "waits for a person",
    JOINING: "waits for its children",
    UNDOING: "was cancelled and waits inside its compensations",
    COMPLETED: "has completed",
    FAILED: "has failed",
    ENDED_CANCELLED: "has ended as cancelled",
    GONE: "is not there: pruned, or never was",
}
"""Where a run can stand for everybody."""

HELD = {
    COPIED: "is leased as this worker believes, but a copy of it went on",
    TAKEN_OVER: "is leased anew since this worker claimed it",
}
"""Where it can stand besides for somebody who believes to hold it."""

_PEOPLE = frozenset({"approval", "attention", "question", "budget"})


def situation(run: dict[str, Any], now: int) -> str:
    """Return where a run of the model stands."""
    if run["state"] in {"completed", "failed", "cancelled"}:
        return {"completed": COMPLETED, "failed": FAILED, "cancelled": ENDED_CANCELLED}[run["state"]]
    if run["state"] == "running":
        return OVERDUE if run["lease"]["expires"] <= now else CANCELLED if "cancel" in run["flags"] else RUNNING
    if run["state"] == "ready":
        return DOOMED if "cancel" in run["flags"] else NEW if run["epoch"] == 0 else READY
    return _asleep(run)


def _asleep(run: dict[str, Any]) -> str:
    if "queued" in run["flags"]:
        return QUEUED
    if run["epoch"] == 0:
        return LATER
    if "cancel" in run["flags"]:
        return UNDOING
    kinds = {wait["kind"] for wait in run["waits"].values() if not wait["over"]}
    if kinds & _PEOPLE:
        return ASKING
    if kinds & {"child", "children"}:
        return JOINING
    return LISTENING if kinds & {"message", "callback", "event"} else SLEEPING
