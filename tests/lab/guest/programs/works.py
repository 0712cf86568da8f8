"""A torpor worker that has imported everything and waits for its arguments: a machine with it is put to sleep once."""

from __future__ import annotations

import importlib
import json
import os
import sys

from talking import say  # type: ignore[import-not-found] # beside it in the guest

for name in (
    "torpor.cli.main",
    "torpor.runtime",
    "torpor.cli.working",
    "torpor.store.postgres",
    "psycopg",
    "psycopg_pool",
):
    importlib.import_module(name)
say("ready")
asked = json.loads(sys.stdin.readline())
os.environ.update(asked["env"])

importlib.import_module("torpor.cli.main").main(asked["argv"])
