"""A pass is an answer: no detector passes where a fact that it reads is not known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rldoctor import reads, redact
from rldoctor.api import Case, Check, Finding, Outcome, Reach, RolloutPlan, Setting, Unknown, find
from rldoctor.api.results import CheckResult
from rldoctor.case import SECTIONS, Gpu, Gpus, Host, ModelFiles, Series
from rldoctor.catalogue import example
from rldoctor.catalogue.check import Detector
from rldoctor.facts.environment import is_allowed
from rldoctor.flow import examination
from rldoctor.judge import judge as judge_all
from rldoctor.judge import judge_one
from rldoctor.launch.plans import Options, plans
from rldoctor.plan.evidence import plan_of
from rldoctor.tables.options import OptionSet
from tests.cases import GIB, assumed, gpus, host, judged
from tests.checks.launches import LaunchFile
from tests.loaded import REGISTRY
from tests.plans import case as planned

EXAMPLES = [file for check in REGISTRY.checks.values() if (file := example.file_of(check)) is not None]


def test_a_pass_without_the_setting_is_no_answer() -> None:
    check = Check("ACME01", "acme", "")

    @check.declared(needs=["plan"])
    def short(case: Case) -> Iterator[Finding | Reach]:
        """Reads a setting with a default."""
        yield Reach(f"{plan_of(case).value('lengths.response', 0)} tokens")

    case = planned(lengths__response=512)
    assert case.plan is not None and judged(check, case).outcome is Outcome.PASS
    unknown = {"lengths.response": Setting(value=None, key="max_tokens", unknown="$MAX is not set")}
    result = judged(check, replace(case, plan=replace(case.plan, settings=unknown)))
    assert result.outcome is Outcome.NOT_CHECKED
    assert result.reason == "max_tokens cannot be read from the launch: $MAX is not set"


def versions(check: Check) -> None:
    @check.declared(needs=["packages"])
    def known(case: Case) -> Iterator[Finding | Reach]:
        """Reads two packages."""
        assert case.packages is not None
        yield Reach(", ".join(d.name for name in ("ray", "vllm") if (d := find(case.packages, name)) is not None))


def test_a_package_that_is_not_named_is_unknown_and_one_that_is_not_there_is_not() -> None:
    check = Check("ACME01", "acme", "")
    versions(check)
    case = assumed(vllm="0.8.5")
    assert case.packages is not None
    result = judged(check, case)
    assert result.outcome is Outcome.NOT_CHECKED
    assert result.reason == "the assumed environment does not name ray"
    assert judged(check, replace(case, packages=replace(case.packages, complete=True))).outcome is Outcome.PASS


def test_what_is_read_aside_decides_nothing() -> None:
    check = Check("ACME01", "acme", "")

    @check.declared(needs=["packages"])
    def counted(case: Case) -> Iterator[Finding | Reach]:
        """Only words its pass with the devices."""
        with reads.aside():
            yield Reach(f"{case.gpus}")

    unknown = {"gpus": Unknown(reason="NVML did not answer")}
    assert judged(check, replace(assumed(vllm="0.8.5"), unknown=unknown)).outcome is Outcome.PASS


# What every model has; any other key that a config.json lacks is a default of its architecture. Where these are left
# out, the model's class has defaults for them, unless the model brings a class of its own.
KEYS = (
    "architectures",
    "hidden_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "vocab_size",
)
VARIABLE = "environment."
# What is read with other facts and decides nothing.
BESIDE = {
    "RLD206 weights_beyond_the_device model.config.max_position_embeddings": "weights are as large in any context",
}


# Packages whose modules find all that they ask for.
LINKED: dict[str, Any] = {
    "frameworks": [
        {
            "name": name,
            "version": "1",
            "entries": [name],
            "modules": 9,
            "problems": [],
            "validated": True,
            "refusal": None,
        }
        for name in ("trl", "vllm")
    ],
    "unread": {},
}


class Config(dict[str, Any]):
    """A model's config that notes what is read of it."""

    def get(self, key: str, default: Any = None) -> Any:
        reads.note(f"model.config.{key}")
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        reads.note(f"model.config.{key}")
        return super().__getitem__(key)


class Variables(dict[str, str]):
    """The variables of an environment; what is asked of any of them is noted."""

    asked: ClassVar[set[str]] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


