"""A file that grows, is rotated, cut, removed and written anew while it is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.errors import InputError
from rldoctor.watch.follow import LONGEST_LINE, Follower, Piece


def append(file: Path, data: bytes) -> None:
    with file.open("ab") as opened:
        opened.write(data)


def test_only_what_is_new_and_only_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(b"one\ntw")
    follower = Follower(log)
    assert follower.poll() == [Piece(b"one\n")]
    assert follower.poll() == []
    append(log, b"o\nthree")
    assert follower.poll() == [Piece(b"two\n")]
    assert follower.rest() == [Piece(b"three")]


def test_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    follower = Follower(tmp_path / "run.log")
    assert follower.poll() == []
    append(tmp_path / "run.log", b"one\n")
    assert follower.poll() == [Piece(b"one\n")]


def test_what_was_written_before_a_rotation_is_not_lost(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    append(log, b"one\n")
    follower = Follower(log)
    follower.poll()
    append(log, b"two\nlast words")
    log.rename(tmp_path / "run.log.1")
    assert follower.poll() == [Piece(b"two\n")]
    append(log, b"three\n")
    assert follower.poll() == [Piece(b"last words"), Piece(b"three\n", anew=True)]
    append(log, b"four\n")
    assert follower.poll() == [Piece(b"four\n")]


def test_a_file_that_was_cut_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    append(log, b"one\ntwo\n")
    follower = Follower(log)
    follower.poll()
    log.write_bytes(b"new\n")
    assert follower.poll() == [Piece(b"new\n", anew=True)]


def test_a_file_that_is_gone_for_a_while(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    append(log, b"one\n")
    follower = Follower(log)
    follower.poll()
    log.unlink()
    assert follower.poll() == []
    append(log, b"two\n")
    assert follower.poll() == [Piece(b"two\n", anew=True)]


def test_a_line_without_an_end_is_not_kept_for_ever(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(b"x" * (LONGEST_LINE + 10))
    pieces = Follower(log).poll()
    assert sum(len(piece.data) for piece in pieces) > LONGEST_LINE


def test_a_folder_or_a_device_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(InputError, match="not a regular file"):
            Follower(path)
