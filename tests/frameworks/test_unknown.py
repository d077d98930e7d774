"""Keys that a release does not know: what Hydra's signs make of them, and when another name is known to be meant."""

from __future__ import annotations

from typing import Any

import pytest
from rldoctor_checks.rollout.option_unknown import check

from rldoctor.api import Applicability
from rldoctor.api.plan import UnknownOption
from rldoctor.frameworks.option_table import OptionTable
from tests.checks.launches import LaunchFile
from tests.frameworks.conftest import Launches

VERL = {"verl": "0.7.0", "vllm": "0.11.0"}
ROLLOUT = "actor_rollout_ref.rollout"


def unknown(launches: Launches, command: str, **versions: str) -> list[UnknownOption]:
    (plan,) = launches({"run.sh": f"{command}\n"}, **versions)
    return list(plan.unknown)


@pytest.mark.parametrize("sign", ["+", "++"])
def test_a_framework_without_signs_takes_them_for_a_part_of_the_key(launches: Launches, sign: str) -> None:
    command = "python3 -m verl.trainer.main worker.rollout.n=8"
    (found,) = unknown(launches, f"{command} {sign}worker.rollout.min_tokens=5", easyr1="0.3.2")
    assert found.key == f"{sign}worker.rollout.min_tokens"
    assert unknown(launches, f"{command} worker.rollout.tensor_parallel_size=2", easyr1="0.3.2") == []


@pytest.mark.parametrize(
    ("override", "refused"),
    [
        (f"+{ROLLOUT}.min_tokens=5", True),  # RolloutConfig takes no such argument
        (f"++{ROLLOUT}.min_tokens=5", True),
        (f"+{ROLLOUT}.engine_kwargs.vllm.min_tokens=5", False),  # an open dictionary
        ("+my_section.min_tokens=5", False),
        (f"+{ROLLOUT}.tensor_model_parallel_size=2", True),  # Hydra: an item is there already
        (f"++{ROLLOUT}.tensor_model_parallel_size=2", False),
        (f"+{ROLLOUT}.engine_kwargs={{vllm: {{swap_space: 4}}}}", False),  # Hydra adds a mapping to the one there
    ],
)
def test_new_keys_by_hydras_rules_and_the_classes_behind_sections(
    launches: Launches, override: str, refused: bool
) -> None:
    found = unknown(launches, f"python3 -m verl.trainer.main_ppo {override}", **VERL)
    assert [option.key for option in found] == ([override.partition("=")[0]] if refused else [])


def table(**ranges: list[dict[str, Any]]) -> OptionTable:
    names = {name.replace("__", "."): found for name, found in ranges.items()}
    return OptionTable(
        "axolotl", {"generated": "2026-11-20", "versions": ["1.0", "2.0", "3.0"], "groups": {"train": names}}
    )


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ({"default": 8, "since": "2.0"}, "b.width"),
        ({"default": 9, "since": "2.0"}, None),  # another default
        ({"default": 8, "since": "3.0"}, None),  # not the release in which the first one went
    ],
)
def test_two_names_for_one_meaning(other: dict[str, Any], name: str | None) -> None:
    found = table(
        a__width=[{"default": 8, "until": "2.0"}], b__width=[other], b__height=[{"default": 8, "since": "2.0"}]
    )
    assert found.renamed("a.width", "3.0") == name


def test_two_candidates_are_none() -> None:
    came = {"default": 8, "since": "2.0"}
    found = table(a__width=[{"default": 8, "until": "2.0"}], b__width=[came], c__width=[came])
    assert found.renamed("a.width", "3.0") is None


def test_an_option_of_another_release_is_never_renamed_as_safe(tmp_path: Any) -> None:
    text = "python3 -m verl.trainer.main_ppo reward_model.overlong_buffer_cfg.enable=True\n"
    file = LaunchFile(tmp_path, text, VERL)
    (finding,) = file.findings(check)
    assert not any(fix.applicability is Applicability.SAFE for fix in finding.fixes)


def test_a_misspelling_is_safe_in_its_own_section_alone(tmp_path: Any) -> None:
    text = f"python3 -m verl.trainer.main_ppo {ROLLOUT}.gpu_memory_utilisation=0.5 trainer.response_length=64\n"
    fixes = [fix for finding in LaunchFile(tmp_path, text, VERL).findings(check) for fix in finding.fixes]
    safe = [edit.value for fix in fixes if fix.applicability is Applicability.SAFE for edit in fix.edits]
    assert safe == [f"{ROLLOUT}.gpu_memory_utilization"]


@pytest.mark.parametrize(
    ("file", "text", "versions", "meant"),
    [
        # As AReaL, ROLL and transformers call what it calls otherwise.
        ("rl.toml", "[orchestrator]\nbatch_size = 8\n[orchestrator.train.sampling]\nmax_new_tokens = 64\n",
         {"prime_rl": "0.8.0"}, ["orchestrator.train.sampling.max_completion_tokens"]),
        ("rl.toml", "[orchestrator]\nbatch_size = 8\n[orchestrator.train.sampling]\nlifespan = 64\n",
         {"prime_rl": "0.8.0"}, []),
    ],
)  # fmt: skip
def test_another_frameworks_name_leads_to_this_ones(
    launches: Launches, file: str, text: str, versions: dict[str, str], meant: list[str]
) -> None:
    ((found,),) = [plan.unknown for plan in launches({file: text}, **versions)]
    assert list(found.nearest) == meant


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        ("+data.mine='{a: 1}' data.mine.a=2", []),
        ("+algo=$ALGO algo.lr=1 algo.more.lr=2", []),
        ("++data.mine.a=1 data.mine.a=2", []),
        ("+data.mine.a=1 data.mine.b=2 data.other=3", ["data.mine.b", "data.other"]),
        ("hydra.searchpath=[file://conf] hydra/launcher=submitit_slurm hydra.launcher.nodes=1", []),
        ("hydrate.searchpath=1", ["hydrate.searchpath"]),
    ],
)
def test_what_an_override_before_it_adds_and_what_is_hydras_own(
    launches: Launches, overrides: str, keys: list[str]
) -> None:
    command = f"python3 -m verl.trainer.main_ppo {overrides} trainer.nnodes=1"
    assert [one.key for one in unknown(launches, command, **VERL)] == keys
