"""Files behind HTTP."""

from __future__ import annotations

import io

import pytest

from rldoctor.tables.sources.remote import RemoteFile
from tests.served import Serve

CONTENT = bytes(range(256)) * 4000


def test_a_remote_file_is_read_in_blocks(serve: Serve) -> None:
    served = serve()
    served.files["/large"] = CONTENT
    remote = io.BufferedReader(RemoteFile(f"{served.address}/large", block=100_000))
    remote.seek(-100, io.SEEK_END)
    assert remote.read() == CONTENT[-100:]
    remote.seek(299_950)
    assert remote.read(100) == CONTENT[299_950:300_050]  # across two blocks
    assert served.sent < 300_000


def test_what_is_not_there_is_an_error(serve: Serve) -> None:
    with pytest.raises(OSError, match="404"):
        RemoteFile(f"{serve().address}/nothing")
