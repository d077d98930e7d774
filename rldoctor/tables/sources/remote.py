"""Reads over HTTP: whole answers, and files by ranges. Only the refresh uses it; no diagnosis does."""

from __future__ import annotations

import base64
import io
import time
import urllib.error
import urllib.request
from http.client import HTTPResponse
from typing import Any
from urllib.parse import unquote, urlsplit

_TIMEOUT = 120  # seconds for one request
_PAUSES = (1.0, 4.0, 10.0)  # seconds between attempts; name servers and proxies have their moments
_BLOCK = 1 << 18  # bytes of one range request


def opened(url: str, headers: dict[str, str] | None = None) -> HTTPResponse:
    """The open answer to a GET. A password in the address is sent as a header, so that no message shows it.

    Raises ``OSError`` after the last attempt, at once where the server refuses (a 4xx)."""
    sent = dict(headers or {})
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if at:
        url = parts._replace(netloc=host).geturl()
        sent["Authorization"] = f"Basic {base64.b64encode(unquote(user).encode()).decode()}"
    for pause in (*_PAUSES, None):
        try:
            answer: HTTPResponse = urllib.request.urlopen(urllib.request.Request(url, headers=sent), timeout=_TIMEOUT)
            return answer
        except OSError as error:
            refused = isinstance(error, urllib.error.HTTPError) and error.code < 500
            if pause is None or refused:
                raise
            time.sleep(pause)
    raise AssertionError("unreachable")


class RemoteFile(io.RawIOBase):
    """A file behind HTTP read by ranges, in blocks: three files of a wheel of 400 MB cost a megabyte.

    Raises ``OSError`` where the server does not answer range requests."""

    def __init__(self, url: str, block: int = _BLOCK) -> None:
        self._url = url
        self._block = block
        self._blocks: dict[int, bytes] = {}
        self._at = 0
        with opened(url, {"Range": "bytes=-1"}) as answer:
            total = (answer.headers["Content-Range"] or "").rpartition("/")[2]
        if not total.isdecimal():
            raise OSError(f"{url}: the server does not answer range requests")
        self._size = int(total)

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        number, start = divmod(self._at, self._block)
        if self._at >= self._size:
            return 0
        if number not in self._blocks:
            first = number * self._block
            last = min(first + self._block, self._size) - 1
            with opened(self._url, {"Range": f"bytes={first}-{last}"}) as answer:
                self._blocks[number] = answer.read()
        part = self._blocks[number][start : start + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)
