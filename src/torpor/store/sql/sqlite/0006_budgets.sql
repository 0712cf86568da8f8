-- Budgets and rate buckets. Amounts are micro-units of USD.

-- A budget: of a run, or named (`tenant:acme`, `program:refunds`). most NULL: no limit, spending is only counted.
-- short: 0 nobody waits for it, 1 somebody does, 2 somebody does and something was given back or added since.
CREATE TABLE budgets (
    id INTEGER PRIMARY KEY, run_id INTEGER UNIQUE, parent INTEGER, name TEXT UNIQUE, most INTEGER,
    spent INTEGER NOT NULL DEFAULT 0, held INTEGER NOT NULL DEFAULT 0, short INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX budgets_stirred ON budgets (id) WHERE short = 2;

-- Reservations that are not settled: by run and call. budgets are the numbers of all that it is held in; lost: 1 counts
-- as spent if it is never settled. They end with their turn.
CREATE TABLE holds (
    run_id INTEGER NOT NULL, key TEXT NOT NULL, amount INTEGER NOT NULL, lost INTEGER NOT NULL, budgets TEXT NOT NULL,
    PRIMARY KEY (run_id, key)
) WITHOUT ROWID;

-- Runs that wait for a budget, in the order in which they came. woken: it was made ready and has not asked again.
CREATE TABLE shorts (
    run_id INTEGER NOT NULL, key TEXT NOT NULL, budget INTEGER NOT NULL, at INTEGER NOT NULL, wants INTEGER NOT NULL,
    woken INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (run_id, key)
) WITHOUT ROWID;
CREATE INDEX shorts_queue ON shorts (budget, at, run_id) WHERE woken = 0;

-- Rate buckets (core.rate): the limit that was asked for last, and three moments.
CREATE TABLE buckets (
    name TEXT PRIMARY KEY, most INTEGER NOT NULL, per INTEGER NOT NULL, burst INTEGER NOT NULL, promised INTEGER NOT NULL,
    used INTEGER NOT NULL, late INTEGER NOT NULL
) WITHOUT ROWID;

-- The waits that need a person: approval, attention, question, budget.
DROP INDEX waits_people;
CREATE INDEX waits_people ON waits (seq, run_id) WHERE over = 0 AND answered_at IS NULL AND kind IN (3, 4, 6, 12);
