-- A run's stream: the last number given out, the epoch that wrote last, and what is loose (core.stream): emitted by
-- attempts whose outcome is not recorded. A run without a lease has nothing loose.
CREATE TABLE streams (run_id INTEGER PRIMARY KEY, n INTEGER NOT NULL, epoch INTEGER NOT NULL, loose TEXT NOT NULL);

-- What was emitted, numbered under the fence from 1 without a gap. Rows are added and never changed.
CREATE TABLE parts (
    run_id INTEGER NOT NULL, n INTEGER NOT NULL, at INTEGER NOT NULL, kind INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (run_id, n)
);

-- What a run shows of itself now, overwritten in place.
CREATE TABLE views (run_id INTEGER PRIMARY KEY, at INTEGER NOT NULL, body BLOB NOT NULL);
