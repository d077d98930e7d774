"""A file is written in one step, or stays as it was."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from rldoctor.io import atomic


def test_permissions_stay_and_links_are_followed(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_bytes(b"before")
    report.chmod(0o640)
    (tmp_path / "latest").symlink_to("report.json")
    atomic.write(tmp_path / "latest", b"behind")
    assert report.read_bytes() == b"behind" and report.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "latest").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "report.json"]


def test_a_new_file_permits_what_others_of_this_process_do(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    atomic.write(tmp_path / "new", b"x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    atomic.write(Path(os.devnull), b"x")
    assert not Path(os.devnull).is_file()
    read, write = os.pipe()
    atomic.write(Path(f"/dev/fd/{write}"), b"x")
    assert os.read(read, 9) == b"x"


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text("before")
    log = tmp_path / "run.log"
    log.write_text("step 1\nTraceback (most recent call last):\n  File 'a.py', line 1, in f\nValueError: no\n")

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    done = subprocess.run(
        [sys.executable, "-B", "-m", "rldoctor", "triage", log, "--format", "html", "--output", report],
        preexec_fn=full,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and done.stderr == f"rldoctor: {report}: File too large\n"
    assert report.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "run.log"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        atomic.write(tmp_path / "none" / "x", b"")
