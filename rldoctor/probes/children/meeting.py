"""Where the children of several nodes meet before a job and after it: the first node learns who came, tells the others
how to start, and gets what each of them has to tell. One JSON value a line; standard library only."""

from __future__ import annotations

import json
import select
import socket
import time
from contextlib import suppress
from typing import IO, Any

# What a rank tells is some kilobytes.
MOST_BYTES = 16 << 20
RETRY = 0.2
# Another's first words come with its connection; a program that says nothing is none of ours.
GREETING = 5.0


class Host:
    """The first node's end. ``came`` holds what each node said of itself, by its number."""

    def __init__(self, port: int, count: int, patience: float, mine: Any) -> None:
        self.came: dict[int, Any] = {0: mine}
        self._lines: dict[int, IO[bytes]] = {}
        self._sockets: dict[int, socket.socket] = {}
        end = time.monotonic() + patience
        # Port and address may still be held by a job that has just ended.
        with socket.create_server(("", port), backlog=count) as listening:
            while len(self.came) < count and (left := end - time.monotonic()) > 0:
                listening.settimeout(left)
                with suppress(OSError, ValueError, TypeError, KeyError):
                    self._receive(listening.accept()[0], count)

    def _receive(self, connection: socket.socket, count: int) -> None:
        connection.settimeout(GREETING)
        lines = connection.makefile("rb")
        said = json.loads(lines.readline(MOST_BYTES))
        number = said["number"]
        if number in range(1, count) and number not in self.came:
            connection.settimeout(None)
            self.came[number] = said["mine"]
            self._lines[number], self._sockets[number] = lines, connection

    def tell(self, what: Any) -> None:
        """One answer for all that came."""
        for connection in self._sockets.values():
            with suppress(OSError):
                connection.sendall(_line(what))

    def gather(self, seconds: float) -> dict[int, Any]:
        """What the others told after the job, by their number; without those that were lost or late."""
        end = time.monotonic() + seconds
        found: dict[int, Any] = {}
        open_ones = {connection: number for number, connection in self._sockets.items()}
        while open_ones and (left := end - time.monotonic()) > 0:
            for connection in select.select(list(open_ones), [], [], left)[0]:
                number = open_ones.pop(connection)
                connection.settimeout(max(end - time.monotonic(), RETRY))
                with suppress(OSError, ValueError):
                    found[number] = json.loads(self._lines[number].readline(MOST_BYTES))
        return found


class Guest:
    """Another node's end. Raises OSError where the first node is not reached or did not answer in time."""

    def __init__(self, address: str, port: int, number: int, patience: float, mine: Any) -> None:
        end = time.monotonic() + patience
        while True:
            try:
                self._socket = socket.create_connection((address, port), timeout=max(end - time.monotonic(), RETRY))
                break
            except OSError:
                if time.monotonic() + RETRY > end:
                    raise
                time.sleep(RETRY)
        self._socket.sendall(_line({"number": number, "mine": mine}))
        # The first node answers once its own patience is over, which may have begun later than ours.
        self._socket.settimeout(2 * patience)
        answer = self._socket.makefile("rb").readline(MOST_BYTES)
        if not answer:
            raise ConnectionError("the first node closed the connection")
        self.told: Any = json.loads(answer)

    def hand_over(self, what: Any) -> None:
        """What this node has to tell after the job."""
        with suppress(OSError):
            self._socket.sendall(_line(what))


def _line(what: Any) -> bytes:
    return json.dumps(what).encode() + b"\n"
