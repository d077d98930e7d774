"""The founding failures from launches in the frameworks' own syntax, on both generations of the engine: what an engine
showed is told for the launch, the fix is made in its file, and what the engine showed with it is no finding.

The observations are recorded ones (``recorded/``); launches of the same kind are also played on the engine that is
here, before the fix and with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rldoctor.api import Case, Finding, Grade, RolloutPlan
from rldoctor.api.probes import Scenario
from rldoctor.edits.edit import apply, save
from rldoctor.flow import examination
from rldoctor.frameworks import by_name
from rldoctor.frameworks.option_table import OptionTable
from rldoctor.knowledge.vllm_engine import release
from rldoctor.launch.recognise import read
from rldoctor.probes import builtin
from rldoctor.tables.options import OptionSet
from tests.live import Played, cases_of_one_import, scenario_case
from tests.loaded import REGISTRY
from tests.observations import packages

RECORDED = Path(__file__).parent / "recorded"
Observations = dict[str, Any]


@dataclass(frozen=True)
class Founding:
    """A launch (``file`` and its ``text``) of a release of a framework on a release of vLLM, the ``code`` that it must
    be told, what an engine showed ``before`` and ``after``, and the lines that the first fix ``changes``."""

    file: str
    text: str
    owner: str
    version: str
    vllm: str
    code: str
    before: Callable[[], Observations]
    after: Callable[[], Observations]
    changes: tuple[tuple[str, str], ...]


def shown(file: str, *keys: str, name: str | None = None) -> Callable[[], Observations]:
    """A recorded scenario; one that was played under another name gets that of the scenario."""

    def found() -> Observations:
        reported = json.loads((RECORDED / file).read_text())
        for key in keys:
            reported = reported[key]
        return {name: reported} if name else reported

    return found


EASYR1 = """\
export VLLM_USE_V1=0
python3 -m verl.trainer.main \\
    config=examples/config.yaml \\
    data.max_prompt_length=200 \\
    data.max_response_length=56 \\
    worker.rollout.max_model_len=256 \\
    worker.rollout.max_num_batched_tokens=4096 \\
    worker.rollout.val_override_config.min_tokens=64
"""
TRL = """\
from trl import GRPOConfig, GRPOTrainer

config = GRPOConfig(
    output_dir="out",
    use_vllm=True,
    vllm_mode="colocate",
    max_prompt_length=200,
    max_completion_length=56,
    vllm_max_model_length=256,
    generation_kwargs={"min_tokens": 64},
)
trainer = GRPOTrainer(model="org/model", reward_funcs=[len], args=config, train_dataset=data)
trainer.train()
"""
SWIFT = """\
export VLLM_USE_V1=0
NPROC_PER_NODE=3 swift rlhf \\
    --rlhf_type grpo \\
    --model org/model \\
    --dataset org/data \\
    --use_vllm true \\
    --vllm_device auto \\
    --async_generate true \\
    --split_dataset_ratio 0.01 \\
    --eval_strategy steps
