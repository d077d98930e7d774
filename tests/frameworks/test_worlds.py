"""A value that cannot be read is not a missing one: what follows from it is unknown, and nothing is judged wrong or
right that its value would decide."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path

import pytest

from rldoctor.api import Outcome, Setting, Severity
from rldoctor.api.results import CheckResult
from rldoctor.judge import judge
from tests.checks.launches import LaunchFile
from tests.frameworks.conftest import Launches
from tests.frameworks.test_dropped import LAUNCHES
from tests.loaded import REGISTRY

UNREAD = cycle(("$(cat x)", "${UNSET_VAR}"))
OPTION = re.compile(r"(?:--[a-z][\w.-]*[ =]|[a-z_][\w.]*=)(?P<value>[\w./][\w./-]*)")
# The same launches with a fault each, so that what is lost would decide whether there is one.
BROKEN = {
    "verl": ("max_num_batched_tokens=16384", "max_num_batched_tokens=4096"),
    "trl": ("--num_generations 8", "--num_generations 7"),
    "openrlhf": ("--micro_train_batch_size 8", "--micro_train_batch_size 9"),
    "ms-swift": ("--vllm_max_model_len 10240", "--vllm_max_model_len 4096"),
    "slime": ("--global-batch-size 256", "--global-batch-size 250"),
    "prime-rl": ("--orchestrator.group-size 16", "--orchestrator.group-size 15"),
}


def others(value: str) -> list[str]:
    """Other values that could stand in the place of one."""
    if value.lower() in ("true", "false"):
        return ["false" if value.lower() == "true" else "true"]
    if value.isdigit():
        return [str(int(value) * 2), str(int(value) * 3)]
    return [str(float(value) / 3)] if re.fullmatch(r"[\d.]+", value) else ["org/other"] if "/" in value else []


def judged(
    folder: Path, text: str, versions: dict[str, str]
) -> tuple[Mapping[str, Setting], Mapping[str, CheckResult]]:
    """The settings of a launch, and what each check makes of it."""
    folder.mkdir(parents=True)
    (case,) = LaunchFile(folder, f"{text}\n", versions, gpus=8).cases()
    assert case.plan is not None
    return case.plan.settings, {result.code: result for result in judge(REGISTRY.checks.values(), case)}


def value(settings: Mapping[str, Setting], name: str) -> object:
    return settings[name].value if name in settings else None


@pytest.mark.parametrize("framework", LAUNCHES)
@pytest.mark.parametrize("broken", [False, True], ids=["healthy", "broken"])
def test_what_cannot_be_read_decides_nothing(framework: str, broken: bool, tmp_path: Path) -> None:
    command, parts, versions = LAUNCHES[framework]
    text = " ".join([command, *parts])
    if broken:
        assert BROKEN[framework][0] in text
        text = text.replace(*BROKEN[framework])
    whole = judged(tmp_path / "whole", text, versions)
    for number, option in enumerate(OPTION.finditer(text)):
        before, after = text[: option.start("value")], text[option.end("value") :]
        known = [whole]
        for one in others(option["value"]):
            known.append(judged(tmp_path / f"{number} {one.replace('/', ' ')}", f"{before}{one}{after}", versions))
        settings, results = judged(tmp_path / f"{number}", f"{before}{next(UNREAD)}{after}", versions)
        for name in {name for found, _ in known for name in found}:
            if any(value(found, name) != value(whole[0], name) for found, _ in known):
                assert name in settings and settings[name].unknown is not None, (option[0], name)
        for code, result in results.items():
            assert result.outcome is not Outcome.CRASHED, result.traceback
            outcomes = [found[code].outcome for _, found in known]
            if Outcome.FINDINGS in outcomes:
                assert result.outcome is not Outcome.PASS, (option[0], code, result.reason)
            if any(outcome is not Outcome.FINDINGS for outcome in outcomes):
                wrong = [finding.message for finding in result.findings if finding.severity is Severity.ERROR]
                assert not wrong, (option[0], code, wrong)


def test_the_reason_names_what_cannot_be_read(launches: Launches) -> None:
    command = "python3 -m verl.trainer.main_ppo trainer.nnodes=1 trainer.n_gpus_per_node=8"
    (plan,) = launches(
        {"run.sh": f"{command} actor_rollout_ref.rollout.tensor_model_parallel_size=$(cat x)\n"}, verl="0.6.1"
    )
    engines = plan.settings["placement.engines"]
    assert (
        engines.unknown is not None
        and "tensor_model_parallel_size" in engines.unknown
        and "a command" in engines.unknown
    )
    assert plan.value("placement.mode") == "colocate" and plan.value("placement.engine_gpus") == 8


def test_what_comes_out_the_same_is_known(launches: Launches) -> None:
    command = "python3 -m verl.trainer.main_ppo trainer.nnodes=$N trainer.n_gpus_per_node=8"
    (plan,) = launches({"run.sh": f"{command}\n"}, verl="0.6.1")
    assert plan.settings["placement.trainer_gpus"].unknown is not None
    assert plan.value("placement.mode") == "colocate"
