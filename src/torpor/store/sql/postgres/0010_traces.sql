-- Which trace a run belongs to, for those that were started inside one: the W3C traceparent of what started it.
CREATE TABLE traces (run_id bigint PRIMARY KEY, parent text NOT NULL);
