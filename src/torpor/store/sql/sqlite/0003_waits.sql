-- What a run waits for beside time, messages and approvals.

-- matches: of an event's wait, one number for the event's name or for its name and one field (core/event.py). A wait that
-- got its event has answered_at and leaves the index; what answers it lies in the inbox, as every signal.
ALTER TABLE waits ADD COLUMN matches INTEGER;
CREATE INDEX waits_events ON waits (matches, run_id) WHERE kind = 8 AND over = 0 AND answered_at IS NULL;
DROP INDEX waits_people;
CREATE INDEX waits_people ON waits (seq, run_id) WHERE over = 0 AND answered_at IS NULL AND kind IN (3, 4, 6, 12);

-- Events, kept until expires_at for waits that come later. reached: the highest run that the fan-out came to, NULL once it
-- is through. taken counts the runs that got it; one that expired with none stays for a while without its body, to be seen.
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, expires_at INTEGER NOT NULL, reached INTEGER,
    taken INTEGER NOT NULL DEFAULT 0, name TEXT NOT NULL, key TEXT, body BLOB
);
CREATE UNIQUE INDEX events_key ON events (name, key) WHERE key IS NOT NULL;
CREATE INDEX events_going ON events (id) WHERE reached IS NOT NULL;
CREATE INDEX events_kept ON events (expires_at) WHERE body IS NOT NULL;
CREATE INDEX events_over ON events (expires_at) WHERE body IS NULL;

-- Every match an event can have: how a wait that is registered later finds it.
CREATE TABLE event_matches (matches INTEGER NOT NULL, event INTEGER NOT NULL, PRIMARY KEY (matches, event)) WITHOUT ROWID;
CREATE INDEX event_matches_of ON event_matches (event);

-- Answers to clients that asked a run something; the key is the asker's, so asking again finds the same answer.
CREATE TABLE replies (key TEXT PRIMARY KEY, run_id INTEGER NOT NULL, at INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX replies_at ON replies (at);

-- Decisions of people that came when somebody had been first: who wanted what, about the wait that entry seq opened.
CREATE TABLE too_late (run_id INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, said TEXT NOT NULL);
CREATE INDEX too_late_of ON too_late (run_id, at);

-- With this key the tokens of callbacks are made: a token is stored nowhere, and proves that this store gave it out.
INSERT INTO meta (key, value) VALUES ('token_key', lower(hex(randomblob(32))));
