-- Tags, lines (concurrency keys), deadlines, why a run was cancelled, and what is to be undone then.

-- A program is a name, a version and a tag: runs with a tag are taken only by workers that have it, and a claim stays a
-- list of numbers. SQLite cannot change a constraint, so the table is written anew.
CREATE TABLE programs_tagged (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, version INTEGER NOT NULL, source TEXT NOT NULL,
    tag TEXT NOT NULL DEFAULT '', UNIQUE (name, version, tag)
);
INSERT INTO programs_tagged (id, name, version, source) SELECT id, name, version, source FROM programs;
DROP TABLE programs;
ALTER TABLE programs_tagged RENAME TO programs;

-- Lines: of the runs of one line at most `places` hold a place at once. `stirred`: a place may be free and somebody may
-- wait for it, so the waker looks. A line's row is its lock, taken after the rows of runs.
CREATE TABLE lines (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, places INTEGER NOT NULL, stirred INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX lines_stirred ON lines (id) WHERE stirred = 1;

-- Runs of a line, from their start to their end. held: 0 waits for a place, 1 has one, 2 is not due yet.
CREATE TABLE places (
    run_id INTEGER PRIMARY KEY, line INTEGER NOT NULL, prio INTEGER NOT NULL, held INTEGER NOT NULL
);
CREATE INDEX places_queue ON places (line, prio, run_id) WHERE held = 0;
CREATE INDEX places_held ON places (line) WHERE held = 1;

-- Runs that are to be cancelled at a moment unless they ended before. A row whose run ended is removed when it is due.
CREATE TABLE deadlines (run_id INTEGER PRIMARY KEY, due_at INTEGER NOT NULL);
CREATE INDEX deadlines_due ON deadlines (due_at);

-- Why runs were cancelled, for those where somebody said it.
CREATE TABLE cancels (run_id INTEGER PRIMARY KEY, at INTEGER NOT NULL, reason TEXT NOT NULL);

-- What is to be done if a run is cancelled, newest first. n is the entry that registered it, ref the name it is taken
-- back by.
CREATE TABLE compensations (
    run_id INTEGER NOT NULL, n INTEGER NOT NULL, ref TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (run_id, n)
) WITHOUT ROWID;
