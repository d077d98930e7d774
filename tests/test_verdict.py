"""What must have been reached before "no problem found" is said, and what is said where it was not: the whole way from
the command line to its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rldoctor import cli, verdict
from rldoctor.case import Case, Distribution, Gpus, Packages, Unknown
from rldoctor.catalogue.check import Check, Reach
from rldoctor.catalogue.probe import Probe
from rldoctor.catalogue.registry import Registry
from rldoctor.flow.examination import join, report
from rldoctor.model import CheckResult, Level, Missing, Outcome, Report, State

LAUNCH = """#!/usr/bin/env bash
python3 -m verl.trainer.main_ppo \\
    data.max_prompt_length=1024 \\
    data.max_response_length=1024 \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 \\
    trainer.n_gpus_per_node=1 \\
    trainer.nnodes=1
"""
A100 = {"name": "NVIDIA A100-SXM4-80GB", "memory_gib": 80, "compute_capability": "8.0", "count": 1}
MACHINE: dict[str, Any] = {
    "python": "3.11",
    "packages": {"verl": "0.6.1", "vllm": "0.11.0", "torch": "2.8.0", "transformers": "4.56.1"},
    "env": {},
    "gpus": [A100],
    "nodes": 1,
}

TRL = {**MACHINE, "packages": {"trl": "0.23.0", "vllm": "0.10.2", "torch": "2.8.0", "transformers": "4.56.2"}}

Check_ = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Check_:
    """Judges a launch for a machine; the exit code, the verdict of the JSON report and the last line of stderr."""
    monkeypatch.chdir(tmp_path)

    def judged(*options: str, launch: str = LAUNCH, machine: Any = MACHINE) -> tuple[int, dict[str, Any], str]:
        Path("run.sh").write_text(launch)
        Path("machine.json").write_text(json.dumps(machine))
        assumed = () if machine is None else ("--assume", "machine.json")
        with pytest.raises(SystemExit) as left:
            cli.main(["check", "run.sh", "--level", "static", "--format", "json", *assumed, *options])
        shown = capsys.readouterr()
        verdict = json.loads(shown.out)["verdict"] if shown.out else {}
        return int(str(left.value.code)), verdict, shown.err.splitlines()[-1]

    return judged


def without(*packages: str) -> dict[str, Any]:
    return {**MACHINE, "packages": {k: v for k, v in MACHINE["packages"].items() if k not in packages}}


def test_a_required_code_that_could_not_be_judged_fails_the_gate(check: Check_) -> None:
    """What its probe would have to see cannot be seen for another machine."""
    assert check("--level", "static")[0] == 0
    code, reported, last = check("--level", "static", "--require", "RLD311")
    assert (code, reported["state"]) == (2, "not-judged")
    assert "RLD311 was asked for and not checked" in last
    assert check("--level", "static", "--require", "RLD202")[0] == 0
    assert check("--level", "static", "--select", "RLD2", "--require", "RLD311")[0] == 2


def test_all_that_the_verdict_speaks_about_was_reached(check: Check_) -> None:
    assert check()[:2] == (0, {"state": "passed", "fail_on": "error", "missing": []})


@pytest.mark.parametrize(
    ("given", "what", "how"),
    [
        ("data.max_response_length=$RESPONSE", "data.max_response_length", "RESPONSE"),
        ("data.max_response_length=${RESPONSE:?}", "data.max_response_length", "RESPONSE"),
        ("actor_rollout_ref.rollout.tensor_model_parallel_size=$TP", "tensor_model_parallel_size", "TP"),
        ("trainer.n_gpus_per_node=$NPROC", "trainer.n_gpus_per_node", "NPROC"),
        ("actor_rollout_ref.rollout.n=${N}", "actor_rollout_ref.rollout.n", "N"),
        ("actor_rollout_ref.model.path=$MODEL", "actor_rollout_ref.model.path", "MODEL"),
        ("data.max_response_length=$1", "data.max_response_length", "rldoctor check FILE -- ARGUMENTS"),
        ("data.max_response_length=$(cat length)", "data.max_response_length", None),
        ("--multirun trainer.nnodes=1,2", "trainer.nnodes", None),
    ],
)
def test_a_core_setting_that_nobody_can_read(check: Check_, given: str, what: str, how: str | None) -> None:
    code, found, _ = check(launch=f"{LAUNCH.rstrip()} \\\n    {given}\n")
    (missing,) = found["missing"]
    assert (code, found["state"]) == (2, "not-judged")
    assert missing["what"].startswith("run.sh:9: ") and f"{what} is not known: " in missing["what"]
    assert missing["how"] is None if how is None else how in missing["how"]


def test_another_engine_than_vllm_has_a_release_too(check: Check_) -> None:
    launch = f"{LAUNCH.rstrip()} \\\n    actor_rollout_ref.rollout.name=sglang\n"
    code, found, _ = check(launch=launch)
    assert (code, [missing["what"] for missing in found["missing"]]) == (2, ["the release of sglang is not named"])
    assert check("--assume", "sglang==0.4.6.post5", launch=launch)[0] == 0


def test_all_variables_that_are_missing_are_named_at_once(check: Check_) -> None:
    launch = f"{LAUNCH.rstrip()} \\\n    actor_rollout_ref.rollout.n=$N data.max_response_length=$LENGTH\n"
    (missing,) = check(launch=launch)[1]["missing"]
    assert missing["how"] == '"env" of the assumed machine.json with LENGTH, N'
    (missing,) = check(launch=launch, machine={k: v for k, v in MACHINE.items() if k != "env"})[1]["missing"]
    assert missing["how"] == "LENGTH=VALUE N=VALUE rldoctor check FILE"


@pytest.mark.parametrize(
    "given",
    [
        "data.val_files=$DATA/test.parquet",
        "trainer.experiment_name=$NAME",
        "trainer.save_freq=$SAVE",
        "trainer.logger=$L",
    ],
)
def test_an_unknown_value_that_decides_nothing(check: Check_, given: str) -> None:
    assert check(launch=f"{LAUNCH.rstrip()} \\\n    {given}\n")[:1] == (0,)


def test_a_core_setting_that_the_machine_or_the_arguments_tell(check: Check_) -> None:
    launch = f"{LAUNCH.rstrip()} \\\n    actor_rollout_ref.rollout.n={{}}\n"
    assert check(launch=launch.format("$N"), machine={**MACHINE, "env": {"N": "8"}})[0] == 0
    assert check("--", "8", launch=launch.format("$1"))[0] == 0


def test_a_core_setting_that_the_arguments_make_unreadable(check: Check_) -> None:
    code, found, _ = check("--", "--multirun", "trainer.nnodes=1,2", launch=f'{LAUNCH.rstrip()} "$@"\n')
    assert code == 2
    assert found["missing"][0]["what"] == "run.sh: trainer.nnodes is not known: a sweep over several values"


def test_what_is_set_aside_was_judged(check: Check_) -> None:
    broken = LAUNCH.replace("trainer.nnodes", "actor_rollout_ref.rollout.gpu_memory_utilisation=0.5 trainer.nnodes")
    assert check("--select", "RLD219", launch=broken)[0] == 1
    assert check("--select", "RLD219", "--ignore", "RLD219", launch=broken)[0] == 0


def test_a_run_that_failed_for_what_was_not_asked_is_not_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "run.log"
    log.write_text("Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nKeyError: 'prompt'\n")
    for options, code, said in (
        (["--select", "RLD1"], 2, "cannot judge: the run failed, and none of the selected checks says why"),
        (["--ignore", "RLD"], 0, "failed: no problem found"),
        ([], 1, "failed: RLD902"),
    ):
        with pytest.raises(SystemExit) as left:
            cli.main(["triage", str(log), *options])
        assert left.value.code == code
        assert capsys.readouterr().out.startswith(said)


def test_core_settings_that_nobody_can_read_are_one_line(check: Check_) -> None:
    launch = LAUNCH.replace("response_length=1024", "response_length=$R").replace(
        "parallel_size=1", "parallel_size=$TP"
    )
    code, found, _ = check(launch=launch)
    assert code == 2
    (missing,) = found["missing"]
    assert missing["what"] == (
        "run.sh:4: data.max_response_length is not known (so is "
        "actor_rollout_ref.rollout.tensor_model_parallel_size at run.sh:6): R is not set in this file"
    )


@pytest.mark.parametrize(
    ("machine", "what", "how"),
    [
        (without("verl"), "the release of verl is not named", "--assume verl==VERSION"),
        (without("vllm"), "the release of vllm is not named", "--assume vllm==VERSION"),
        (
            without("vllm", "verl"),
            "the releases of verl and vllm are not named",
            "--assume verl==VERSION --assume vllm==VERSION",
        ),
    ],
)
def test_a_release_that_is_not_named(check: Check_, machine: Any, what: str, how: str) -> None:
    code, found, said = check(machine=machine)
    assert (code, found["state"], found["missing"]) == (2, "not-judged", [{"what": what, "how": how}])
    assert f"{what} ({how})" in said


def test_a_launch_judged_where_nothing_of_it_is_installed(check: Check_) -> None:
    code, found, _ = check(machine=None)
    whats = [missing["what"] for missing in found["missing"]]
    assert code == 2
    assert any(what.startswith("verl and vllm are not installed in ") for what in whats), whats


def test_findings_are_findings_whatever_is_missing(check: Check_) -> None:
    broken = LAUNCH.replace("trainer.nnodes", "actor_rollout_ref.rollout.gpu_memory_utilisation=0.5 trainer.nnodes")
    code, found, _ = check(launch=broken, machine=without("vllm"))
    assert (code, found["state"]) == (1, "findings")
    assert [missing["how"] for missing in found["missing"]] == ["--assume vllm==VERSION"]
    assert check("--fail-on", "never", launch=broken)[:2] == (0, {"state": "passed", "fail_on": "never", "missing": []})


def test_a_framework_that_nobody_knows(check: Check_) -> None:
    code, found, _ = check(launch="python -m roll.train --max_model_len 4096\n")
    assert code == 2
    assert found["missing"][0]["what"] == "run.sh:1: no framework known here starts roll.train"


def test_a_config_file_that_is_not_there(check: Check_) -> None:
    code, found, _ = check(launch="trl grpo --config absent.yaml\n")
    assert code == 2
    assert "a part of the launch could not be read: absent.yaml: named here, not found" in [
        missing["what"] for missing in found["missing"]
    ]


def test_a_config_of_accelerate_that_is_not_there(check: Check_) -> None:
    """It says how many processes there are."""
    launch = "accelerate launch --config_file absent.yaml{} train.py\n"
    Path("train.py").write_text("from trl import GRPOConfig\nargs = GRPOConfig(use_vllm=True, vllm_mode='colocate')\n")
    code, found, _ = check(launch=launch.format(""), machine=TRL)
    whats = [missing["what"] for missing in found["missing"]]
    assert (code, whats) == (2, ["run.sh:1: num_processes is not known: absent.yaml: named here, not found"])
    assert check(launch=launch.format(" --num_processes 1"), machine=TRL)[0] == 0


def test_a_wrapper_whose_script_is_not_there(check: Check_) -> None:
    code, _, said = check(launch="srun bash scripts/train.sh\n")
    assert code == 2
    assert said == (
        "rldoctor: run.sh:1: scripts/train.sh: another script, not found here; hand over the file that starts the "
        "training"
    )


def test_a_package_that_is_not_where_the_launch_is_judged(check: Check_) -> None:
    """Whether it is in the launch's own environment nobody knows: no check says that it does not apply."""
    Path("run.sh").write_text(LAUNCH)
    with pytest.raises(SystemExit):
        cli.main(["check", "run.sh", "--level", "static", "--format", "json", "--output", "report.json"])
    rows = json.loads(Path("report.json").read_text())["checks"]
    reasons = [row["reason"] for row in rows if row["outcome"] == "not-applicable"]
    assert not [reason for reason in reasons if "vllm is not installed" in reason and ";" not in reason]
    assert any("vllm is not installed in " in (row["reason"] or "") for row in rows if row["outcome"] == "not-checked")


