"""Replicas, requests and tensor parallel ranks with the seeds of a launch: what real engines draw, and that what is
drawn twice is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from rldoctor_checks.devices import completions_identical, seeds
from rldoctor_checks.sync import outputs_corrupt

from rldoctor.api import Case, Grade, NotApplicable, Outcome, RolloutPlan
from rldoctor.api.probes import Basis, Engine, Request
from rldoctor.facts import packages
from rldoctor.judge import judge_one
from rldoctor.probes.peers import peers
from rldoctor.probes.runner import run_job
from rldoctor.probes.scenarios.seeds import seeds as scenario
from tests.checks.launches import LaunchFile
from tests.live import Played, cases_of_one_import, scenario_case
from tests.plans import case as planned

FAULTS = Path(__file__).parents[1] / "faults"
# One group of eight, half of it on each of two replicas.
DIVIDED: dict[str, Any] = {
    "placement__engines": 2,
    "batch__generation": 8,
    "batch__generations": 8,
    "sampling__n": 1,
    "rollout__spread": "parts",
    "seed__per_request": "none",
}
OWN: dict[str, Any] = {"seed__per_replica": "replica", "seed__engine": 0}
TWO_RANKS: dict[str, Any] = {
    "placement__engines": 1,
    "engine__tensor_parallel_size": 2,
    "engine__seed": 0,
    "seed__per_replica": "same",
}
BESIDE: dict[str, Any] = {
    "placement__engines": 1,
    "engine__tensor_parallel_size": 2,
    "engine__distributed_executor_backend": "external_launcher",
}
VERL = (
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=8 data.train_batch_size=1 "
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1 trainer.n_gpus_per_node=2 trainer.nnodes=1 "
    "actor_rollout_ref.rollout.mode=async {more}\n"
)


def plan(framework: str = "verl", **settings: Any) -> RolloutPlan:
    found = planned(framework, **settings).plan
    assert found is not None
    return found


def runs(launch: RolloutPlan | None, **basis: Any) -> dict[str, Any]:
    return dict(scenario.runs(Case(plan=launch, packages=planned().packages), Request(), Basis(**basis)))


def ranks_case(python: Path, launch: RolloutPlan, child: Path = peers.child) -> Case:
    """Two ranks on the CPU, started by the environment's torchrun."""
    request = Request(python=python)
    case = Case(packages=packages.collect(request), plan=launch)
    reported = {
        name: msgspec.to_builtins(run_job(child, job, name, request)) for name, job in peers.jobs(case, request).items()
    }
    return Case(packages=case.packages, plan=launch, observations={"peers": reported})


def found(case: Case) -> list[tuple[str, Grade, str]]:
    results = (judge_one(check, case) for check in (seeds.check, completions_identical.check, outputs_corrupt.check))
    return [(one.code, one.grade, one.message) for result in results for one in result.findings]


ALONE = {**OWN, **DIVIDED, "placement__engines": 1}


