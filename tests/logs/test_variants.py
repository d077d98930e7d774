"""One failure as different releases and programs word it: messages of vLLM, torch, NCCL, Ray, Triton, TRL, verl, the
kernel and schedulers, each in a traceback of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldoctor.logs.triage import triage_text

from .asking import shown

ROWS = [json.loads(line) for line in Path(__file__).with_name("variants.jsonl").read_text("utf-8").splitlines()]


def _name(row: dict[str, str]) -> str:
    return f"{row['code']}-{row['log'].strip().splitlines()[-1][:40]}"


@pytest.mark.parametrize("row", ROWS, ids=_name)
def test_the_code_is_the_same_in_every_wording(row: dict[str, str]) -> None:
    report = triage_text(row["log"])
    assert report.findings
    assert report.findings[0].code == row["code"]
    assert triage_text(shown(row["log"])).findings == ()
