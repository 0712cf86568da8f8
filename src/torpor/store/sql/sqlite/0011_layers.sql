-- How long the parts of a program's streams and the slots of its schedules are kept, in microseconds; NULL: for ever.
ALTER TABLE retention ADD COLUMN stream INTEGER;
ALTER TABLE retention ADD COLUMN slots INTEGER;

-- Up to which part a run's stream was pruned, when, and why. A stream's counter (streams.n) never goes back.
CREATE TABLE stream_prunes (run_id INTEGER PRIMARY KEY, upto INTEGER NOT NULL, at INTEGER NOT NULL, why TEXT NOT NULL);
