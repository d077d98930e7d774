"""Quotes and dashes of a web page in a launch: to the shell they are letters."""

from __future__ import annotations

from pathlib import Path

import pytest
from rldoctor_checks.rollout.option_unknown import check

from tests.checks.launches import LaunchFile

TRL = "trl grpo --model_name_or_path {model} --use_vllm true {option} colocate --num_generations 8 --output_dir {out}\n"


def said(folder: Path, **words: str) -> list[str]:
    given = {"model": "Qwen/Qwen3-4B", "option": "--vllm_mode", "out": "out", **words}
    file = LaunchFile(folder, TRL.format(**given), {"trl": "0.24.0"})
    return [finding.message for finding in file.findings(check)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        # https://github.com/THUDM/slime/pull/1069
        ({"model": "\u201c/models/Qwen3-4B/\u201d"}, "--model_name_or_path \u201c/models/Qwen3-4B/\u201d: the quotes"),
        ({"out": "\u2018out\u2019"}, "--output_dir \u2018out\u2019: the quotes are typographic"),
        ({"option": "\u2013vllm_mode"}, "\u2013vllm_mode: the dash is typographic, and begins no option"),
        ({"option": "\u2014vllm_mode"}, "\u2014vllm_mode: the dash is typographic"),
    ],
)
def test_letters_that_are_no_quotes_and_no_hyphens(words: dict[str, str], message: str, tmp_path: Path) -> None:
    assert any(one.startswith(message) for one in said(tmp_path, **words)), said


@pytest.mark.parametrize(
    "out",
    [
        "out/\u6a21\u578b",
        "'it\u2019s'",
        '"a \u201cquoted\u201d word"',
        "runs\u20132026",
        '"/data/out"',
    ],
)
def test_other_letters_are_quiet(out: str, tmp_path: Path) -> None:
    assert said(tmp_path, out=out) == []