@pytest.mark.parametrize(
    ("options", "launch", "said"),
    [
        (("--assume", "vlm==0.8.5"), LAUNCH, "--assume vlm==0.8.5: no check reads a package vlm; did you mean vllm?"),
        (("--assume", "flask==3.0"), LAUNCH, "--assume flask==3.0: no check reads a package flask"),
        (("--framework", "trl"), LAUNCH, "run.sh:2: verl.trainer.main_ppo is verl's, not TRL's; leave --framework out"),
        (("--framework", "verl"), "Read me first.\n", "run.sh: nothing in it is a setting of verl"),
        ((), "Read me first.\n", "run.sh: starts nothing that rldoctor knows"),
    ],
)
def test_what_cannot_be_meant(check: Check_, options: tuple[str, ...], launch: str, said: str) -> None:
    code, found, last = check(*options, launch=launch)
    assert (code, found) == (2, {})
    assert last.startswith(f"rldoctor: {said}")


@pytest.mark.parametrize(("right", "wrong"), [("vllm", "vlm"), ("transformers", "tranformers"), ("torch", "troch")])
def test_a_misspelled_package_of_a_machine(check: Check_, right: str, wrong: str) -> None:
    code, _, said = check(machine={**MACHINE, "packages": {**without(right)["packages"], wrong: "0.8.5"}})
    assert code == 2
    assert said == f"rldoctor: --assume machine.json: no check reads a package {wrong}; did you mean {right}?"


