-- Checkpoints that can be returned to, copies of runs, and how long things are kept.

-- The checkpoints whose state is still in their entry. No other entry touches this index.
CREATE INDEX journal_whole ON journal (run_id, seq) WHERE kind = 3 AND body IS NOT NULL;

-- Ended runs by the moment they ended: what a retention looks through. A step and a claim never touch it.
CREATE INDEX runs_ended ON runs (program, due_at, id) WHERE state >= 4;

-- What one run names: asked when it is pruned.
CREATE INDEX blob_runs_run ON blob_runs (run_id);
CREATE INDEX run_keys_run ON run_keys (run_id);
CREATE INDEX replies_run ON replies (run_id);

-- Where a fork came from: the run, the checkpoint, and who wanted it. The source may be gone.
CREATE TABLE forks (
    run_id INTEGER PRIMARY KEY, source INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, made_by TEXT NOT NULL,
    title TEXT NOT NULL
);
CREATE INDEX forks_source ON forks (source, run_id);

-- Elements of `Rows` fields that a rewind took out of sight; branch is the one that was left. They come back when a
-- later rewind goes to a checkpoint that had them.
CREATE TABLE cut_rows (
    run_id INTEGER NOT NULL, field TEXT NOT NULL, n INTEGER NOT NULL, branch INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (run_id, field, n, branch)
);

-- Up to which entry a run's journal was pruned, when, and why.
CREATE TABLE prunes (run_id INTEGER PRIMARY KEY, upto INTEGER NOT NULL, at INTEGER NOT NULL, why TEXT NOT NULL);

-- How long a program's layers are kept, in microseconds; NULL: for ever.
CREATE TABLE retention (
    program TEXT PRIMARY KEY, runs INTEGER, journal INTEGER, checkpoints INTEGER
) WITHOUT ROWID;