"""
LAUNCHES = {
    "EasyR1 on V0: a sequence that had stopped": Founding(
        "run.sh",
        EASYR1,
        "easyr1",
        "0.3.2",
        "0.9.1",
        "RLD201",
        shown("v0_min_tokens.json", "before"),
        shown("v0_min_tokens.json", "after"),
        (("worker.rollout.max_model_len=256", "worker.rollout.max_model_len=264"),),
    ),
    "TRL on V1: requests that never end": Founding(
        "train.py",
        TRL,
        "trl",
        "0.25.0",
        "0.26.0",
        "RLD203",
        shown("v1_endless_min_tokens.json", "before"),
        shown("v1_endless_min_tokens.json", "after"),
        (("vllm_max_model_length=256", "vllm_max_model_length=264"),),
    ),
    "ms-swift on V0: two threads on one engine": Founding(
        "run.sh",
        SWIFT,
        "ms-swift",
        "3.4.1",
        "0.8.5",
        "RLD210",
        shown("v0_whole_prefill.json", "observations", "shared_engine", name="shared_engine"),
        shown("v0_whole_prefill.json", "observations", "turns", name="shared_engine"),
        (("--async_generate true", "--async_generate false"),),
    ),
}


@pytest.fixture(params=list(LAUNCHES.values()), ids=list(LAUNCHES))
def founding(request: pytest.FixtureRequest) -> Founding:
    return request.param  # type: ignore[no-any-return]


def planned(founding: Founding, folder: Path, text: str) -> RolloutPlan:
    (folder / founding.file).write_text(text)
    versions = {founding.owner: founding.version, "vllm": founding.vllm}

    def known(owner: str, group: str | None) -> OptionSet | None:
        return OptionTable.load(owner).at(versions[owner], group, versions) if owner in versions else None

    (plan,) = read(folder / founding.file, version_of=versions, known=known)
    return plan


def told(founding: Founding, plan: RolloutPlan, observations: Observations) -> list[Finding]:
    """What is reproduced; that the laboratory's packages are not the launch's is another matter."""
    case = Case(packages=packages(vllm=founding.vllm), plan=plan, observations=observations)
    report = examination.report(case, REGISTRY.checks.values(), REGISTRY)
    return [finding for finding in report.findings if finding.grade in (Grade.OBSERVED, Grade.REPRODUCED)]


def mended(plan: RolloutPlan, finding: Finding, file: Path) -> str:
    dialect = by_name(plan.framework)
    assert dialect is not None
    save(apply(dialect.spell(edit, plan) for edit in finding.fixes[0].edits))
    return file.read_text()


def test_the_failure_is_told_once_for_the_launch(founding: Founding, tmp_path: Path) -> None:
    plan = planned(founding, tmp_path, founding.text)
    (finding,) = told(founding, plan, founding.before())
    assert (finding.code, finding.grade) == (founding.code, Grade.REPRODUCED)
    assert finding.fixes[0].edits


def test_the_fix_in_the_launch_and_nothing_else_cures_it(founding: Founding, tmp_path: Path) -> None:
    plan = planned(founding, tmp_path, founding.text)
    (finding,) = told(founding, plan, founding.before())
    text = mended(plan, finding, tmp_path / founding.file)
    expected = founding.text
    for old, new in founding.changes:
        expected = expected.replace(old, new)
    assert text == expected
    again = planned(founding, tmp_path, text)
    assert not told(founding, again, founding.after())


@dataclass(frozen=True)
class Live:
    """A launch that fails on the engine that is here, the ``scenario`` that shows it, and the lines that the first fix
    ``changes``."""

    text: str
    owner: str
    version: str
    code: str
    scenario: str
    changes: tuple[str, str]

    @property
    def mended(self) -> str:
        return self.text.replace(*self.changes)

    def founding(self, vllm: str) -> Founding:
        return Founding("run.sh", self.text, self.owner, self.version, vllm, self.code, dict, dict, (self.changes,))


LIVE = {
    "EasyR1: whole prompts beyond the token budget": Live(
        """\
python3 -m verl.trainer.main \\
    config=examples/config.yaml \\
    data.max_prompt_length=1024 \\
    data.max_response_length=1024 \\
    worker.rollout.max_model_len=2048 \\
    worker.rollout.max_num_batched_tokens=1024 \\
    worker.rollout.enable_chunked_prefill=false
""",
        "easyr1",
        "0.3.2",
        "RLD202",
        "rollout",
        ("max_num_batched_tokens=1024", "max_num_batched_tokens=2048"),
    ),
    "ms-swift: two threads on one engine": Live(
        SWIFT.replace("export VLLM_USE_V1=0\n", ""),
        "ms-swift",
        "3.4.1",
        "RLD210",
        "shared_engine",
        ("--async_generate true", "--async_generate false"),
    ),
}


@pytest.fixture(scope="module")
def vllm(patient: Path) -> str:
    return ".".join(map(str, release(scenario_case(patient)) or ()))


@pytest.fixture(scope="module")
def seen(patient: Path, vllm: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Observations]:
    """What the engine that is here shows for each launch, as it is and with the lines of the fix."""

    def played(live: Live, text: str) -> Played:
        plan = planned(live.founding(vllm), tmp_path_factory.mktemp("launch"), text)
        # In an environment that has no trainer's framework.
        launch = Case(packages=packages(None, **{live.owner: live.version}), plan=plan)
        scenario: Scenario = getattr(builtin, live.scenario)
        return Played((replace(scenario, runs=lambda _, *given: scenario.runs(launch, *given)),), plan=plan)

    before = {name: played(live, live.text) for name, live in LIVE.items()}
    after = {f"{name}, mended": played(live, live.mended) for name, live in LIVE.items()}
    cases = cases_of_one_import(patient, before | after)
    return {name: dict(case.observations) for name, case in cases.items()}


@pytest.mark.engine
@pytest.mark.parametrize("name", LIVE)
def test_before_after_and_the_fix_alone_on_the_engine_that_is_here(
    name: str, vllm: str, seen: dict[str, Observations], tmp_path: Path
) -> None:
    live = LIVE[name]
    told_by = live.founding(vllm)
    plan = planned(told_by, tmp_path, live.text)
    (finding,) = [one for one in told(told_by, plan, seen[name]) if one.code == live.code]
    assert finding.grade is Grade.REPRODUCED
    text = mended(plan, finding, tmp_path / told_by.file)
    assert text == live.mended
    again = planned(told_by, tmp_path, text)
    assert live.code not in {one.code for one in told(told_by, again, seen[f"{name}, mended"])}
