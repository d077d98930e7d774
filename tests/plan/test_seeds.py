"""Seeds derived for a whole plan: rank, node, replica, seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rldoctor.api import Setting
from rldoctor.api.seeds import SeedTopology, completions_per_request, replicas_per_prompt, seed_topology
from tests.checks.launches import launch


def topology(framework: str = "TRL", **settings: Any) -> SeedTopology | None:
    case = launch(framework, **settings)
    assert case.plan is not None
    return seed_topology(case.plan)


def seeds(framework: str = "TRL", **settings: Any) -> list[int | None]:
    found = topology(framework, **settings)
    assert found is not None
    return [row.seed for row in found.ranks]


def test_each_rule_gives_its_seeds() -> None:
    two_by_two: dict[str, Any] = {"placement__engines": 2, "engine__tensor_parallel_size": 2}
    assert seeds(**two_by_two, seed__per_replica="replica", seed__engine=7) == [7, 7, 8, 8]
    assert seeds(**two_by_two, seed__per_replica="same", seed__engine=7) == [7, 7, 7, 7]
    assert seeds(**two_by_two, seed__per_replica="rank", seed__engine=7) == [7, 8, 9, 10]
    assert seeds(**two_by_two, seed__per_replica="random") == [None] * 4


def test_pipeline_ranks_are_peers_too() -> None:
    found = topology(placement__engine_gpus=8, engine__pipeline_parallel_size=2, seed__per_replica="replica")
    assert found is not None
    assert found.replicas == 4 and found.disagreeing == ()
    assert [row.peer for row in found.ranks] == [0, 1] * 4


def test_data_parallel_ranks_inside_an_engine_are_no_replicas() -> None:
    found = topology("verl", placement__engine_gpus=16, placement__engines=4, seed__per_replica="replica")
    assert found is not None
    assert found.replicas == 4 and [row.seed for row in found.ranks if row.peer == 0] == [0, 1, 2, 3]


def test_nemo_rl_counts_engines_on_each_node() -> None:
    found = topology(
        "NeMo-RL",
        placement__engine_gpus=8,
        placement__gpus_per_node=4,
        engine__tensor_parallel_size=2,
        seed__per_replica="replica",
        seed__node_stride=1024,
    )
    assert found is not None
    assert [row.seed for row in found.ranks] == [0, 0, 1, 1, 1024, 1024, 1025, 1025]
    assert [row.node for row in found.ranks] == [0] * 4 + [1] * 4


def test_the_servers_engines_count_where_the_file_starts_one() -> None:
    server = {"placement__engines": 2, "seed__per_replica": "same", "engine__tensor_parallel_size": 2}
    found = topology(server=server, placement__engines=16, seed__per_replica="replica")
    assert found is not None and len(found.ranks) == 4
    assert found.shared == {0: 2}


def test_nothing_is_derived_from_nothing() -> None:
    assert topology(placement__engines=4) is None
    assert topology(seed__per_replica="same") is None


@pytest.mark.parametrize(
    ("settings", "nodes"),
    [
        ({"placement__mode": "colocate", "process__nproc": 2}, [0, 0, 1, 1]),
        ({"placement__mode": "colocate", "process__nproc": 2, "placement__gpus_per_node": 4}, [0, 0, 0, 0]),
        ({"placement__mode": "server", "process__nproc": 2}, [0, 0, 0, 0]),
        ({"placement__mode": "colocate"}, [0, 0, 0, 0]),
    ],
)
def test_a_node_holds_as_many_ranks_as_the_launcher_starts_there(settings: dict[str, Any], nodes: list[int]) -> None:
    found = topology(placement__engines=4, seed__per_replica="replica", **settings)
    assert found is not None and [row.node for row in found.ranks] == nodes


def test_one_line_for_people() -> None:
    few = topology(placement__engines=2, engine__tensor_parallel_size=2, seed__per_replica="rank")
    assert few is not None and few.by_replica() == "replica 0: 0, 1; replica 1: 2, 3"
    found = topology(placement__engines=40, seed__per_replica="replica")
    assert found is not None
    assert found.by_replica().startswith("replica 0: 0; replica 1: 1; ") and found.by_replica().endswith(
        "...; replica 39: 39"
    )
    assert found.summary() == "40 ranks in 40 replicas, seeds 0, 1, 2, 3, ..., 39 (replica)"


def test_which_replicas_share_a_prompt() -> None:
    def together(rows: int, n: int, replicas: int, each: int = 1) -> int | None:
        batch: dict[str, Any] = {"batch__generation": rows, "batch__generations": n, "sampling__n": each}
        plan = launch(rollout__spread="parts", **batch).plan
        assert plan is not None
        return replicas_per_prompt(plan, replicas)

    assert together(rows=8, n=8, replicas=4) == 4
    assert together(rows=16, n=8, replicas=4) == 2
    assert together(rows=64, n=8, replicas=4) == 1
    assert together(rows=8, n=8, replicas=4, each=8) == 1
    # Parts that do not line up hold different rows at the same places.
    assert together(rows=24, n=8, replicas=2) == 1
    assert together(rows=9, n=8, replicas=2) is None
    # A batch that holds no whole group is none that the trainer takes.
    assert together(rows=4, n=8, replicas=2) is None


@pytest.mark.parametrize(
    ("spread", "together"),
    [("parts", 4), ("turns", 4), ("prompt", 1), ("load", None), ("session", None), (None, None)],
)
def test_how_requests_reach_the_replicas_decides(spread: str | None, together: int | None) -> None:
    batch: dict[str, Any] = {"batch__generation": 8, "batch__generations": 8, "sampling__n": 1}
    plan = launch(**batch, rollout__spread=spread).plan
    assert plan is not None and replicas_per_prompt(plan, 4) == together


def test_how_many_completions_a_request_draws() -> None:
    def each(**settings: Any) -> int | None:
        plan = launch(batch__generations=8, **settings).plan
        assert plan is not None
        return completions_per_request(plan)

    assert each(sampling__n=8) == 8
    assert each(batch__per_request=1) == 1
    assert each() is None


def test_engines_with_an_option_of_their_own_each_are_counted_from_their_base() -> None:
    own = {"engine.seed": Setting(unknown="every replica has its own")}
    plan = launch("TRL", placement__engines=4, seed__per_replica="replica", seed__engine=0).plan
    assert plan is not None
    found = seed_topology(replace(plan, settings={**plan.settings, **own}))
    assert found is not None and [row.seed for row in found.ranks] == [0, 1, 2, 3]


@pytest.mark.parametrize("option", ["engine.tensor_parallel_size", "placement.engine_gpus", "seed.engine"])
def test_what_cannot_be_read_is_counted_by_nobody(option: str) -> None:
    rule: dict[str, Any] = {"seed__per_replica": "same", "seed__engine": 3}
    known = launch("verl", engine__tensor_parallel_size=2, placement__engine_gpus=8, **rule).plan
    assert known is not None and (counted := seed_topology(known)) is not None and counted.replicas == 4
    unread = Setting(value=None, key=option, unknown="$COUNT is not set")
    assert seed_topology(replace(known, settings={**known.settings, option: unread})) is None
