"""The folder of a stalled run: private, redacted, and judged the same elsewhere."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from rldoctor.errors import InputError
from rldoctor.hang import folder
from rldoctor.hang.model import LogTail, hang_of
from tests.hang.records import ALL_REDUCE, REWARD, case, hang, rank, seen


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    log = LogTail(file="/srv/run.log", quiet=3.0, lines=("step 1", "\x1b[31mstep 2"))
    reported = case(hang(rank(0, ALL_REDUCE, log=log), rank(1, REWARD, log=log)))
    kept = folder.save(reported, tmp_path / "kept")
    assert hang_of(folder.load((kept,))) == hang_of(reported)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert sorted(p.name for p in (kept / "stacks").iterdir()) == ["rank0-train.py-100.txt", "rank1-train.py-101.txt"]
    assert "reward.py:5 in compute_score" in (kept / "stacks" / "rank1-train.py-101.txt").read_text()
    (one,) = (kept / "logs").iterdir()  # both ranks write to one file
    assert one.read_text() == "step 1\n\\x1b[31mstep 2\n"


def test_nodes_of_one_run_are_joined(tmp_path: Path) -> None:
    first = folder.save(case(hang(rank(0, ALL_REDUCE, size=2, local=1))), tmp_path / "a")
    second = folder.save(case(hang(rank(1, REWARD, size=2, local=1, host="two"), hosts=("two",))), tmp_path / "b")
    joined = hang_of(folder.load((first, second)))
    assert joined.hosts == ("one", "two")
    assert [s.rank for s in joined.processes] == ["0", "1"]


def test_what_is_there_is_never_written_over(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is there already"):
        folder.save(case(hang(seen(1, REWARD))), tmp_path)


def test_unnamed_it_lies_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (tmp_path / folder.save(case(hang(seen(1, REWARD))), None) / "hang.json").is_file()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "a folder without hang.json"),
        ("{", "not a bundle"),
        (json.dumps({"schema_version": 1}), "holds no stalled run"),
        (json.dumps({"schema_version": 1, "observations": {"hang": {"processes": 3}}}), "damaged record"),
    ],
)
def test_what_is_no_such_folder(tmp_path: Path, text: str | None, reason: str) -> None:
    if text is not None:
        (tmp_path / "hang.json").write_text(text)
    with pytest.raises(InputError, match=reason):
        folder.load((tmp_path,))


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        folder.load((tmp_path / "no",))