@pytest.mark.parametrize("name", ["flask", "trlx", "ray-cpp", "torch-npu", "nvidia-cublas-cu12", "torchao"])
def test_an_environment_may_hold_other_packages(check: Check_, name: str) -> None:
    assert check(machine={**MACHINE, "packages": {**MACHINE["packages"], name: "1.0"}})[0] == 0


PACKAGES = Packages(python="3.11", distributions=(Distribution(name="vllm", version="0.11.0"),))


def judged(case: Case, *needs: str, crash: bool = False) -> Report:
    tried = Check("ACME01", "tried", None)

    @tried.declared(needs=list(needs))
    def look(case: Case) -> Any:
        if crash:
            raise KeyError("heads")
        yield Reach("all of it")

    return report(case, [tried], Registry(checks={tried.code: tried}))


def missing(subject: verdict.Subject, case: Case, found: Report, **more: Any) -> list[str]:
    asked = {"sections": {"packages", "gpus", "plan"}, "required": (), **more}
    return [one.what for one in verdict.missing(subject, case, found, **asked)]


def test_an_environment_without_anything_to_examine() -> None:
    empty = Case(packages=Packages(python="3.11", prefix="/opt/env"))
    said = "no vLLM and no RL framework is in /opt/env"
    assert missing(verdict.Subject.ENVIRONMENT, empty, judged(empty, "packages")) == [said]
    case = Case(packages=PACKAGES)
    assert missing(verdict.Subject.ENVIRONMENT, case, judged(case, "packages")) == []


