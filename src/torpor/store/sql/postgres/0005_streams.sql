-- A run's stream: the last number given out, the epoch that wrote last, and what is loose (core.stream): emitted by
-- attempts whose outcome is not recorded. A run without a lease has nothing loose.
CREATE TABLE streams (
    run_id bigint PRIMARY KEY, n integer NOT NULL, epoch integer NOT NULL, loose text NOT NULL
) WITH (fillfactor = 50);

-- What was emitted, numbered under the fence from 1 without a gap. Rows are added and never changed.
CREATE TABLE parts (
    run_id bigint NOT NULL, at bigint NOT NULL, n integer NOT NULL, kind smallint NOT NULL, body bytea NOT NULL,
    PRIMARY KEY (run_id, n)
);

-- What a run shows of itself now, overwritten in place.
CREATE TABLE views (run_id bigint PRIMARY KEY, at bigint NOT NULL, body bytea NOT NULL) WITH (fillfactor = 50);
