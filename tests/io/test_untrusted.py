"""Python that somebody else wrote is read without running it, without a warning, and however deep it nests."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import pytest

from rldoctor.io import untrusted
from tests.commands import run


@pytest.mark.parametrize("deep", ["-" * 100_000 + "1", "1" + " + 1" * 200_000, "(" * 5000, "x = '\0'"])
def test_what_cannot_be_read_is_a_syntax_error(deep: str) -> None:
    with pytest.raises(SyntaxError):
        untrusted.python(deep)


def test_nothing_is_said_of_how_it_is_written() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ast.unparse(untrusted.python(r"x = ['\d', 0x1for y in z]")).startswith("x = ")


def test_a_step_that_nests_too_deeply_is_told_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "step.py"
    file.write_text(f"def step(model):\n    return {'-' * 100_000}1\n")
    done = run("check", "--step", f"{file}:step", "--level", "static")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.startswith(f"rldoctor: --step {file}:step: FILE:FUNCTION is expected, and")
    assert done.stderr.count("\n") == 1


def test_a_file_that_holds_more_than_it_says_is_read_whole() -> None:
    assert untrusted.read("/proc/self/status", 1 << 20).startswith(b"Name:")
    with pytest.raises(OSError, match="larger than"):
        untrusted.read("/proc/self/status", 16)
