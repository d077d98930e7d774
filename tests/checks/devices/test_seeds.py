"""RLD310: seeds of replicas, of peers, and of requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rldoctor_checks.devices.completions_identical import check as identical
from rldoctor_checks.devices.seeds import check

from rldoctor.api import Case, Grade, Outcome, Severity
from rldoctor.judge import judge_one
from tests.checks.launches import LaunchFile, finding, judged, launch, quiet
from tests.observations import completion, link

SERVER: dict[str, Any] = {"seed__per_replica": "same", "placement__engines": 2}
ROWS: dict[str, Any] = {
    "batch__generation": 8,
    "batch__generations": 8,
    "sampling__n": 1,
    "rollout__spread": "parts",
}
SWIFT: dict[str, Any] = {"placement__mode": "colocate", "seed__per_request": "rank", "batch__generations": 8}


def test_replicas_of_one_seed_that_share_a_group() -> None:
    # https://github.com/modelscope/ms-swift/issues/7219
    found = finding(check, "ms-swift", version="3.12.2", server=SERVER, **ROWS)
    assert "2 engine replicas have the same seed" in found.message
    assert "2 of them get the same prompts" in found.message
    assert any("replica" in evidence.text and "seed" in evidence.text for evidence in found.evidence)
    assert 'pip install "ms-swift>=3.12.3"' in found.fixes[0].commands


def test_whole_groups_on_each_replica_are_quiet() -> None:
    assert quiet(check, "ms-swift", version="3.12.2", server=SERVER, **{**ROWS, "batch__generation": 32})
    # One request draws the whole group.
    assert quiet(check, "ms-swift", version="3.12.2", server=SERVER, **{**ROWS, "sampling__n": 8})
    assert quiet(check, "ms-swift", version="3.12.2", server={**SERVER, "placement__engines": 1}, **ROWS)


def test_seeds_of_their_own_are_reported() -> None:
    replica = {"seed__per_replica": "replica", "placement__engines": 4, "engine__tensor_parallel_size": 2}
    result = judged(check, "TRL", **replica, seed__engine=0)
    assert result.outcome is Outcome.PASS
    assert result.reason is not None and "8 ranks in 4 replicas, seeds 0, 1, 2, 3" in result.reason
    assert quiet(check, "ms-swift", **{**replica, "seed__per_replica": "random"}, **ROWS)


@pytest.mark.parametrize(("spread", "said"), [("load", "by load"), (None, "is not known")])
def test_requests_that_nobody_can_place_are_a_note(spread: str | None, said: str) -> None:
    verl: dict[str, Any] = {"seed__per_replica": "same", "placement__engines": 8, **ROWS, "rollout__spread": spread}
    found = finding(check, "verl", version="0.6.1", **verl)
    assert found.severity is Severity.NOTE and said in found.message


def test_a_hash_gives_each_replica_another_batch() -> None:
    plan: dict[str, Any] = {"seed__per_replica": "same", "placement__engines": 8, **ROWS, "rollout__spread": "session"}
    assert quiet(check, "SkyRL", version="0.3.0", **plan)


def test_verl_with_fewer_prompts_than_replicas() -> None:
    plan: dict[str, Any] = {
        "seed__per_replica": "same",
        "placement__engines": 8,
        "batch__generations": 16,
        "rollout__spread": "parts",
    }
    found = finding(check, "verl", version="0.5.0", **plan, batch__per_request=1, batch__generation=64)
    assert found.severity is Severity.ERROR and "2 of them get the same prompts" in found.message
    # Before 0.5 the engine drew the n samples of one request.
    assert quiet(check, "verl", version="0.4.1", **plan, batch__per_request=16, batch__generation=64)
    assert quiet(check, "verl", version="0.5.0", **plan, batch__per_request=1, batch__generation=1024)


VERL = (
    "python3 -m verl.trainer.main_ppo data.train_batch_size=1024 actor_rollout_ref.rollout.n=8 "
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1 trainer.n_gpus_per_node=8 trainer.nnodes=1 {more}\n"
)


AWAKE = "actor_rollout_ref.rollout.free_cache_engine=False"


@pytest.mark.parametrize(
    ("version", "more", "shared"),
    [
        ("0.5.0", f"actor_rollout_ref.rollout.mode=async {AWAKE}", True),
        ("0.6.1", f"actor_rollout_ref.rollout.mode=async {AWAKE}", True),
        ("0.5.0", f"actor_rollout_ref.rollout.mode=sync {AWAKE}", False),
        # The server is woken at each step, and the worker's own random state put in place.
        ("0.5.0", "actor_rollout_ref.rollout.mode=async", False),
        ("0.7.0", f"actor_rollout_ref.rollout.mode=async {AWAKE}", False),
        ("0.7.1", f"actor_rollout_ref.rollout.mode=async {AWAKE}", False),
    ],
)
def test_servers_that_get_requests_in_turn(version: str, more: str, shared: bool, tmp_path: Path) -> None:
    # agent_loop.py, _choose_server: the eight copies of a prompt are eight requests, one for each server
    file = LaunchFile(tmp_path, VERL.format(more=more), {"verl": version})
    found = file.findings(check)
    assert [item.severity for item in found] == [Severity.NOTE] * shared
    assert all("the completions of a prompt go to 8 of them in turn" in item.message for item in found)


def test_verls_workers_draw_from_a_random_state_of_their_own(tmp_path: Path) -> None:
    # sixteen completions of each of four prompts for eight replicas: the engines' one seed would not tell them apart
    text = VERL.format(more="").replace("train_batch_size=1024", "train_batch_size=4").replace("n=8", "n=16", 1)
    (case,) = LaunchFile(tmp_path, text, {"verl": "0.5.0"}).cases()
    result = judge_one(check, case)
    assert result.outcome is Outcome.PASS
    assert result.reason is not None and "seeds 1000, 1001, 1002" in result.reason


def test_peers_that_disagree() -> None:
    found = finding(check, seed__per_replica="rank", placement__engines=2, engine__tensor_parallel_size=2)
    assert "the peers of 2 tensor parallel engines have different seeds" in found.message
    assert quiet(check, seed__per_replica="rank", placement__engines=4, engine__tensor_parallel_size=1)


def test_one_seed_in_every_request() -> None:
    # https://github.com/NovaSky-AI/SkyRL/pull/1015
    found = finding(check, seed__per_request="same", batch__generations=8, sampling__n=1, sampling__seed=42)
    assert "the 8 completions of a prompt are requests of their own" in found.message
    assert found.fixes[0].edits[0].value is None
    assert quiet(check, seed__per_request="same", batch__generations=8, sampling__n=8, sampling__seed=42)
    assert quiet(check, seed__per_request="none", batch__generations=8, sampling__n=1)
    assert quiet(check, seed__per_request="same", batch__generations=1, sampling__n=1)


def test_verls_full_determinism() -> None:
    plan: dict[str, Any] = {"seed__per_request": "same", "seed__deterministic": True, "batch__generations": 8}
    plan["batch__per_request"] = 1
    found = finding(check, "verl", version="0.9.0", **plan)
    assert found.fixes[0].edits[0].option == "seed.deterministic"
    assert found.message.endswith("alike on each engine")  # the replica's rank is in the seed


def test_ms_swifts_colocated_workers() -> None:
    # https://github.com/modelscope/ms-swift/issues/3780
    found = finding(check, "ms-swift", version="3.3.1", **SWIFT, placement__nodes=2)
    assert found.severity is Severity.ERROR
    assert any("ms-swift>=3.6" in command for fix in found.fixes for command in fix.commands)
    assert finding(check, "ms-swift", version="3.3.1", **SWIFT, placement__nodes=1).severity is Severity.NOTE


def test_ms_swifts_equal_requests() -> None:
    # https://github.com/modelscope/ms-swift/pull/4712
    assert (
        "all alike on each engine"
        in finding(
            check, "ms-swift", version="3.5.1", **{**SWIFT, "seed__per_request": "engine"}, sampling__n=1
        ).message
    )
    assert quiet(check, "ms-swift", version="3.5.3", **{**SWIFT, "seed__per_request": "counter"}, sampling__n=1)


def test_a_server_alone_does_not_tell_whether_a_prompt_reaches_several_replicas() -> None:
    served = launch("vLLM", **SERVER)
    assert served.plan is not None
    alone = replace(served, plan=replace(served.plan, role="server"))
    assert judge_one(check, alone).outcome is Outcome.NOT_CHECKED
    assert judge_one(check, served).outcome is Outcome.FINDINGS


def test_several_servers_that_are_started_elsewhere() -> None:
    hosts = {"placement__server_host": ["10.0.0.1", "10.0.0.2"]}
    assert "2 of them get the same prompts" in finding(check, "ms-swift", version="3.12.2", **hosts, **ROWS).message
    assert quiet(check, "ms-swift", version="3.12.3", **hosts, **ROWS)
    assert quiet(check, "ms-swift", version="3.12.2", placement__server_host=["10.0.0.1"], **ROWS)


def test_an_unknown_framework_is_not_judged() -> None:
    assert judged(check, "new", placement__engines=4).outcome is Outcome.NOT_CHECKED


def test_full_determinism_is_switched_off(tmp_path: Path) -> None:
    text = (
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.full_determinism=True \\\n"
        "    actor_rollout_ref.rollout.n=8 data.train_batch_size=64 trainer.n_gpus_per_node=8 trainer.nnodes=1\n"
    )
    file = LaunchFile(tmp_path, text, {"verl": "0.9.0", "vllm": "0.18.0"})
    assert [found.severity for found in file.findings(check)] == [Severity.ERROR]
    assert "full_determinism=false" in file.mend(check)
    assert file.findings(check) == []


DIVIDED: dict[str, Any] = {"placement__engines": 2, **ROWS}
OTHER = [completion(list(range(i + 50, i + 66)), index=i) for i in range(8)]
GROUP = [completion(list(range(i, i + 16)), index=i) for i in range(8)]


def drawn(group: list[dict[str, Any]], **records: Any) -> dict[str, Any]:
    """One engine that came up with the launch's seed and drew this."""
    return {
        "ended": "done",
        "boot": "miniature",
        "records": {"seed": 0, "group": group, "engine": {"seed": 0}, **records},
    }


