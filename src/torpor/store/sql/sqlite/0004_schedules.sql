-- Schedules. due_at is when the next slot (next_at) starts a run: NULL while paused, or when there is none any more, so a
-- sweep reads only what can be due. revision grows with every change, so what was planned on an older row is not done (G8).
CREATE TABLE schedules (
    id INTEGER PRIMARY KEY, created_at INTEGER NOT NULL, changed_at INTEGER NOT NULL, since_at INTEGER NOT NULL,
    next_at INTEGER, due_at INTEGER, paused_at INTEGER, prio INTEGER NOT NULL DEFAULT 0,
    revision INTEGER NOT NULL DEFAULT 1, name TEXT NOT NULL UNIQUE, program TEXT NOT NULL, rule TEXT NOT NULL,
    tenant TEXT NOT NULL, paused_by TEXT, body BLOB NOT NULL
);
CREATE INDEX schedules_due ON schedules (due_at) WHERE due_at IS NOT NULL;

-- What became of each slot, once: fate 1 fired (run_id), 2 skipped, 3 coalesced, 4 failed to start. A row may stand for a
-- stretch of missed slots, slot_at to last_at, `many` of them. extra: asked for by a person, between the rule's slots.
CREATE TABLE slots (
    schedule INTEGER NOT NULL, slot_at INTEGER NOT NULL, last_at INTEGER NOT NULL, at INTEGER NOT NULL, run_id INTEGER,
    many INTEGER NOT NULL DEFAULT 1, fate INTEGER NOT NULL, extra INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL,
    PRIMARY KEY (schedule, slot_at)
) WITHOUT ROWID;
