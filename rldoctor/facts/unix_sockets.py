"""Which sockets of this machine are connected to which: of those between processes of one host the files under
``/proc`` do not tell the other end, the kernel's socket diagnosis does (sock_diag(7)), to everybody."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping

# linux/netlink.h, linux/sock_diag.h, linux/unix_diag.h
_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301
_DONE_OR_ERROR = frozenset({2, 3})
_SHOW_NAME_AND_PEER, _NAME, _PEER = 0x5, 0, 2
_HEADER, _REQUEST, _SOCKET = struct.Struct("=IHHII"), struct.Struct("=BBHIIIII"), struct.Struct("=BBBBIII")
_ATTRIBUTE, _INODE = struct.Struct("=HH"), struct.Struct("=I")
_ANY_STATE, _NO_COOKIE = 0xFFFFFFFF, 0xFFFFFFFF
_SECONDS = 2.0


def ends() -> Mapping[str, tuple[str, str]]:
    """The inode of each connected socket of the Unix domain, with that of its other end, and the path at which either
    of the two is found, empty where neither has one; nothing where the kernel does not tell."""
    try:
        found = {inode: (name, peer) for inode, name, peer in _sockets()}
    except (OSError, AttributeError, struct.error):
        return {}
    return {
        str(inode): (str(peer), name or found.get(peer, ("", 0))[0]) for inode, (name, peer) in found.items() if peer
    }


def _sockets() -> Iterator[tuple[int, str, int]]:
    request = _REQUEST.pack(socket.AF_UNIX, 0, 0, _ANY_STATE, 0, _SHOW_NAME_AND_PEER, _NO_COOKIE, _NO_COOKIE)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as asked:
        asked.settimeout(_SECONDS)
        asked.send(_HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _DUMP, 1, 0) + request)
        while True:
            answer = asked.recv(1 << 16)
            at = 0
            while at + _HEADER.size <= len(answer):
                size, kind, *_ = _HEADER.unpack_from(answer, at)
                if kind in _DONE_OR_ERROR or size < _HEADER.size:
                    return
                yield _socket(answer[at + _HEADER.size : at + size])
                at += _aligned(size)


def _socket(message: bytes) -> tuple[int, str, int]:
    """Inode, path and the other end's inode (0 where there is none) of one socket."""
    inode = _SOCKET.unpack_from(message)[4]
    name, peer, at = "", 0, _SOCKET.size
    while at + _ATTRIBUTE.size <= len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if size < _ATTRIBUTE.size:
            break
        value = message[at + _ATTRIBUTE.size : at + size]
        if kind == _NAME:
            name = value.rstrip(b"\0").decode(errors="replace").replace("\0", "@")
        elif kind == _PEER:
            (peer,) = _INODE.unpack_from(value)
        at += _aligned(size)
    return inode, name, peer


def _aligned(size: int) -> int:
    return (size + 3) & ~3
