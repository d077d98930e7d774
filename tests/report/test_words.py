"""The words that several formats share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rldoctor.api import Check, Evidence
from rldoctor.report import words


@pytest.mark.parametrize(
    ("here", "path", "shown"),
    [
        ("job", "{top}/job/train.sh", "train.sh"),
        ("job", "{top}/other/train.sh", "{top}/other/train.sh"),
        ("job", "conf/train.sh", "conf/train.sh"),
        # Everything is below the root, where a container starts that names no folder.
        ("/", "{top}/job/train.sh", "{top}/job/train.sh"),
    ],
)
def test_a_path_is_shown_as_one_would_type_it_here(
    here: str, path: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job").mkdir()
    monkeypatch.chdir(tmp_path / here)
    assert words.shown_path(path.format(top=tmp_path)) == shown.format(top=tmp_path)


def test_a_setting_is_not_told_beside_what_follows_from_it() -> None:
    given = Evidence(text="data.max_response_length = 2048", source="run.sh", line=3)
    hence = replace(given, text="data.max_response_length = 2048, so max_model_len = 2560 (prompt 512 + response 2048)")
    elsewhere = replace(given, line=4)
    finding = Check("RLD203", "too-long", "").finding("too long", evidence=(given, hence))
    assert words.untold(finding, (given, hence, elsewhere)) == [hence, elsewhere]
