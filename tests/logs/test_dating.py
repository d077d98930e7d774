"""A traceback without a version still tells the release, by the lines of its frames."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.logs.triage import triage_text
from rldoctor.model import Report
from rldoctor.refresh.frames import encoded
from rldoctor.tables.frames import Table

OLD, MIDDLE, NEW = (("step 1;add 1", lines) for lines in ("10 30", "20 30", "20 60"))
ROWS = {
    ("vllm.core", OLD): {"0.8.0"},
    ("vllm.core", MIDDLE): {"0.8.1", "0.8.2", "0.8.2.post1"},
    ("vllm.core", NEW): {"0.9.0"},
    ("vllm.worker", ("run 0;last 0", "5 20")): {"0.8.0", "0.8.1"},
    ("vllm.worker", ("run 0", "50")): {"0.8.2", "0.8.2.post1"},
    ("vllm.worker", ("other 0", "50")): {"0.9.0"},
}


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "folder", tmp_path)
    Table.write("vllm", encoded(ROWS, ["0.8.0", "0.8.1", "0.8.2", "0.8.2.post1", "0.9.0"]))


def triaged(*frames: tuple[str, str, int], head: str = "") -> Report:
    lines = [
        f'  File "/e/lib/python3.12/site-packages/vllm/{name}.py", line {line}, in {function}\n    x()'
        for name, function, line in frames
    ]
    return triage_text("\n".join([f"{head}Traceback (most recent call last):", *lines, "ValueError: it broke"]))


def reported(report: Report) -> tuple[str | None, tuple[str, ...]]:
    assert report.incident is not None
    return report.incident.versions.get("vllm"), (*report.incident.dated, *report.notes)


def test_one_release_is_a_version() -> None:
    version, notes = reported(triaged(("core", "step", 45), ("worker", "run", 60)))
    assert version == "0.8.2"
    assert notes == (
        "vllm 0.8.2 to 0.8.2.post1",
        "vllm after 0.8.2.post1 no longer has run of vllm.worker, where it failed",
    )


def test_several_releases_are_reported_and_no_version() -> None:
    version, notes = reported(triaged(("core", "step", 45), ("core", "add", 65)))
    assert version is None
    assert notes == ("vllm 0.8.1 to 0.8.2.post1",)


def test_what_the_log_says_of_itself_counts_more() -> None:
    head = "INFO 05-05 10:00:00 Initializing an LLM engine (v0.8.1) with config\n"
    assert reported(triaged(("core", "step", 45), ("worker", "run", 60), head=head))[0] == "0.8.1"


@pytest.mark.parametrize(
    "frames",
    [
        [("core", "step", 45)],
        [("core", "step", 45), ("worker", "fork_only", 60)],
        [("mine", "step", 25), ("mine", "run", 60)],
    ],
    ids=["one frame", "a fork's function", "modules that no release has"],
)
def test_what_tells_too_little_is_not_dated(frames: list[tuple[str, str, int]]) -> None:
    version, notes = reported(triaged(*frames))
    assert (version, notes) == (None, ())


def test_a_framework_whose_module_is_called_otherwise() -> None:
    rows = {("swift.core", OLD): {"3.1.0"}, ("swift.core", NEW): {"3.2.0"}}
    Table.write("ms-swift", encoded(rows, ["3.1.0", "3.2.0"]))
    site = "/e/lib/python3.12/site-packages/swift/core.py"
    frames = [f'  File "{site}", line {line}, in {function}\n    x()' for function, line in (("step", 15), ("add", 45))]
    report = triage_text("\n".join(["Traceback (most recent call last):", *frames, "ValueError: it broke"]))
    assert report.incident is not None and report.incident.dated == ("ms-swift 3.1.0",)