def played(framework: str = "verl", first: Any = None, second: Any = None, **arguments: Any) -> Case:
    case = launch(framework, **arguments)
    jobs = {name: job for name, job in (("first", first), ("second", second)) if job is not None}
    return replace(case, observations={"seeds": jobs})


def ranks(first: Any, second: Any, ended: str = "done", **arguments: Any) -> Case:
    reported = [
        {"rank": n, "ended": "done", "asked": {"seed": 0}, "tail": [], **r} for n, r in enumerate((first, second))
    ]
    job = {"ended": "done", "records": {"ranks": reported, "ended": ended}}
    return replace(launch(**arguments), observations={"peers": {"peers": job}})


class TestWhatWasDrawn:
    """The same finding with the completions that prove it, never a second one."""

    def test_replicas_that_drew_the_same(self) -> None:
        case = played(version="0.6.1", first=drawn(GROUP), second=drawn(GROUP), seed__per_replica="same", **DIVIDED)
        (found,) = judge_one(check, case).findings
        assert (found.grade, found.severity) == (Grade.REPRODUCED, Severity.ERROR)
        assert any("the engine has 0" in evidence.text for evidence in found.evidence)

    def test_one_seed_and_other_completions_stay_as_declared(self) -> None:
        case = played(version="0.6.1", first=drawn(GROUP), second=drawn(OTHER), seed__per_replica="same", **DIVIDED)
        (found,) = judge_one(check, case).findings
        assert found.grade is Grade.DECLARED

    def test_a_peaked_distribution_repeats_itself(self) -> None:
        sure = [completion([7], -0.01, index=i) for i in range(8)]
        case = played(version="0.6.1", first=drawn(sure), second=drawn(sure), seed__per_replica="same", **DIVIDED)
        assert [found.grade for found in judge_one(check, case).findings] == [Grade.DECLARED]

    def test_seeds_without_effect_are_another_code(self) -> None:
        settings: dict[str, Any] = {"version": "0.9.0", "seed__per_replica": "replica", "seed__engine": 0, **DIVIDED}
        case = played(first=drawn(GROUP), second=drawn(GROUP, seed=1, engine={"seed": 1}), **settings)
        assert judge_one(check, case).findings == ()
        (found,) = judge_one(identical, case).findings
        assert (found.grade, found.severity) == (Grade.OBSERVED, Severity.ERROR)
        whole = played(first=drawn(GROUP), second=drawn(GROUP, seed=1), **{**settings, "sampling__n": 8})
        assert judge_one(identical, whole).findings[0].severity is Severity.WARNING
        apart = played(first=drawn(GROUP), second=drawn(OTHER, seed=1), **settings)
        assert judge_one(identical, apart).outcome is Outcome.PASS
        assert "2 replicas" in str(judge_one(check, apart).reason)

    def test_requests_with_one_seed(self) -> None:
        settings: dict[str, Any] = {
            "seed__per_request": "same",
            "seed__deterministic": True,
            "seed__per_replica": "replica",
            "placement__engines": 1,
        }
        alike = [completion(list(range(16)), request=f"request {i}", seed=0) for i in range(8)]
        case = played(version="0.9.0", first=drawn(GROUP, requests=alike), **settings, **ROWS)
        (found,) = judge_one(check, case).findings
        assert found.grade is Grade.REPRODUCED

    def test_requests_with_seeds_that_have_no_effect(self) -> None:
        settings: dict[str, Any] = {"seed__per_request": "counter", "seed__per_replica": "replica"}
        alike = [completion(list(range(16)), request=f"request {i}", seed=i) for i in range(8)]
        case = played(version="0.9.0", first=drawn(GROUP, requests=alike), placement__engines=1, **settings, **ROWS)
        assert judge_one(check, case).findings == ()
        assert "with other seeds or none" in judge_one(identical, case).findings[0].message
        own = [{**row, "request": f"request {i}", "seed": i} for i, row in enumerate(GROUP)]
        case = played(version="0.9.0", first=drawn(GROUP, requests=own), placement__engines=1, **settings, **ROWS)
        assert judge_one(identical, case).outcome is Outcome.PASS

    def test_one_request_that_draws_all(self) -> None:
        settings: dict[str, Any] = {
            "seed__per_request": "same",
            "sampling__seed": 1,
            "batch__generations": 8,
            "sampling__n": 8,
        }
        rows = [completion(list(range(16)), request="request 0", seed=1, index=i) for i in range(8)]
        case = played("EasyR1", first=drawn(GROUP, requests=rows), seed__per_replica="same", **settings)
        assert judge_one(check, case).findings == ()
        assert "7 of 7 completions of a group repeat" in judge_one(identical, case).findings[0].message


