-- torpor's tables, SQLite. Moments are microseconds since the epoch, UTC; bodies are encoded values.
-- What a sleeping run costs was measured at a million: it appears in no index that a claim reads.

-- Facts about the store: schema version, era, clock.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- A program is a name and a version; a run carries one small number for both.
CREATE TABLE programs (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, version INTEGER NOT NULL, source TEXT NOT NULL,
    UNIQUE (name, version)
);
CREATE TABLE tenants (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
INSERT INTO tenants (id, name) VALUES (1, 'default');

-- A run. state: 1 ready, 2 waiting, 3 running, 4 completed, 5 failed, 6 cancelled. `running` means exactly: there is a
-- lease, and head lies there. inbox counts what may wake the run, seen says how far it had looked when it was put away:
-- agreement between whoever wakes and whoever parks lives on this row (G7). A ready run's due_at is when it became ready.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, created_at INTEGER NOT NULL, due_at INTEGER, parent INTEGER,
    tenant INTEGER NOT NULL, program INTEGER NOT NULL, epoch INTEGER NOT NULL DEFAULT 0, head INTEGER NOT NULL DEFAULT 0,
    inbox INTEGER NOT NULL DEFAULT 0, seen INTEGER NOT NULL DEFAULT 0, branch INTEGER NOT NULL DEFAULT 0,
    state INTEGER NOT NULL, prio INTEGER NOT NULL DEFAULT 0, takeovers INTEGER NOT NULL DEFAULT 0,
    stalls INTEGER NOT NULL DEFAULT 0, flags INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX runs_ready ON runs (tenant, prio, due_at, id) WHERE state = 1;
CREATE INDEX runs_timer ON runs (due_at) WHERE state = 2 AND due_at IS NOT NULL;
CREATE INDEX runs_state ON runs (state, id);  -- for people: lists and counts

-- Runs that were started with a key: the same key finds the same run.
CREATE TABLE run_keys (digest BLOB PRIMARY KEY, run_id INTEGER NOT NULL) WITHOUT ROWID;

-- The current checkpoint, overwritten in place. seq 0 is the run's input.
CREATE TABLE states (
    run_id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, at INTEGER NOT NULL, turn INTEGER NOT NULL, body BLOB NOT NULL
);

-- One row per running run and for no other. Narrow, and no second index: it is updated with every step.
CREATE TABLE leases (
    run_id INTEGER PRIMARY KEY, expires_at INTEGER NOT NULL, token INTEGER NOT NULL, epoch INTEGER NOT NULL,
    head INTEGER NOT NULL, worker INTEGER NOT NULL, flags INTEGER NOT NULL DEFAULT 0
);

-- What a run did. Only the leaseholder appends; heads never go down. A rowid table with an index: without rowid a 1 KB
-- body took 4.6 times its size.
CREATE TABLE journal (
    run_id INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, epoch INTEGER NOT NULL, kind INTEGER NOT NULL,
    key TEXT, body BLOB, PRIMARY KEY (run_id, seq)
);

-- Open waits and the last ended one of each slot. seq is the entry that opened it, so an id never means another wait.
CREATE TABLE waits (
    run_id INTEGER NOT NULL, slot INTEGER NOT NULL, seq INTEGER NOT NULL, kind INTEGER NOT NULL, due_at INTEGER,
    answered_at INTEGER, title TEXT NOT NULL, answer BLOB, over INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (run_id, slot)
) WITHOUT ROWID;
CREATE INDEX waits_people ON waits (seq, run_id) WHERE over = 0 AND answered_at IS NULL AND kind IN (3, 4);

-- Unread signals; a consumed one with a key stays, empty, so that a repetition is known.
CREATE TABLE inbox (
    run_id INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, name TEXT NOT NULL, key TEXT, sender TEXT,
    body BLOB, PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX inbox_key ON inbox (run_id, key) WHERE key IS NOT NULL;

-- Messages to other runs, written in the sender's commit, delivered by the waker: no commit spans two runs.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run_id INTEGER NOT NULL, target INTEGER NOT NULL, name TEXT NOT NULL,
    key TEXT NOT NULL, body BLOB NOT NULL
);

-- Elements of append-only state fields; n is given out under the fence.
CREATE TABLE rows (
    run_id INTEGER NOT NULL, field TEXT NOT NULL, n INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (run_id, field, n)
);

-- Large bodies by digest, packed, stored once; blob_runs says who names them.
CREATE TABLE blobs (digest BLOB PRIMARY KEY, at INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE blob_runs (digest BLOB NOT NULL, run_id INTEGER NOT NULL, PRIMARY KEY (digest, run_id)) WITHOUT ROWID;
CREATE INDEX blobs_at ON blobs (at);

-- Worker processes; life names the lock that proves one is alive.
CREATE TABLE workers (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, life TEXT NOT NULL,
    started_at INTEGER NOT NULL, seen_at INTEGER NOT NULL, programs TEXT NOT NULL
);
