-- Children, and what follows a run's end or its cancellation.

-- Runs whose end or cancellation others must learn of: children are cancelled, a parent is told. Written in the commit
-- that ends the run and by a cancel, always under the run's lock; drained by the waker in bounded batches. `after` is the
-- number of the last child that was seen to, so that a crash cuts nothing and a large family is walked once.
CREATE TABLE follow_ups (run_id bigint PRIMARY KEY, after bigint NOT NULL DEFAULT 0)
    WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Live children, for the cascade; all children, for people. Runs without a parent are in neither.
CREATE INDEX runs_children ON runs (parent, id) WHERE parent IS NOT NULL AND state < 4;
CREATE INDEX runs_family ON runs (parent, id) WHERE parent IS NOT NULL;

-- kind: 0 a signal for `target`; 1 and 2 a child to be started, `name` is its program, `body` its first state, `detail`
-- the key its parent gave it.
ALTER TABLE outbox ADD COLUMN kind smallint NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN detail text NOT NULL DEFAULT '';

-- A wait for several children: how many of them must still end, and their numbers, eight bytes each. Whoever tells the
-- parent of an end counts `need` down under its lock, and wakes it at zero: a hundred children wake it once (G20).
ALTER TABLE waits ADD COLUMN need integer NOT NULL DEFAULT 0;
ALTER TABLE waits ADD COLUMN members bytea;