@pytest.fixture(scope="module")
def drawn(patient: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """What the engines of these launches draw."""
    installed = {found.name: found.version for found in packages.collect(Request(python=patient)).distributions}

    def verl(more: str) -> RolloutPlan | None:
        folder, versions = tmp_path_factory.mktemp("verl"), {**installed, "verl": "0.6.1"}
        (launch,) = LaunchFile(folder, VERL.format(more=more), versions).cases()
        return launch.plan

    two = plan(**OWN, **DIVIDED)
    launches = {
        "seeds of replicas and requests": (plan(**OWN, **{**DIVIDED, "seed__per_request": "counter"}), None),
        "servers that never wake": (verl("actor_rollout_ref.rollout.free_cache_engine=False"), None),
        "workers": (verl(""), None),
        "ignored": (two, "seeds:ignored"),
        "one seed": (plan(**{**ALONE, "seed__per_request": "same", "seed__deterministic": True}), None),
        "one for all": (plan(**{**ALONE, "seed__per_request": "counter"}), "seeds:one_for_all"),
        "two ranks": (plan(**TWO_RANKS), None),
    }
    return cases_of_one_import(
        patient, {name: Played((scenario,), plan=of, fault=fault) for name, (of, fault) in launches.items()}
    )


@pytest.mark.engine
def test_two_replicas_and_their_requests_draw_different_completions(drawn: dict[str, Case]) -> None:
    case = drawn["seeds of replicas and requests"]
    reported = {name: job["records"] for name, job in case.observations["seeds"].items()}
    assert {name: (one["seed"], one["engine"]["seed"]) for name, one in reported.items()} == {
        "first": (0, 0),
        "second": (1, 1),
    }
    assert [row["seed"] for row in reported["second"]["requests"]] == list(range(1, 9))
    assert reported["first"]["reach"]["ranks"] == 1 and len(reported["first"]["group"]) == 8
    assert found(case) == []
    assert "8 of 8 completions differ" in str(judge_one(seeds.check, case).reason)


@pytest.mark.engine
def test_verls_servers_that_never_wake_have_one_seed(drawn: dict[str, Case]) -> None:
    ((code, grade, message),) = found(drawn["servers that never wake"])
    assert (code, grade) == ("RLD310", Grade.REPRODUCED)
    assert "the completions of a prompt go to 2 of them in turn" in message


@pytest.mark.engine
def test_verls_workers_have_random_states_that_differ(drawn: dict[str, Case]) -> None:
    case = drawn["workers"]
    assert [job["records"]["seed"] for job in case.observations["seeds"].values()] == [1000, 1001]
    assert found(case) == []


@pytest.mark.engine
def test_an_engine_that_ignores_its_seed(drawn: dict[str, Case]) -> None:
    ((code, _, message),) = found(drawn["ignored"])
    assert code == "RLD311" and "8 of 8 completions are the same on two engine replicas, whose seeds differ" in message


@pytest.mark.engine
def test_requests_of_one_seed(drawn: dict[str, Case]) -> None:
    ((code, grade, message),) = found(drawn["one seed"])
    assert (code, grade) == ("RLD310", Grade.REPRODUCED) and "they are all alike" in message


@pytest.mark.engine
def test_an_engine_that_ignores_the_seeds_of_requests(drawn: dict[str, Case]) -> None:
    ((code, _, message),) = found(drawn["one for all"])
    assert code == "RLD311" and "7 of 7 completions of a group repeat its first one" in message


@pytest.mark.engine
def test_one_engine_of_two_ranks(drawn: dict[str, Case]) -> None:
    case = drawn["two ranks"]
    (job,) = case.observations["seeds"].values()
    assert job["ended"] == "done" and job["records"]["reach"]["ranks"] == 2
    assert job["records"]["engine"]["tensor_parallel_size"] == 2
    assert len({tuple(row["token_ids"]) for row in job["records"]["group"]}) == 8
    assert found(case) == []


@pytest.mark.engine
def test_ranks_with_an_engine_object_each_agree(patient: Path) -> None:
    case = ranks_case(patient, plan("TRL", seed__per_replica="replica", **BESIDE))
    assert found(case) == []
    assert "two tensor parallel ranks agree in 9 completions" in str(judge_one(seeds.check, case).reason)
    # Those of launchers begin with a port; engines of other tests have theirs beside them.
    assert not list(Path("/dev/shm").glob("[0-9]*-cpushm*"))


@pytest.mark.engine
def test_ranks_with_seeds_of_their_own(patient: Path) -> None:
    ((code, grade, message),) = found(ranks_case(patient, plan("TRL", seed__per_replica="rank", **BESIDE)))
    assert (code, grade) == ("RLD310", Grade.REPRODUCED)
    assert "the peers of 1 tensor parallel engines have different seeds" in message


@pytest.mark.engine
def test_ranks_that_seed_themselves_apart(patient: Path) -> None:
    launch = plan("TRL", seed__per_replica="replica", **BESIDE)
    case = ranks_case(patient, launch, FAULTS / "broken_peers.py")
    assert found(case), case.observations
    ((code, grade, message),) = found(case)
    assert (code, grade) == ("RLD310", Grade.OBSERVED)
    assert "two tensor parallel ranks with the same seed draw different tokens" in message


@pytest.mark.engine
@pytest.mark.v0
def test_v0_replicas_differ_where_their_seeds_do(v0_patient: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_USE_V1", "0")
    case = scenario_case(v0_patient, scenario, plan=plan(**OWN, **DIVIDED))
    assert {job["ended"] for job in case.observations["seeds"].values()} == {"done"}
    assert found(case) == []


class TestWhatIsPlayed:
    """As few engines as can tell something."""

    def test_two_replicas_with_the_framework_s_seeds(self) -> None:
        reported = runs(plan(**{**OWN, "seed__engine": 3}, **DIVIDED))
        assert [run.engine.options for run in reported.values()] == [{"seed": 3}, {"seed": 4}]
        assert [run.engine.replica for run in reported.values()] == [0, 1]

    def test_the_first_one_shares_the_plain_engine_where_that_has_its_seed(self) -> None:
        first, second = runs(plan(**{**OWN, "seed__engine": 3}, **DIVIDED), options={"seed": 3}).values()
        assert (first.engine.options, second.engine.options) == ({}, {"seed": 4})

    def test_no_seed_given_is_none_and_not_zero(self) -> None:
        reported = runs(plan(seed__per_replica="same", **DIVIDED)).values()
        assert [(run.arguments["seed"], run.engine.options) for run in reported] == [(None, {}), (None, {})]

    def test_seeds_that_are_drawn_differ(self) -> None:
        first, second = runs(plan(seed__per_replica="random", **DIVIDED)).values()
        assert first.engine.options != second.engine.options

    @pytest.mark.parametrize(
        "launch",
        [
            None,
            plan(),
            plan(rollout__backend="sglang", **OWN, **DIVIDED),
            plan(**OWN, placement__engines=1),
        ],
        ids=["no launch", "unknown seeds", "another engine", "one replica"],
    )
    def test_where_seeds_decide_nothing(self, launch: RolloutPlan | None) -> None:
        with pytest.raises(NotApplicable):
            runs(launch)

    def test_sizes_that_are_given_as_text(self) -> None:
        reported = runs(
            plan(**{**OWN, "seed__engine": "3"}, **{**DIVIDED, "placement__engines": "2", "sampling__n": "1"})
        )
        assert [run.engine.options for run in reported.values()] == [{"seed": 3}, {"seed": 4}]
        with pytest.raises(NotApplicable):
            runs(plan(**OWN, **{**DIVIDED, "placement__engines": "all"}))
        beside = planned("TRL", seed__per_replica="replica", **{**BESIDE, "engine__tensor_parallel_size": "2"})
        assert peers.jobs(beside, Request())["peers"].arguments["seeds"] == [0, 0]

    def test_whole_groups_of_one_seed_need_no_second_engine(self) -> None:
        (only,) = runs(plan(seed__per_replica="same", **{**DIVIDED, "batch__generation": 64})).values()
        assert only.engine == Engine(alone=True)
        assert only.arguments["requests"]["seeds"] == [None] * 8

    def test_ranks_that_a_launcher_starts_are_another_probe_s(self) -> None:
        both = plan(seed__per_replica="replica", **BESIDE)
        with pytest.raises(NotApplicable):
            runs(both)
        assert peers.jobs(planned("TRL", **settings_of(both)), Request())["peers"].arguments["seeds"] == [0, 0]
        with pytest.raises(NotApplicable):
            peers.jobs(planned(**OWN, **DIVIDED), Request())
        with pytest.raises(NotApplicable):
            peers.jobs(planned("TRL", **settings_of(both), env__VLLM_USE_V1="0"), Request())

    def test_a_miniature_of_seven_heads_is_not_divided(self) -> None:
        launch = plan(**TWO_RANKS)
        seven = planned(config={"num_attention_heads": 28, "num_key_value_heads": 4}).model
        with pytest.raises(NotApplicable):
            scenario.runs(Case(plan=launch, model=seven), Request(), Basis())
        assert runs(launch)["peers"].engine.options["tensor_parallel_size"] == 2


def settings_of(launch: RolloutPlan) -> dict[str, Any]:
    return {name.replace(".", "__"): setting.value for name, setting in launch.settings.items()}


def test_outcomes_where_nothing_was_drawn() -> None:
    job = {"ended": "died", "records": {}, "boot": "miniature"}
    case = Case(plan=plan(**OWN, **DIVIDED), observations={"seeds": {"first": job, "second": job}})
    assert judge_one(completions_identical.check, case).outcome is Outcome.NOT_CHECKED