def test_what_no_selected_check_reads_need_not_be_there() -> None:
    empty = Case(packages=Packages(python="3.11", prefix="/opt/env"))
    assert missing(verdict.Subject.ENVIRONMENT, empty, judged(empty, "packages"), sections={"host"}) == []


def test_a_check_that_crashed_or_was_required_and_not_checked() -> None:
    case = Case(packages=PACKAGES)
    crashed = judged(case, "packages", crash=True)
    assert missing(verdict.Subject.ENVIRONMENT, case, crashed) == ["ACME01 crashed: KeyError: 'heads'"]
    open_ = judged(case, "host")
    assert missing(verdict.Subject.ENVIRONMENT, case, open_, required={"ACME01"}) == [
        "ACME01 was asked for and not checked: host was not collected"
    ]
    assert missing(verdict.Subject.ENVIRONMENT, case, open_) == ["nothing could be judged: host was not collected"]


def probe(name: str, level: Level) -> Probe:
    return Probe(name=name, level=level, child=Path("child.py"), jobs=lambda case, request: {})


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (Case(observations={"imports": {"vllm": {"ended": "done"}}}), []),
        (Case(observations={"imports": {"vllm": {"ended": "raised"}}}), []),
        (
            Case(observations={"imports": {"vllm": {"ended": "timed-out"}}}),
            ["imports: vllm was ended by its time limit"],
        ),
        (Case(observations={"imports": {"vllm": {"ended": "not-started"}}}), ["imports: vllm could not be started"]),
        (
            Case(observations={"imports": {"vllm": {"ended": "not-run", "why": "no kernel"}}}),
            ["imports did not run: no kernel"],
        ),
        (Case(absent={"observations.imports": "no torch"}), ["--level imports did not run: no torch"]),
        (
            Case(unknown={"observations.imports": Unknown(reason="no interpreter")}),
            ["--level imports did not run: no interpreter"],
        ),
    ],
)
def test_a_level_that_was_asked_for_and_did_not_run(case: Case, said: list[str]) -> None:
    probes = [probe("imports", Level.IMPORTS), probe("rollout", Level.ROLLOUT)]
    assert [one.what for one in verdict.not_run(case, probes, Level.IMPORTS)] == said


