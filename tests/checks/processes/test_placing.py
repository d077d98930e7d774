"""Placement groups against clusters: by hand, and as a real Ray places them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.processes.ray_resources.placing import Group, place

ONE, TWO, FOUR = {"CPU": 1.0}, {"CPU": 2.0}, {"CPU": 4.0}
# Nodes of the cluster, and groups: bundles and whether they find a place by PACK, SPREAD, STRICT_PACK, STRICT_SPREAD.
NODES: list[dict[str, float]] = [{"CPU": 4.0}, {"CPU": 2.0, "rack": 1.0}, {"CPU": 2.0, "GPU": 1.0}]
STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
GROUPS: list[tuple[list[dict[str, float]], tuple[bool, bool, bool, bool]]] = [
    ([ONE] * 2, (True, True, True, True)),
    ([ONE] * 3, (True, True, True, True)),
    ([ONE] * 4, (True, True, True, False)),
    ([ONE] * 8, (True, True, False, False)),
    ([ONE] * 9, (False, False, False, False)),
    ([TWO] * 3, (True, True, False, True)),
    ([FOUR], (True, True, True, True)),
    ([FOUR] * 2, (False, False, False, False)),
    ([FOUR, TWO, TWO], (True, True, False, True)),
    ([{"CPU": 2.0, "rack": 1.0}, {"CPU": 1.0, "GPU": 1.0}], (True, True, False, True)),
    ([{"rack": 0.5}, {"rack": 0.5}], (True, True, True, False)),
    ([{"GPU": 1.0}, {"GPU": 1.0}], (False, False, False, False)),
    ([{"nowhere": 1.0}], (False, False, False, False)),
]
SHAPES = [
    (bundles, strategy, placed)
    for bundles, by in GROUPS
    for strategy, placed in zip(STRATEGIES, by, strict=True)
]  # fmt: skip


# Groups for which there is room that Ray does not find, and bundles of several kinds, on nodes of their own.
MIXED: list[dict[str, float]] = [{"CPU": 16.0, "GPU": 4.0}, {"CPU": 4.0, "GPU": 2.0, "rack": 2.0}, {"CPU": 8.0}]
KINDS: list[tuple[list[dict[str, float]], str, bool]] = [
    # The bundle with most GPUs goes first, to the node with most left; the one that needs its cores comes too late.
    ([{"GPU": 2.0, "CPU": 1.0}, {"GPU": 1.0, "CPU": 8.0}], "STRICT_SPREAD", False),
    ([{"GPU": 2.0, "CPU": 1.0}, {"GPU": 1.0, "CPU": 8.0}], "PACK", True),
    ([{"GPU": 1.0, "CPU": 1.0}, {"GPU": 1.0, "CPU": 8.0}], "STRICT_SPREAD", True),
    ([{"GPU": 0.5, "CPU": 2.0}] * 8, "PACK", True),
    # Two parts of 0.6 do not fit a device, and Ray counts the sum when it chooses.
    ([{"GPU": 0.6, "CPU": 1.0}] * 4, "STRICT_PACK", True),
    ([{"GPU": 0.6, "CPU": 1.0}] * 5, "STRICT_PACK", False),
    ([{"GPU": 0.6, "CPU": 1.0}] * 6, "PACK", False),
    ([{"GPU": 0.6, "CPU": 1.0}] * 6, "SPREAD", False),
    ([{"GPU": 0.6, "CPU": 1.0}] * 5, "SPREAD", True),
    ([{"GPU": 0.25, "rack": 1.0}] * 2, "STRICT_PACK", True),
    ([{"GPU": 0.25, "rack": 1.0}] * 3, "SPREAD", False),
    ([{"GPU": 1.0, "CPU": 4.0, "rack": 1.0}, {"CPU": 1.0, "rack": 1.0}], "STRICT_PACK", False),
    ([{"CPU": 9.0}, {"CPU": 8.0}, {"CPU": 4.0}], "STRICT_SPREAD", True),
    ([{"CPU": 9.0}, {"CPU": 8.0}, {"CPU": 5.0}], "STRICT_SPREAD", False),
    ([{"CPU": 9.0}, {"CPU": 8.0}, {"CPU": 5.0}], "SPREAD", True),
    ([{"GPU": 1.0}, {"GPU": 1.0}, {"CPU": 1.0}], "STRICT_SPREAD", True),
]


@pytest.mark.parametrize(("bundles", "strategy", "placed"), SHAPES)
def test_a_group_on_three_nodes(bundles: list[dict[str, float]], strategy: str, placed: bool) -> None:
    assert place([Group(strategy, tuple(bundles))], NODES).complete is placed


@pytest.mark.parametrize(("bundles", "strategy", "placed"), KINDS)
def test_bundles_of_several_kinds(bundles: list[dict[str, float]], strategy: str, placed: bool) -> None:
    assert place([Group(strategy, tuple(bundles))], MIXED).complete is placed


def test_groups_that_are_asked_for_one_after_another() -> None:
    nodes = [{"GPU": 8.0, "CPU": 24.0}] * 2
    pool = Group("STRICT_PACK", ({"GPU": 1.0, "CPU": 3.0},) * 8, count=2)
    assert place([pool], nodes).complete is True
    # What runs the loop goes to a node without devices, and takes a core of the others where there is none.
    loop = Group("ACTOR", ({"CPU": 1.0},))
    assert place([loop, pool], [*nodes, {"CPU": 1.0}]).complete is True
    came = place([loop, pool], nodes)
    assert (came.complete, came.group, came.placed, came.before) == (False, pool, 1, (loop,))


def test_what_depends_on_which_node_is_looked_at_first_is_left_open() -> None:
    # Two nodes come out even for the first bundle; the second needs the one of them that may have been taken.
    bundles = ({"GPU": 1.0}, {"CPU": 4.0})
    nodes = [{"GPU": 1.0, "CPU": 4.0}, {"GPU": 1.0}]
    assert place([Group("STRICT_SPREAD", bundles)], nodes).complete is None


def test_a_thousand_nodes_take_no_long_time() -> None:
    nodes = [{"GPU": 8.0, "CPU": 96.0, "memory": float(number)} for number in range(1000)]
    pool = Group("STRICT_PACK", ({"GPU": 1.0, "CPU": 3.0},) * 8, count=1000)
    assert place([pool], nodes).complete is True
    assert place([Group("SPREAD", ({"GPU": 1.0, "CPU": 3.0},) * 8001)], nodes).complete is False


def test_no_nodes_hold_nothing() -> None:
    assert [place([Group(strategy, (ONE,))], []).complete for strategy in STRATEGIES] == [False] * 4


RAY = """
import json, sys, time
import ray
from ray.cluster_utils import Cluster
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group