def cases(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """The cases of all worked examples, on a host that is known."""
    seen: list[Case] = []

    def spying(checks: object, case: Case, *more: object) -> object:
        seen.append(case)
        return judge_all(checks, case, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(examination, "judge", spying)
    for file in EXAMPLES:
        for scene in vars(example.read(file)).values():
            example.judge(scene, REGISTRY)
    return [reported(case) for case in seen]


def reported(case: Case) -> Case:
    """The case with every fact that a machine may have and an example does not name."""
    devices = case.gpus or gpus(count=4)
    full = replace(
        devices,
        devices=tuple(replace(one, memory_used=GIB) for one in devices.devices),
        driver=devices.driver or "570.86",
        cuda=devices.cuda or "12.8",
    )
    model = case.model and replace(case.model, config=Config(case.model.config))
    return replace(
        case,
        host=host(glibcxx="3.4.32"),
        gpus=full,
        model=model,
        nodes=case.nodes or 1,
        environment=Variables(case.environment or {}),
        links=LINKED,
        unknown={name: why for name, why in case.unknown.items() if name.partition(".")[0] not in SECTIONS},
    )


def without(case: Case, asked: Iterable[str]) -> Iterator[tuple[str, Case]]:
    """The name of each fact, and the case that lacks it; of variables those that were asked for."""
    gone = Unknown(reason="taken away")
    for name in SECTIONS:
        if getattr(case, name) is not None:
            yield name, replace(case, **{name: None}, unknown={**case.unknown, name: gone})  # type: ignore[arg-type]
    yield from _without_settings(case)
    yield from _without_packages(case)
    kinds: dict[str, type[Gpus] | type[Host]] = {"gpus": Gpus, "host": Host}
    for section, kind in kinds.items():
        facts = getattr(case, section)
        for name in kind._unknown_when_none:
            if getattr(facts, name) is not None:
                yield f"{section}.{name}", replace(case, **{section: replace(facts, **{name: None})})
    for name in Gpu._unknown_when_none:
        assert case.gpus is not None
        devices = tuple(replace(one, **{name: None}) for one in case.gpus.devices)  # type: ignore[arg-type]
        yield f"gpus.devices.{name}", replace(case, gpus=replace(case.gpus, devices=devices))
    if case.model is not None:
        yield from _without_model_facts(case, case.model)
    # A variable's value is not known where it was a secret.
    for name in sorted(name.removeprefix(VARIABLE) for name in asked if name.startswith(VARIABLE)):
        removed = Variables({**(case.environment or {}), name: redact.mark(name)})
        yield VARIABLE + name, replace(case, environment=removed)


def test_a_pass_says_which_module_was_not_read() -> None:
    case = replace(planned(), links=LINKED)
    unread = {**LINKED, "unread": {"trl.rewards": "trl/rewards.py: Permission denied"}}
    passed = 0
    for check in REGISTRY.checks.values():
        for detector in check.detectors:
            said = alone(check, detector, case)
            if "links" in detector.needs and said.outcome is Outcome.PASS:
                passed += 1
                told = alone(check, detector, replace(case, links=unread))
                assert "not read: trl/rewards.py: Permission denied" in (told.reason or ""), check.code
                nothing = alone(check, detector, replace(case, links={**LINKED, "frameworks": []}))
                assert nothing.outcome is not Outcome.PASS, check.code
    assert passed > 2


def _without_settings(case: Case) -> Iterator[tuple[str, Case]]:
    plan, server = case.plan, case.plan and case.plan.server
    if plan is not None:
        for name, lesser in _lesser(plan):
            yield name, replace(case, plan=lesser)
    if plan is not None and server is not None:
        for name, lesser in _lesser(server):
            yield name, replace(case, plan=replace(plan, server=lesser))


def _lesser(plan: RolloutPlan) -> Iterator[tuple[str, RolloutPlan]]:
    for name, setting in plan.settings.items():
        if setting.unknown is None:
            settings = {**plan.settings, name: replace(setting, value=None, unknown="taken away")}
            yield f"plan.{plan.role}.{name}", replace(plan, settings=settings)


def _without_packages(case: Case) -> Iterator[tuple[str, Case]]:
    if case.packages is None:
        return
    for one in case.packages.distributions:
        others = tuple(d for d in case.packages.distributions if d.name != one.name)
        for gone in ({"complete": False}, {"broken": {**case.packages.broken, one.name: "taken away"}}):
            packages = replace(case.packages, distributions=others, **gone)
            yield f"packages.{one.name}", replace(case, packages=packages)


def _without_model_facts(case: Case, model: ModelFiles) -> Iterator[tuple[str, Case]]:
    for name in ("tokenizer_config", "generation_config"):
        if getattr(model, name) is not None:
            broken = {**model.broken, f"{name}.json": "taken away"}
            yield f"model.{name}", replace(case, model=replace(model, **{name: None}, broken=broken))  # type: ignore[arg-type]
    for key in model.config.keys() & set(KEYS):
        left = {name: value for name, value in model.config.items() if name != key}
        config = Config({**left, "auto_map": {"AutoConfig": "configuration_acme.AcmeConfig"}})
        yield f"model.config.{key}", replace(case, model=replace(model, config=config))


def alone(check: Check, detector: Detector, case: Case) -> CheckResult:
    lone = Check(check.code, check.name, check.doc)
    lone.detectors = [detector]
    return judge_one(lone, case)


def read_in_passing(check: Check, detector: Detector, case: Case, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The facts that a detector which passes has read."""
    heard: list[reads.Reads] = []
    listening = reads.listening

    def spying() -> Any:
        context = listening()

        class Spy:
            def __enter__(self) -> reads.Reads:
                heard.append(context.__enter__())
                return heard[-1]

            def __exit__(self, *reported: Any) -> Any:
                return context.__exit__(*reported)

        return Spy()

    with monkeypatch.context() as patched:
        patched.setattr(reads, "listening", spying)
        outcome = alone(check, detector, case).outcome
    return set().union(*(one.facts for one in heard)) if outcome is Outcome.PASS else set()


def test_no_pass_survives_the_loss_of_a_fact_that_it_read(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: dict[str, int] = {}
    survived = set()
    for case in cases(monkeypatch):
        passing = [
            (check, detector, read_in_passing(check, detector, case, monkeypatch))
            for check in REGISTRY.checks.values()
            for detector in check.detectors
        ]
        lacking = list(without(case, set().union(*(facts for *_, facts in passing))))
        for check, detector, facts in passing:
            if facts:
                for name, lesser in lacking:
                    if name in facts:
                        section = name.partition(".")[0]
                        taken[section] = taken.get(section, 0) + 1
                        if alone(check, detector, lesser).outcome is Outcome.PASS:
                            survived.add(f"{check.code} {detector.judge.__name__} {name}")
    sections = ("packages", "gpus", "host", "model", "plan", "environment", "links")
    assert min(taken[section] for section in sections) > 20, taken
    assert sorted(survived - BESIDE.keys()) == []
    # A bundle keeps the variables that are known to matter: another one would always seem unset.
    assert Variables.asked and sorted(name for name in Variables.asked if not is_allowed(name)) == []


# A run in which every metric that a check asks for is logged and well.
LOGGED = {
    "clipped_ratio": 0.05,
    "completion_length_max": 512.0,
    "completion_length_mean": 300.0,
    "entropy": 0.4,
    "frac_reward_zero_std": 0.1,
    "grad_norm": 0.5,
    "kl": 0.02,
    "learning_rate": 1e-6,
    "loss": 0.1,
    "reward": 0.5,
    "reward_std": 0.2,
    "sampled_groups": 8.0,
    "sampled_groups_identical": 0.0,
    "sampling_kl": 0.001,
    "sampling_logp_difference_mean": 0.01,
    "sampling_prob_correlation": 0.999,
    "sampling_prob_difference_mean": 0.002,
    "sampling_prob_error": 1.0,
}
# What is read beside the metrics that decide, and why.
BESIDE_METRICS = {
    "RLD311 logged_groups entropy": "says how likely equal completions are",
    "RLD502 distance grad_norm": "leaves the question to gradient_norm",
    "RLD503 cut_off completion_length_max": "says how many steps a finding takes",
    "RLD504 left_its_range frac_reward_zero_std": "says which fall of the reward is one",
}
# Rewards differ, and the run diverges, by any one of several measures.
EITHER = ("frac_reward_zero_std", "reward", "reward_std")
BESIDE_METRICS |= {f"RLD501 no_advantage {name}": "one of several measures" for name in EITHER}
BESIDE_METRICS |= {f"RLD502 gradient_norm {name}": "one of several measures" for name in EITHER}
BESIDE_METRICS |= {
    f"RLD503 cut_off {name}": "says from which step on a run has diverged"
    for name in ("entropy", "grad_norm", "kl", "loss", *EITHER)
}


class Metrics(dict[str, Series]):
    """The metrics of a run; what is asked of any of them is noted."""

    def get(self, name: str, default: Any = None) -> Any:
        reads.note(f"metrics.{name}")
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        reads.note(f"metrics.{name}")
        return super().__contains__(name)


def series(name: str, value: float) -> Series:
    values = tuple(value * (1 + 0.01 * (step % 3)) if value < 0.5 else value for step in range(30))
    return Series(key=name, steps=tuple(range(1, 31)), values=values)


def test_no_pass_says_the_same_of_a_run_without_a_metric_that_it_read(monkeypatch: pytest.MonkeyPatch) -> None:
    run = {name: series(name, value) for name, value in LOGGED.items()}
    case = Case(metrics=Metrics(run))
    survived, passed = set(), 0
    for check in REGISTRY.checks.values():
        for detector in check.detectors:
            facts = read_in_passing(check, detector, case, monkeypatch)
            said = alone(check, detector, case)
            for name in run:
                if f"metrics.{name}" not in facts:
                    continue
                passed += 1
                others = {other: one for other, one in run.items() if other != name}
                nothing = replace(run[name], values=(math.nan,) * 30)
                for lesser in (others, {**others, name: nothing}):
                    told = alone(check, detector, replace(case, metrics=Metrics(lesser)))
                    if (told.outcome, told.reason) == (Outcome.PASS, said.reason):
                        survived.add(f"{check.code} {detector.judge.__name__} {name}")
    assert passed > 20
    assert sorted(survived - BESIDE_METRICS.keys()) == []


ROWS = {
    "verl": "python3 -m verl.trainer.main_ppo data.train_batch_size=128 actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.rollout.tensor_model_parallel_size=2 trainer.nnodes=1\n",
    "trl": "trl grpo --model_name_or_path m --dataset_name d --num_generations 8 --use_vllm true\n",
    "vllm": "vllm serve m --max-model-len 4096 --dtype bfloat16 --enforce-eager\n",
}


@pytest.mark.parametrize("framework", ROWS)
def test_no_pass_survives_the_loss_of_an_option_s_row(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where the release lacks the option, nor where nobody knows whether it has it."""
    file = LaunchFile(tmp_path, ROWS[framework], {"verl": "0.6.0", "trl": "0.24.0", "vllm": "0.11.0"})
    detectors = [
        d
        for d in REGISTRY.checks["RLD219"].detectors
        if d.judge.__name__ in ("unknown_to_the_release", "value_refused")
    ]
    known = Options.known
    seen: set[str] = set()
    gone, how = "", ""

    def lesser(self: Options, owner: str, group: str | None) -> OptionSet | None:
        found = known(self, owner, group)
        if found is None:
            return None
        seen.update(found)
        rows = {name: option for name, option in found.items() if name != gone}
        unsure = {gone: Unknown(reason="taken away")} if how == "uncertain" and gone in found else {}
        return OptionSet(
            rows,
            source=found.source,
            uncertain={**found.uncertain, **unsure},
            gap=found.gap,
            outside=found.outside,
            open_ended=found.open,
            rejects=found.rejects,
            abbreviations=found.abbreviations,
            validates=found.validates,
        )

    monkeypatch.setattr(Options, "known", lesser)

    def outcomes() -> list[Outcome]:
        (plan,) = plans(file.path, file.case)
        return [alone(REGISTRY.checks["RLD219"], one, replace(file.case, plan=plan)).outcome for one in detectors]

    assert outcomes() == [Outcome.PASS, Outcome.PASS]
    words = {word.lstrip("-").partition("=")[0].replace("-", "_") for word in ROWS[framework].split()}
    given = sorted(name for name in seen if name.lstrip("-").replace("-", "_") in words)
    assert len(given) >= 3, given
    for gone in given:
        how = "removed"
        assert outcomes()[0] is Outcome.FINDINGS, gone
        how = "uncertain"
        assert outcomes() == [Outcome.NOT_CHECKED, Outcome.NOT_CHECKED], gone
