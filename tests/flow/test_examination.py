"""The flow of a check: which facts and probes are needed, how deep to look, and one report out of several cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rldoctor.api import Case, Check, Finding, Level, NotApplicable, Outcome, Reach, Unknown
from rldoctor.api.facts import Distribution, Gpu, GpuProcess, Gpus, Packages
from rldoctor.api.probes import Job, Probe, Request
from rldoctor.api.results import CheckResult
from rldoctor.catalogue.registry import Registry
from rldoctor.flow import depth, examination
from rldoctor.flow import probe as probing
from rldoctor.launch.recognise import read
from rldoctor.model import Evidence, Fix, Grade, Report, Severity
from tests.cases import GIB, host

HOST = host(cpu_count=8, cpu_usable=8.0, load=0.3)
CASE = Case(
    packages=Packages(python="3.12", distributions=(Distribution(name="vllm", version="0.11.0"),)),
    host=HOST,
    gpus=Gpus(vendor="none"),
)


def probe(name: str, level: Level, needs: tuple[str, ...] = (), raises: Exception | None = None) -> Probe:
    def jobs(case: Case, request: Request) -> dict[str, Job]:
        if raises is not None:
            raise raises
        return {}

    return Probe(name=name, level=level, child=Path("child.py"), jobs=jobs, needs=needs, reads=("gpus",))


def needing(*needs: str) -> Check:
    check = Check("XYZ001", "an-example", "Document.")

    @check.declared(needs=needs)
    def judge(case: Case) -> Iterator[Finding | Reach]:
        yield Reach("everything")

    return check


def test_only_what_checks_and_probes_name_is_collected() -> None:
    probes = [probe("rollout", Level.ROLLOUT, needs=("packages.vllm",))]
    checks = [needing("host.shm_total", "observations.rollout")]
    assert examination.sections(checks, probes) == {"host", "packages", "gpus"}


def test_only_probes_whose_observations_are_needed_run_shallow_ones_first() -> None:
    probes = {p.name: p for p in (probe("rollout", Level.ROLLOUT), probe("imports", Level.IMPORTS))}
    assert probing.needed_probes([needing("host")], probes) == []
    both = probing.needed_probes([needing("observations.rollout", "observations.imports")], probes)
    assert [p.name for p in both] == ["imports", "rollout"]


def test_auto_rolls_out_where_nobody_is_disturbed() -> None:
    assert depth.auto_depth(CASE, Request()).level is Level.ROLLOUT


def test_auto_stays_at_imports_without_an_engine() -> None:
    """That there is none is said elsewhere."""
    assert depth.auto_depth(replace(CASE, packages=Packages(python="3.12")), Request()) == depth.Depth(Level.IMPORTS)


def test_auto_stays_at_imports_and_says_why() -> None:
    busy = GpuProcess(pid=4242)
    free = Gpu(index=0, name="GPU", memory_total=80 * GIB, memory_used=GIB)
    for case, reason in (
        (replace(CASE, host=None), "how busy this machine is"),
        (replace(CASE, host=replace(HOST, load=7.5)), "load 7.5"),
        (replace(CASE, host=replace(HOST, memory_available=GIB)), "1.0 GiB of memory"),
        (replace(CASE, host=replace(HOST, memory_limit=2 * GIB)), "2.0 GiB of memory"),
        (replace(CASE, gpus=Gpus(vendor="nvidia", devices=(replace(free, processes=(busy,)),))), "process 4242"),
        (replace(CASE, gpus=Gpus(vendor="nvidia", devices=(replace(free, memory_used=78 * GIB),))), "not seen here"),
        (replace(CASE, gpus=Gpus(vendor="nvidia", devices=(replace(free, memory_total=4 * GIB),))), "3.0 GiB free"),
    ):
        looked = depth.auto_depth(case, Request())
        assert looked.level is Level.IMPORTS
        assert looked.reason is not None and reason in looked.reason
    shared = replace(CASE, gpus=Gpus(vendor="nvidia", devices=(replace(free, memory_used=40 * GIB),)))
    named = depth.auto_depth(shared, Request(devices=(0,)))
    assert named.level is Level.IMPORTS and "not seen here (40 GiB)" in str(named.reason)


def test_auto_takes_the_idle_one_of_two_gpus() -> None:
    busy = Gpu(index=0, name="GPU", memory_total=80 * GIB, memory_used=70 * GIB, processes=(GpuProcess(pid=1),))
    idle = Gpu(index=1, name="GPU", memory_total=80 * GIB, memory_used=GIB)
    case = replace(CASE, gpus=Gpus(vendor="nvidia", devices=(busy, idle)))
    assert depth.auto_depth(case, Request()).level is Level.ROLLOUT
    assert depth.auto_depth(case, Request(devices=(0,))).level is Level.IMPORTS


def test_a_probe_that_was_not_run_is_explained() -> None:
    reported: list[str] = []

    def run(item: Probe, level: Level, case: Case = CASE) -> Case:
        return probing.run_probes(case, [item], Request(), depth.Depth(level), reported.append)

    deep = run(probe("rollout", Level.ROLLOUT), Level.STATIC)
    assert deep.unknown["observations.rollout"] == Unknown(
        reason="the rollout level was not run", how="--level rollout"
    )
    lacking = run(probe("rollout", Level.ROLLOUT, needs=("packages.verl",)), Level.ROLLOUT)
    assert lacking.absent["observations.rollout"] == "verl is not installed"
    elsewhere = run(probe("rollout", Level.ROLLOUT, raises=NotApplicable("an AMD device")), Level.ROLLOUT)
    assert elsewhere.absent["observations.rollout"] == "an AMD device"
    broken = run(probe("rollout", Level.ROLLOUT, raises=KeyError("heads")), Level.ROLLOUT)
    assert "could not be prepared: KeyError: 'heads'" in broken.unknown["observations.rollout"].reason


def test_several_cases_become_one_report() -> None:
    check = needing("host")
    shared = check.finding("both have it")

    def report(target: str, outcome: Outcome, *findings: Finding) -> Report:
        result = CheckResult(code=check.code, name=check.name, outcome=outcome, findings=findings)
        return Report(target=target, results=(result,), notes=("a note",))

    joined = examination.join(
        [
            report("trainer", Outcome.FINDINGS, shared),
            report("rollout", Outcome.FINDINGS, shared, check.finding("only here")),
            report("third", Outcome.PASS),
        ]
    )
    assert joined.target == "trainer; rollout; third"
    assert [(f.message, f.cases) for f in joined.findings] == [
        ("both have it", ("trainer", "rollout")),
        ("only here", ("rollout",)),
    ]
    assert [r.outcome for r in joined.results] == [Outcome.FINDINGS]
    assert joined.notes == ("a note",)
    everywhere = examination.join([report(name, Outcome.FINDINGS, shared) for name in ("trainer", "rollout")])
    assert [f.cases for f in everywhere.findings] == [()]


def test_where_nothing_was_judged_the_report_is_empty() -> None:
    joined = examination.join([])
    assert (joined.target, joined.results, joined.folder) == ("", (), None)


def test_the_cost_is_announced_before_it_is_paid() -> None:
    probes = [
        replace(probe("imports", Level.IMPORTS), seconds=9.0),
        replace(probe("rollout", Level.ROLLOUT), seconds=25.0),
    ]
    assert probing.announce(Case(), probes, Request(), Level.STATIC) is None
    for level, text in (
        (Level.IMPORTS, "running imports: about 9 s"),
        (Level.ROLLOUT, "running imports, rollout: about 34 s"),
    ):
        said = probing.announce(Case(), probes, Request(), level)
        assert said is not None and said.text == text


def test_a_long_run_says_for_how_long_and_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((100.0, 100.2, 112.0, 160.0))
    monkeypatch.setattr("rldoctor.flow.probe.time.monotonic", lambda: next(clock))
    lines: list[str] = []
    with probing.Announced("running rollout: about 34 s", 34.0).timed(lines.append) as reported:
        for _ in range(3):
            reported("rollout")
    assert lines == ["rollout", "rollout (12 s so far, about 22 s left)", "rollout (60 s so far, longer than expected)"]


def test_install_commands_are_for_the_interpreter_that_was_judged() -> None:
    tried = Check("ACME01", "tried", None)
    commands = ("pip install 'trl>=0.18'", "uv pip install vllm --torch-backend=auto", "dmesg -T", "pip install 'odd")

    @tried.declared(needs=["packages"])
    def look(case: Case) -> Any:
        yield tried.finding("old", fixes=(Fix(title="take a newer one", commands=commands),))

    def shown(executable: str | None) -> tuple[str, ...]:
        case = Case(packages=Packages(python="3.11", executable=executable))
        return examination.report(case, [tried], Registry(checks={"ACME01": tried})).findings[0].fixes[0].commands

    assert shown("/opt/my env/bin/python") == (
        "'/opt/my env/bin/python' -m pip install 'trl>=0.18'",
        "uv pip install --python '/opt/my env/bin/python' vllm --torch-backend=auto",
        "dmesg -T",
        "'/opt/my env/bin/python' -m pip install 'odd",
    )
    assert shown(None) == ("python -m pip install 'trl>=0.18'", *commands[1:3], "python -m pip install 'odd")


def test_what_the_reader_of_a_launch_noted_is_said(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("source gone.sh\npython3 -m verl.trainer.main_ppo data.max_response_length=512\n")
    (plan,) = read(tmp_path / "run.sh", version_of={"verl": "0.5.0"})
    report = examination.report(Case(plan=plan), [needing("plan")], Registry())
    assert report.notes == ("run.sh:1: source gone.sh: not followed",)


def test_what_cannot_run_costs_nothing() -> None:
    there = Case(packages=Packages(python="3.12"))
    known = Case(unknown={"observations.rollout": Unknown(reason="judged from a bundle")})
    assert (
        probing.announce(there, [probe("rollout", Level.ROLLOUT, needs=("packages.vllm",))], Request(), Level.ROLLOUT)
        is None
    )
    assert probing.announce(known, [probe("rollout", Level.ROLLOUT)], Request(), Level.ROLLOUT) is None


def refused(reads: list[str]) -> list[str]:
    """The findings of a launch that verl's own validation refuses beside one that names a batch size."""
    place = Evidence(text="raised when rows % n_gpus == 0", source="verl/utils/config.py", line=110)
    line = Evidence(text="100 rows", source="run.sh", line=2, setting="data.train_batch_size")
    followed, known = (
        Finding(code=code, name=code, severity=Severity.ERROR, grade=Grade.DECLARED, message="no", evidence=(evidence,))
        for code, evidence in (("RLD212", place), ("RLD211", line))
    )
    results = tuple(
        CheckResult(code=one.code, name=one.name, outcome=Outcome.FINDINGS, findings=(one,))
        for one in (followed, known)
    )
    refusal = {"file": place.source, "line": place.line, "reads": reads}
    case = Case(links={"frameworks": [{"name": "verl", "refusal": refusal}]})
    left = examination._refused_once(results, case)
    assert all(result.findings or result.outcome is Outcome.NOT_CHECKED for result in left)
    return [finding.code for result in left for finding in result.findings]


def test_what_is_refused_is_reported_once() -> None:
    assert refused(["data.train_batch_size", "trainer.nnodes"]) == ["RLD211"]
    assert refused(["actor_rollout_ref.rollout.temperature"]) == ["RLD212", "RLD211"]