def test_a_machine_without_a_gpu_is_not_the_one_that_a_launch_is_for(check: Check_) -> None:
    from rldoctor.plan.model import RolloutPlan

    plan = RolloutPlan(framework="verl", dialect="verl", file="run.sh", entry="x", version="0.6.1")
    laptop = Case(packages=PACKAGES, plan=plan, gpus=Gpus(vendor="none"))
    said = "this machine has no GPU, so it is not the one that the launch is for"
    found = judged(laptop, "packages")
    assert missing(verdict.Subject.LAUNCH, laptop, found) == [said]
    assert missing(verdict.Subject.LAUNCH, laptop, found, sections={"plan", "packages"}) == []
    code, verdict_, _ = check(machine={**MACHINE, "gpus": []})
    assert (code, verdict_["missing"][0]["what"]) == (2, said.replace("this machine", "the assumed machine"))


def test_of_several_reports_each_says_what_it_missed() -> None:
    row = CheckResult(code="ACME01", name="tried", outcome=Outcome.PASS)
    shared, own = Missing(what="the GPUs are not known"), Missing(what="the release of verl is not named")
    reports = [Report(target="a", results=(row,), missing=(shared,)), Report(target="b", results=(row,))]
    assert [m.what for m in join(reports).missing] == ["a: the GPUs are not known"]
    both = [
        Report(target="a", results=(row,), missing=(shared, own)),
        Report(target="b", results=(row,), missing=(shared,)),
    ]
    assert [m.what for m in join(both).missing] == [shared.what, f"a: {own.what}"]
    assert verdict.over(join(both), "error").verdict.state is State.NOT_JUDGED  # type: ignore[union-attr]


def test_where_roles_have_environments_of_their_own_each_needs_its_own_half() -> None:
    def open_(role: str | None, version: str | None, *names: str) -> list[str]:
        from rldoctor.plan.model import RolloutPlan

        plan = RolloutPlan(framework="verl", dialect="verl", file="run.sh", entry="x", version=version)
        there = Packages(python="3.11", distributions=tuple(Distribution(name=n, version="1") for n in names))
        case = Case(packages=there, plan=plan, role=role)
        return missing(verdict.Subject.LAUNCH, case, judged(case, "packages"), sections={"packages"})

    assert open_("trainer", "0.6.1", "verl") == []
    assert open_("rollout", None, "vllm") == []
    assert open_("trainer", None, "numpy") == ["verl and vllm are not installed in the environment"]
    assert len(open_(None, "0.6.1", "verl")) == 1


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:01<00:04,  1.4s/it]\n", 2),
        (" 12%|█         | 100/800 [31:40<221:40, 19.72s/it]\n", 0),
    ],
)
def test_a_log_that_ends_while_the_run_starts(
    end: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "run.log"
    begun = "".join(f"INFO 11-20 21:30:1{n} [parallel_state.py:{n}] rank 0 of 1 is up\n" for n in range(6))
    log.write_text(begun + end)
    with pytest.raises(SystemExit) as left:
        cli.main(["triage", str(log)])
    assert left.value.code == code
    first = capsys.readouterr().out.splitlines()[0]
    starting = "cannot judge: the run was cut off, or is still starting"
    assert first.startswith(starting if code else "cut off or still running at step 100 of 800")


@pytest.mark.parametrize(
    ("packages", "said"),
    [
        ({"trl": "99.0"}, "the options of trl 99.0 are not known (read were "),
        ({"vllm": "99.0"}, "the options of vllm 99.0 are not known (read were "),
    ],
)
def test_a_release_that_nobody_read_is_not_judged(check: Check_, packages: dict[str, str], said: str) -> None:
    machine = {**TRL, "packages": {**TRL["packages"], **packages}}
    launch = "trl vllm-serve --model Qwen/Qwen2.5-7B-Instruct\n" if "vllm" in packages else TRAINED
    code, verdict, _ = check("--select", "RLD2", launch=launch, machine=machine)
    assert code == 2
    assert any(one["what"].startswith(said) for one in verdict["missing"]), verdict
    known = check("--select", "RLD2", launch=launch, machine=TRL)[1]["missing"]
    assert not any("the options of" in one["what"] for one in known)


TRAINED = "accelerate launch --num_processes 1 grpo.py --use_vllm True --vllm_mode colocate --max_steps 10\n"