class TestRanks:
    """Two ranks with an engine object each."""

    APART: ClassVar[dict[str, Any]] = {"placement__engines": 1, "engine__tensor_parallel_size": 2}

    def test_they_agree(self) -> None:
        rows = {"completions": GROUP}
        result = judge_one(check, ranks(rows, rows, seed__per_replica="replica", **self.APART))
        assert result.outcome is Outcome.PASS and "agree in 8 completions" in str(result.reason)

    def test_seeds_apart_are_reproduced(self) -> None:
        case = ranks({"completions": GROUP}, {"completions": OTHER}, seed__per_replica="rank", **self.APART)
        assert [found.grade for found in judge_one(check, case).findings] == [Grade.REPRODUCED]

    def test_they_wait_for_each_other(self) -> None:
        late = {"ended": "died", "waiting": True}
        case = ranks(late, late, "timed-out", seed__per_replica="rank", **self.APART)
        (found,) = judge_one(check, case).findings
        assert found.grade is Grade.REPRODUCED and "wait for each other" in found.evidence[-1].text

    def test_one_seed_and_other_tokens(self) -> None:
        case = ranks({"completions": GROUP}, {"completions": OTHER}, seed__per_replica="replica", **self.APART)
        (found,) = judge_one(check, case).findings
        assert found.grade is Grade.OBSERVED and "draw different tokens" in found.message

    def test_ranks_that_do_not_come_up_are_reported(self) -> None:
        raised = {"ended": "raised", "exceptions": [link("RuntimeError", "create shm failed")]}
        result = judge_one(check, ranks(raised, raised, "failed", seed__per_replica="replica", **self.APART))
        assert result.outcome is Outcome.PASS and "RuntimeError: create shm failed" in str(result.reason)
