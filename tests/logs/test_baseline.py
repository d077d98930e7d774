"""What a failed run wrote that a healthy one did not, and how alike two lines of two runs are."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from rldoctor.errors import InputError
from rldoctor.logs import baseline as kinds
from rldoctor.logs.baseline import Baseline, read_baseline
from rldoctor.logs.novelty import MOST_SHOWN, MOST_SUPPORTING
from rldoctor.logs.prefixes import parse
from rldoctor.logs.templates import template
from rldoctor.logs.triage import triage
from rldoctor.model import Report
from tests.loaded import REGISTRY

from .asking import raised
from .excerpts import HEALTHY, OUT_OF_MEMORY, ranked

BEGUN = HEALTHY.removesuffix("DONE\n")
TURN = "/opt/venv/lib/python3.11/site-packages/gizmo/a.py turn"
UNKNOWN = raised("FrobnicationError", "the gizmo is upside down", TURN)
SLOW = "WARNING 11-20 21:24:34 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds.\n"
SAID = SLOW.split("] ")[1].strip()
BROKEN = "gizmo calibration file is from another machine\n"


def run(tmp_path: Path, log: str, *healthy: str, all_runs: bool = False) -> Report:
    paths = []
    for number, text in enumerate(healthy):
        paths.append(tmp_path / f"healthy_{number}.log")
        paths[-1].write_text(text)
    (tmp_path / "run.log").write_text(log)
    checks = REGISTRY.checks.values()
    return triage([str(tmp_path / "run.log")], checks, baseline=[str(path) for path in paths], all_runs=all_runs)


def new(report: Report) -> list[tuple[str, int | None]]:
    said = [e for e in report.findings[0].evidence if e.text.startswith("new against the baseline: ")]
    return [(e.text.removeprefix("new against the baseline: "), e.line) for e in said]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("step 3 took 1.5 s", "step 1200 took 0.25 s"),
        ("[rank3]: loss -0.5 lr 1e-06", "[rank61]: loss 12 lr 2.5e-5"),
        ("saved to /home/a/run_17/checkpoint-10/model.safetensors", "saved to /mnt/b/c/model.safetensors"),
        (
            "INFO 11-20 21:24:33 [core.py:133] actor 0xdeadbeef is up",
            "INFO 11-21 01:00:01 [core.py:134] actor 0x12ab is up",
        ),
        ("worker 3f2a9b1c7d ip 10.0.0.1", "worker 77aa01bc22fe ip 192.168.1.254"),
        (
            "id 123e4567-e89b-12d3-a456-426614174000 at 2026-11-20 10:00:00",
            "id aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee at 2026-11-21 11:11:11,5",
        ),
        (" 25%|##5       | 1/4 [00:01<00:03,  1.0s/it]", "100%|##########| 4/4 [00:04<00:00,  1.1s/it]"),
        ("shape [1, 2, 3]", "shape [4, 5, 6, 7]"),
        ("(WorkerDict pid=17, ip=1.2.3.4) ready", "(WorkerDict pid=99) ready [repeated 3x across cluster]"),
    ],
)
def test_lines_of_one_statement_are_equal(one: str, other: str) -> None:
    assert template(parse(one).text) == template(parse(other).text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("loss 0.5", "loss nan"),
        ("saved model.safetensors", "saved optimizer.pt"),
        ("NCCL uses IB", "NCCL uses Socket"),
    ],
)
def test_lines_of_two_statements_are_not(one: str, other: str) -> None:
    assert template(one) != template(other)


def test_an_unknown_failure_shows_what_is_new_before_it(tmp_path: Path) -> None:
    report = run(tmp_path, BEGUN + SLOW + BROKEN + UNKNOWN, HEALTHY.replace("11-20", "11-19"))
    assert report.findings[0].code == "RLD900"
    number = len(BEGUN.splitlines())
    assert new(report) == [(SAID, number + 1), (BROKEN.strip(), number + 2)]


def test_what_every_run_writes_is_not_shown(tmp_path: Path) -> None:
    healthy = HEALTHY + SLOW.replace("60", "120") + BROKEN
    report = run(tmp_path, BEGUN + SLOW + BROKEN + UNKNOWN, HEALTHY, healthy)
    assert (report.findings[0].code, new(report)) == ("RLD900", [])


def test_a_known_cause_stays_and_gets_a_few_lines(tmp_path: Path) -> None:
    odd = "".join(f"gizmo number {word} is odd\n" for word in ("one", "two", "three", "four", "five"))
    for log in (BEGUN + odd + OUT_OF_MEMORY, ranked(0, BEGUN + odd) + ranked(3, OUT_OF_MEMORY)):
        alone, compared = run(tmp_path, log), run(tmp_path, log, HEALTHY)
        assert [f.code for f in compared.findings] == [f.code for f in alone.findings]
        assert compared.incident == alone.incident
        assert [r.outcome for r in compared.results] == [r.outcome for r in alone.results]
        assert len(new(compared)) == MOST_SUPPORTING


def test_only_so_many_lines_are_shown_warnings_and_near_ones_first(tmp_path: Path) -> None:
    words = [f"{a}{b}{c}ism" for a in "kmpst" for b in "aeiou" for c in "lnrst"]
    chatter = "".join(f"a line about {word} comes up\n" for word in words)
    report = run(tmp_path, BEGUN + SLOW + chatter + UNKNOWN, HEALTHY)
    shown = [text for text, _ in new(report)]
    assert len(shown) == MOST_SHOWN
    assert shown[0].startswith("No available shared memory")
    assert f"a line about {words[-1]} comes up" in shown


def test_a_warning_far_away_counts_and_chatter_far_away_does_not(tmp_path: Path) -> None:
    known = "".join(f"request {i} finished after {i} tokens\n" for i in range(30_000))
    report = run(tmp_path, BEGUN + SLOW + BROKEN + known + UNKNOWN, HEALTHY + known)
    assert new(report) == [(SAID, len(BEGUN.splitlines()) + 1)]


def test_samples_and_frames_are_no_news(tmp_path: Path) -> None:
    shown = json.dumps({"step": 1, "response": "an error in a poem"}) + "\n"
    shown += "[prompt] tell of doom\n[response] all failed\n[score] 0\n"
    handled = "retrying the gizmo\n" + raised("GizmoError", "not ready", TURN) + "gizmo works\n" * 4
    report = run(tmp_path, BEGUN + shown + handled + "".join(BEGUN.splitlines(True)[2:5]) + UNKNOWN, HEALTHY)
    assert sorted(text for text, _ in new(report)) == ["GizmoError: not ready", "gizmo works", "retrying the gizmo"]


def test_only_the_last_run_is_compared(tmp_path: Path) -> None:
    banner = "nohup: ignoring input\n"
    report = run(tmp_path, banner + BROKEN + UNKNOWN + banner + BEGUN + UNKNOWN, banner + HEALTHY, all_runs=True)
    assert new(report) == []
    assert new(report.earlier_runs[0]) == []


def test_ranks_and_folders_and_compressed_baselines(tmp_path: Path) -> None:
    folder = tmp_path / "healthy"
    folder.mkdir()
    (folder / "rank_0.log").write_text(HEALTHY)
    (folder / "rank_1.log.gz").write_bytes(gzip.compress(BROKEN.encode()))
    (folder / "empty.log").write_text("")
    (tmp_path / "run.log").write_text(BEGUN + ranked(3, BROKEN) + ranked(3, SLOW) + UNKNOWN)
    checks = REGISTRY.checks.values()
    report = triage([str(tmp_path / "run.log")], checks, baseline=[str(folder)])
    assert [text for text, _ in new(report)] == [SAID]
    assert any("empty.log is empty" in note for note in report.notes)


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("missing.log", None, "--baseline: {} does not exist"),
        ("empty.log", b"", "--baseline: {} is empty"),
        ("blank.log", b"\n\n \n", "--baseline: {} is empty"),
        ("model.bin", b"\x7fELF" + bytes(range(256)), "--baseline: {} is no log: a program or library"),
    ],
)
def test_a_baseline_that_cannot_be_read_is_refused(
    tmp_path: Path, name: str, data: bytes | None, complaint: str
) -> None:
    file = tmp_path / name
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(InputError) as refused:
        read_baseline([str(file)])
    assert str(refused.value) == complaint.format(file)


def test_memory_is_bounded_and_the_report_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "MOST_TEMPLATES", 50)
    monkeypatch.setattr(kinds, "_MOST_SHAPES", 20)
    rnd = random.Random(1)
    noise = "".join("".join(rnd.choices("abcdefghij", k=8)) + " is here\n" for _ in range(500))
    baseline = Baseline()
    baseline.add(noise.encode())
    assert (len(baseline), baseline.full) == (50, True)
    report = run(tmp_path, BEGUN + UNKNOWN, HEALTHY + noise)
    assert any("more than 50 kinds of lines" in note for note in report.notes)
