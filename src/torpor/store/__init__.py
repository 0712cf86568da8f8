"""Memory: rows in, rows out, in batches, one transaction at a time. No rule lives here."""
