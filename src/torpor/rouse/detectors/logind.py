"""logind's word that the machine goes to sleep and comes back, over D-Bus spoken by hand: five kinds of message.

Only what this needs of the D-Bus specification is here: the EXTERNAL handshake, method calls with strings, and the body of
one signal. The bus itself filters: it sends what the match asks for, and vouches for the sender.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, ClassVar

from ..event import Finding, Kind
from ..incarnation import PerProcess

if TYPE_CHECKING:
    from .clocks import Reading

SYSTEM_BUS = "unix:path=/run/dbus/system_bus_socket"
MATCH = (
    "type='signal',sender='org.freedesktop.login1',interface='org.freedesktop.login1.Manager',"
    "member='PrepareForSleep',path='/org/freedesktop/login1'"
)
ANSWER_SECONDS = 2.0
_CALL, _SIGNAL = 1, 4
_PATH, _INTERFACE, _MEMBER, _DESTINATION, _SIGNATURE = 1, 2, 3, 6, 8
_HEAD = 16


class Bus:
    """One connection to a message bus."""

    def __init__(self, address: str) -> None:
        """Connect, prove who we are, say hello.

        Raises:
            OSError: nobody is there, or it does not want us.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._received = b""
        self._serial = 0
        try:
            self._socket.settimeout(ANSWER_SECONDS)
            _connect(self._socket, _path_of(address))
            self._socket.sendall(b"\0AUTH EXTERNAL " + str(os.getuid()).encode().hex().encode() + b"\r\n")
            if not self._socket.recv(4096).startswith(b"OK "):
                raise ConnectionRefusedError(f"the bus at {address} refuses user {os.getuid()}")
            self._socket.sendall(b"BEGIN\r\n")
            self.call("Hello")
            self._socket.setblocking(False)  # noqa: FBT003 - its only parameter
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """What becomes readable when a message comes."""
        return self._socket.fileno()

    def close(self) -> None:
        """Let go."""
        self._socket.close()

    def call(self, member: str, *strings: str) -> None:
        """Ask the bus itself; its answer is not waited for.

        Raises:
            OSError: the connection is gone.
        """
        body = b""
        for text in strings:
            body = _padded(body, 4) + _string(text)
        fields = {
            _PATH: ("o", "/org/freedesktop/DBus"),
            _DESTINATION: ("s", "org.freedesktop.DBus"),
            _INTERFACE: ("s", "org.freedesktop.DBus"),
            _MEMBER: ("s", member),
        }
        self.send(_CALL, fields, "s" * len(strings), body)

    def send(self, kind: int, fields: dict[int, tuple[str, str]], signature: str, body: bytes) -> None:
        """Send one message; `body` is written as `signature` says.

        Raises:
            OSError: the connection is gone.
        """
        self._serial += 1
        header = b""
        for code, (form, text) in fields.items():
            header = _padded(header, 8) + bytes([code, 1]) + form.encode() + b"\0" + _string(text)
        if signature:
            header = _padded(header, 8) + bytes([_SIGNATURE, 1]) + b"g\0" + bytes([len(signature)])
            header += signature.encode() + b"\0"
        head = b"l" + bytes([kind, 0, 1]) + struct.pack("<III", len(body), self._serial, len(header))
        self._socket.sendall(_padded(head + header, 8) + body)

    def messages(self) -> list[tuple[int, bytes, bytes, str]]:
        """Return what has come: kind, header fields, body, and the byte order as `struct` writes it. Does not wait.

        Raises:
            OSError: the connection is gone.
        """
        while True:
            try:
                received = self._socket.recv(65536)
            except BlockingIOError:
                break
            if not received:
                raise ConnectionResetError("the bus hung up")
            self._received += received
        came = []
        while len(self._received) >= _HEAD:
            order = "<" if self._received[:1] == b"l" else ">"
            body_length, _, fields_length = struct.unpack_from(order + "III", self._received, 4)
            begin = _HEAD + fields_length + -fields_length % 8
            if len(self._received) < begin + body_length:
                break
            message, self._received = self._received[: begin + body_length], self._received[begin + body_length :]
            came.append((message[1], message[_HEAD : _HEAD + fields_length], message[begin:], order))
        return came


class Logind:
    """Whether logind says that the machine comes back from sleep (PrepareForSleep).

    Sees: suspend and hibernation that go through logind, where no clock tells (no CLOCK_BOOTTIME).
    Cannot see: a suspend past logind (`echo mem > /sys/power/state`), a paused virtual machine, anything in most containers.
    Needs: no root. The system bus's socket, and logind on it.
    Cost: one system call a look, 1 us; it wakes the watcher when the machine sleeps or wakes.
    Fallback: `suspended`, which is exact and sees more; this one only confirms it then.
    """

    name: ClassVar[str] = "logind"

    def __init__(self, address: str | None = None) -> None:
        """Connect to the system bus and ask for the signal.

        Raises:
            OSError: there is no bus.
        """
        self._address = address or os.environ.get("DBUS_SYSTEM_BUS_ADDRESS", SYSTEM_BUS)
        self._bus = PerProcess(self._connect)  # a copy of the process would take the messages away from the original

    def _connect(self) -> Bus:
        bus = Bus(self._address)
        bus.call("AddMatch", MATCH)
        return bus

    def fileno(self) -> int:
        """What becomes readable when a message comes; -1 once the bus is gone."""
        bus = self._reached()
        return -1 if bus is None else bus.fileno()

    def __call__(self, _before: Reading, _now: Reading) -> Finding | None:
        """Read what came. `true` is said before the sleep, `false` after it."""
        bus = self._reached()
        if bus is None:
            return None
        try:
            came = bus.messages()
        except OSError:
            bus.close()
            return None
        for kind, fields, body, order in came:
            if kind == _SIGNAL and b"PrepareForSleep\0" in fields and len(body) >= 4:  # noqa: PLR2004 - one boolean
                sleeps = struct.unpack_from(order + "I", body)[0]
                if not sleeps:
                    return Finding(
                        Kind.SLEPT, "logind says the machine woke", by=self.name, confirms=("suspended", "stepped")
                    )
        return None

    def close(self) -> None:
        """Let go of the bus."""
        bus = self._reached()
        if bus is not None:
            bus.close()

    def _reached(self) -> Bus | None:
        """The bus, or None once it is gone or a copy of the process does not reach it."""
        try:
            bus = self._bus.get()
        except OSError:
            return None
        return None if bus.fileno() < 0 else bus


def _connect(to_bus: socket.socket, path: str) -> None:
    """Connect; an error names the path, which the system's own does not."""
    try:
        to_bus.connect(path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, path) from error


def _path_of(address: str) -> str:
    for one in address.split(";"):
        transport, _, rest = one.partition(":")
        options = dict(part.partition("=")[::2] for part in rest.split(","))
        if transport == "unix" and "path" in options:
            return options["path"]
        if transport == "unix" and "abstract" in options:
            return "\0" + options["abstract"]
    raise FileNotFoundError(f"no unix socket in the bus address {address!r}")


def _string(text: str) -> bytes:
    written = text.encode()
    return struct.pack("<I", len(written)) + written + b"\0"


def _padded(written: bytes, to: int) -> bytes:
    return written + b"\0" * (-len(written) % to)
