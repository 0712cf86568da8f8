"""Where a trial's store lies: a file, or a PostgreSQL cluster of the trial's own, each on a small disk that can be filled.

A disk is a tmpfs of its own (root); where none can be mounted the place lies in an ordinary folder and says that it has
no disk, so that nobody believes it was ever full.
"""

from __future__ import annotations

import os
import pwd
import signal
import sqlite3
import subprocess
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from tests.servers import binaries, call, free_port, owner
from torpor import clock

if TYPE_CHECKING:
    from collections.abc import Callable

DISK_MEGABYTES = 1024
LEFT_BYTES = 16_384
"""What is left of a disk that is full."""
LEDGER = "CREATE TABLE faults_ledger (place text NOT NULL)"
BOOKED = "SELECT place, count(*) FROM faults_ledger GROUP BY place"
UP_SECONDS = 120.0
"""So long a server that was killed may take to recover."""
_SETTINGS = {
    "fsync": "off",  # processes are killed, not the machine: what was written to the system's cache is there afterwards
    "synchronous_commit": "on",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "deadlock_timeout": "100ms",
    "listen_addresses": "*",
    "autovacuum": "on",
    "max_wal_size": "128MB",
    "restart_after_crash": "on",
}


class Disk:
    """A small disk of its own."""

    def __init__(self, folder: Path, megabytes: int = DISK_MEGABYTES) -> None:
        """Mount it at a folder. Raises RuntimeError where that is not possible."""
        self.folder = folder
        folder.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            message = f"no disk of its own can be mounted ({done.stderr.strip()}): the fault `full` needs root"
            raise RuntimeError(message)
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave almost nothing free."""
        stat = os.statvfs(self.folder)
        free = stat.f_bavail * stat.f_frsize - LEFT_BYTES
        with self._ballast.open("ab") as file, suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(free, 1))

    def clear(self) -> None:
        """Give the space back."""
        self._ballast.unlink(missing_ok=True)

    def unmount(self) -> None:
        """Take it away."""
        subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)


class Place(Protocol):
    """Where a store lies."""

    kind: str
    disk: Disk | None

    def url(self, host: str = "127.0.0.1") -> str:
        """Return the store's URL as a process finds it that knows this machine by that address."""

    def booked(self) -> dict[str, int]:
        """Return how often each place stands in the author's own table."""

    def mend(self) -> None:
        """Return once the store is up again, starting what has to be started. Not while its disk is full."""

    def close(self) -> None:
        """Remove everything."""


class FilePlace:
    """An SQLite file."""

    kind = "sqlite"

    def __init__(self, folder: Path, *, disk: bool) -> None:
        """Make the author's own table; torpor's are made by whoever comes first."""
        self.disk = Disk(folder / "disk") if disk else None
        self._path = (self.disk.folder if self.disk is not None else folder) / "torpor.db"
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute(LEDGER)
        db.close()

    def url(self, host: str = "127.0.0.1") -> str:
        """Return the file's URL: it is on this machine, whatever that is called."""
        del host
        return f"sqlite:///{self._path}"

    def booked(self) -> dict[str, int]:
        """Return how often each place stands in the author's own table."""
        with closing(sqlite3.connect(self._path)) as db, db:
            found = dict(db.execute(BOOKED).fetchall())
        db.close()
        return found

    def mend(self) -> None:
        """There is nothing to start."""

    def close(self) -> None:
        """Remove everything."""
        if self.disk is not None:
            self.disk.unmount()


class ServerPlace:
    """A PostgreSQL cluster whose postmaster is a child of this process."""

    kind = "postgres"

    def __init__(self, folder: Path, *, disk: bool) -> None:
        """Make the cluster and start it."""
        self.disk = Disk(folder / "disk") if disk else None
        top = self.disk.folder if self.disk is not None else folder / "server"
        top.mkdir(exist_ok=True)
        entry = pwd.getpwnam(owner())
        for place in (top, folder):
            os.chown(place, entry.pw_uid, entry.pw_gid)
        self._place, self._log = top / "db", (folder / "server.log").open("ab")
        call(binaries("postgres") / "initdb", "-D", str(self._place), "-U", "postgres", "-A", "trust", "--no-sync")
        self._port = free_port()
        with (self._place / "postgresql.conf").open("a") as conf:
            sockets = {"port": str(self._port), "unix_socket_directories": str(folder)}
            conf.writelines(f"{name} = '{value}'\n" for name, value in {**_SETTINGS, **sockets}.items())
        with (self._place / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.0.0.0/8 trust\n")
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self.mend()
        self._ask(LEDGER)

    def url(self, host: str = "127.0.0.1") -> str:
        """Return the database's URL."""
        return f"postgresql://postgres@{host}:{self._port}/postgres"

    def _start(self) -> None:
        entry = pwd.getpwnam(owner())
        own: dict[str, Any] = {}
        if os.getuid() == 0:
            own = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        command = [str(binaries("postgres") / "postgres"), "-D", str(self._place)]
        self._server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, cwd="/", **own
        )

    def mend(self) -> None:
        """Return once it answers; a postmaster that is not there, or gave up (its disk was full), is started."""
        with self._lock:
            ends_at = clock.monotonic() + UP_SECONDS
            while clock.monotonic() < ends_at:
                if self._server is None or self._server.poll() is not None:
                    self._start()
                assert self._server is not None
                try:
                    self._ask("SELECT 1")
                    return
                except psycopg.OperationalError:
                    with suppress(subprocess.TimeoutExpired):
                        self._server.wait(0.1)
        message = f"PostgreSQL did not answer within {UP_SECONDS:g} s"
        raise AssertionError(message)

    def kill(self) -> None:
        """SIGKILL the postmaster, and return once its last backend has noticed. It is not started again."""
        assert self._server is not None
        backends = _children(self._server.pid)
        self._server.kill()
        self._server.wait()
        for pid in backends:
            _gone(pid)

    def kill_backend(self, choose: Callable[[list[int]], int]) -> None:
        """SIGKILL one of the server's processes: the postmaster then ends all others, and recovers by itself."""
        assert self._server is not None
        backends = _children(self._server.pid)
        if backends:
            with suppress(ProcessLookupError):
                os.kill(choose(backends), signal.SIGKILL)

    def cut(self) -> int:
        """End every connection, as a failover would; return how many there were."""
        terminate = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        return int(self._ask(f"{terminate} AND backend_type = 'client backend'")[0][1])

    def booked(self) -> dict[str, int]:
        """Return how often each place stands in the author's own table."""
        return dict(self._ask(BOOKED))

    def _ask(self, statement: str) -> list[tuple[str, int]]:
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=10) as asked:
            found = asked.execute(statement.encode())
            return [(str(row[0]), int(row[-1])) for row in found.fetchall()] if found.description else []

    def close(self) -> None:
        """Stop the server and remove everything."""
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait()
        self._log.close()
        if self.disk is not None:
            self.disk.unmount()


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (thread / "children").read_text("ascii").split()]
    return found


def _gone(pid: int) -> None:
    """Return once a process that is no child of ours has ended."""
    with suppress(ProcessLookupError):
        watched = os.pidfd_open(pid)
        try:
            import select

            poll = select.poll()
            poll.register(watched, select.POLLIN)
            assert poll.poll(UP_SECONDS * 1000), f"process {pid} of the server did not end"
        finally:
            os.close(watched)
