"""Which tables hold rows of one run: what a prune removes with it. tests/house/test_tables.py finds what is forgotten."""

from __future__ import annotations

OF_A_RUN = (
    *("journal", "rows", "cut_rows", "parts", "inbox", "waits", "states", "blob_runs", "run_keys", "forks", "prunes"),
    *("leases", "deadlines", "cancels", "compensations", "streams", "views", "holds", "shorts"),
    *("replies", "too_late", "traces", "stream_prunes"),
)
"""Tables with a `run_id` whose rows go with their run, the long ones first: a batch may end in the middle of them."""

ON_THEIR_WAY = ("outbox", "follow_ups", "places")
"""Tables whose rows must do something yet: while a run has one there, it is not pruned."""

NAME_ONE = ("slots", "budgets")
"""Tables whose rows are not only their run's: a schedule's slots, and budgets, from which others may still spend."""
