"""Two hosts: network namespaces whose link to the server is cut and healed, while the world outside stays in reach.

    this namespace                  host h0                        host h1
    10.N.0.1    the server <-----> 10.N.0.2
    10.N.128.1  outside    <-----> 10.N.128.2
    10.N.1.1    the server <-------------------------------------> 10.N.1.2
    10.N.129.1  outside    <-------------------------------------> 10.N.129.2

N follows from the process, so that two trials on one machine hardly meet.
Each host has a folder of its own for temporary files, so that no lock on a file of one proves anything to the other: a
worker takes them for two machines, which is what they are to the network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = 2


class Host:
    """What a worker process is started with: where it runs and how it reaches the server and the world outside."""

    def __init__(self, folder: Path, prefix: tuple[str, ...] = (), server: str = "", outside: str = "") -> None:
        """Know the addresses; without a prefix it is this machine."""
        self.folder = folder
        self.prefix = prefix
        self.server = server or "127.0.0.1"
        self.outside = outside or "127.0.0.1"
        folder.mkdir(parents=True, exist_ok=True)


class Network:
    """The hosts, and their links to the server."""

    def __init__(self, folder: Path) -> None:
        """Make them. Raises RuntimeError where there are no network namespaces to be had."""
        if shutil.which("ip") is None:
            raise RuntimeError("there is no `ip`: install iproute2 (make apt), which the two hosts need")
        self._name = f"tf{os.getpid() % 100_000}"
        self.hosts: list[Host] = []
        for number in range(HOSTS):
            self._make(number)
            prefix = ("ip", "netns", "exec", self._space(number))
            server, outside = (self._address(number, what, 1) for what in "so")
            self.hosts.append(Host(folder / f"host{number}", prefix, server, outside))

    def _space(self, number: int) -> str:
        return f"{self._name}h{number}"

    def _address(self, number: int, what: str, end: int) -> str:
        return f"10.{100 + os.getpid() % 100}.{number + (128 if what == 'o' else 0)}.{end}"

    def _link(self, what: str, number: int, end: str) -> str:
        return f"{self._name}{what}{number}{end}"

    def _make(self, number: int) -> None:
        space = self._space(number)
        _ip("netns", "add", space)
        _ip("-n", space, "link", "set", "lo", "up")
        for what in "so":
            here, there = self._link(what, number, "a"), self._link(what, number, "b")
            _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", space)
            _ip("addr", "add", f"{self._address(number, what, 1)}/24", "dev", here)
            _ip("-n", space, "addr", "add", f"{self._address(number, what, 2)}/24", "dev", there)
            _ip("link", "set", here, "up")
            _ip("-n", space, "link", "set", there, "up")

    def cut(self, number: int) -> None:
        """Take a host's link to the server down: packets are lost, and nobody is told."""
        _ip("link", "set", self._link("s", number, "a"), "down")

    def heal(self, number: int) -> None:
        """Take it up again."""
        _ip("link", "set", self._link("s", number, "a"), "up")

    def close(self) -> None:
        """Remove the hosts, with their links."""
        for number in range(len(self.hosts)):
            subprocess.run(["ip", "netns", "del", self._space(number)], check=False, capture_output=True)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        message = f"`ip {' '.join(words)}` said: {done.stderr.strip()}: two hosts need root and network namespaces"
        raise RuntimeError(message)
