"""Which sockets of this machine are connected to which: of those between processes of one host the files under
``/proc`` do not tell the other end, the kernel's socket diagnosis does (sock_diag(7)), to everybody."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping

from rldoctor.records import dataclass

# linux/netlink.h, linux/sock_diag.h, linux/unix_diag.h
_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301
_DONE_OR_ERROR = frozenset({2, 3})
_SHOWN, _NAME, _PEER, _WAITING = 0xD, 0, 2, 3
_HEADER, _REQUEST, _SOCKET = struct.Struct("=IHHII"), struct.Struct("=BBHIIIII"), struct.Struct("=BBBBIII")
_ATTRIBUTE, _INODE = struct.Struct("=HH"), struct.Struct("=I")
_ANY_STATE, _NO_COOKIE = 0xFFFFFFFF, 0xFFFFFFFF
_SECONDS = 2.0


@dataclass
class _Socket:
    """One socket: ``peer`` is the other end's inode, ``waiting`` those of ends that it has not accepted yet."""

    inode: int
    name: str = ""
    peer: int = 0
    waiting: tuple[int, ...] = ()


def ends() -> Mapping[str, tuple[str, str]]:
    """The inode of each connected socket of the Unix domain, with that of its other end (the listener's, where that has
    not accepted it yet), and the path at which either is found, empty where neither has one; nothing where the kernel
    does not tell."""
    try:
        found = {one.inode: one for one in _sockets()}
    except (OSError, AttributeError, struct.error):
        return {}
    pairs = {inode: found[one.peer] for inode, one in found.items() if one.peer in found}
    pairs.update({inode: one for one in found.values() for inode in one.waiting if inode in found})
    return {str(inode): (str(peer.inode), peer.name or found[inode].name) for inode, peer in pairs.items()}


def _sockets() -> Iterator[_Socket]:
    request = _REQUEST.pack(socket.AF_UNIX, 0, 0, _ANY_STATE, 0, _SHOWN, _NO_COOKIE, _NO_COOKIE)
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


def _socket(message: bytes) -> _Socket:
    one, at = _Socket(_SOCKET.unpack_from(message)[4]), _SOCKET.size
    while at + _ATTRIBUTE.size <= len(message):
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if size < _ATTRIBUTE.size:
            break
        value = message[at + _ATTRIBUTE.size : at + size]
        if kind == _NAME:
            one.name = value.rstrip(b"\0").decode(errors="replace").replace("\0", "@")
        elif kind == _PEER:
            (one.peer,) = _INODE.unpack_from(value)
        elif kind == _WAITING:
            one.waiting = tuple(inode for (inode,) in _INODE.iter_unpack(value))
        at += _aligned(size)
    return one


def _aligned(size: int) -> int:
    return (size + 3) & ~3
