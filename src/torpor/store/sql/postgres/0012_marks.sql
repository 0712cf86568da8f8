-- Which memory of a machine may go on (rouse.beacon): the mark set last, changed only by compare-and-set on lineage and
-- counter. body is the whole mark as JSON, with its trail of parents.
CREATE TABLE marks (
    machine text PRIMARY KEY, lineage text NOT NULL, counter bigint NOT NULL, at bigint NOT NULL, body text NOT NULL
);