nodes, shapes = json.loads(sys.argv[1]), json.loads(sys.argv[2])
cluster = Cluster()
for node in nodes:
    own = {name: amount for name, amount in node.items() if name not in ("CPU", "GPU")}
    cluster.add_node(num_cpus=int(node["CPU"]), num_gpus=int(node.get("GPU", 0)), resources=own)
ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
cluster.wait_for_nodes()
placed = []
for bundles, strategy in shapes:
    group = placement_group(bundles, strategy=strategy)
    end = time.monotonic() + 2
    while placement_group_table(group)["state"] != "CREATED" and time.monotonic() < end:
        time.sleep(0.02)
    placed.append(placement_group_table(group)["state"] == "CREATED")
    remove_placement_group(group)
    total = ray.cluster_resources()
    for _ in range(200):  # the bundles are given back
        free = ray.available_resources()
        if all(free.get(name) == total[name] for name in ("CPU", "GPU", "rack")):
            break
        time.sleep(0.05)
print(json.dumps(placed), flush=True)
ray.shutdown()
cluster.shutdown()
"""


@pytest.mark.ray
@pytest.mark.parametrize(("nodes", "shapes"), [(NODES, SHAPES), (MIXED, KINDS)])
def test_ray_places_them_alike(nodes: Any, shapes: Any, python_with_ray: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_enable_worker_prestart", "0")
    asked: list[Any] = [(bundles, strategy) for bundles, strategy, _ in shapes]
    command = [str(python_with_ray), "-c", RAY, json.dumps(nodes), json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    placed = json.loads(done.stdout.splitlines()[-1])
    assert [(shape, ray) for shape, ray in zip(shapes, placed, strict=True) if shape[2] is not ray] == []


@pytest.mark.ray
def test_launches_of_the_benchmark_find_what_ray_does(python_with_ray: Path) -> None:
    from benchmarks import placement

    names = [name for name, shape in placement.SHAPES.items() if shape.cluster == "single"]
    rows = placement.measured(names, python_with_ray)
    assert len(rows) == 4 and [row for row in rows if row[1] != row[2]] == []
