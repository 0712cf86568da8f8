-- Which memory of a machine may go on (rouse.beacon): the mark set last, changed only by compare-and-set on lineage and
-- counter. body is the whole mark as JSON, with its trail of parents.
CREATE TABLE marks (
    machine TEXT PRIMARY KEY, lineage TEXT NOT NULL, counter INTEGER NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID;
