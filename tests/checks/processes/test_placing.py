"""Placement groups against clusters: by hand, and as a real Ray places them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rldoctor_checks.processes.ray_resources.placing import fits

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


@pytest.mark.parametrize(("bundles", "strategy", "placed"), SHAPES)
def test_a_group_on_three_nodes(bundles: list[dict[str, float]], strategy: str, placed: bool) -> None:
    assert fits(bundles, strategy, NODES) is placed


def test_bundles_that_another_order_might_place_are_left_open() -> None:
    # The largest first fills the nodes badly: 3 + 3 and 2 + 2 + 2 would do.
    bundles = [{"CPU": float(n)} for n in (3, 3, 2, 2, 2)]
    assert fits(bundles, "PACK", [{"CPU": 6.0}, {"CPU": 6.0}]) in (True, None)


def test_no_nodes_hold_nothing() -> None:
    assert [fits([ONE], strategy, []) for strategy in STRATEGIES] == [False] * 4


RAY = """
import json, sys
import ray
from ray.cluster_utils import Cluster
from ray.util.placement_group import placement_group, remove_placement_group

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
    placed.append(group.wait(2))
    remove_placement_group(group)
    total = ray.cluster_resources()["CPU"]
    for _ in range(200):  # the bundles are given back
        if ray.available_resources().get("CPU") == total:
            break
        import time
        time.sleep(0.05)
print(json.dumps(placed), flush=True)
ray.shutdown()
cluster.shutdown()
"""


@pytest.mark.ray
def test_ray_places_them_alike(python_with_ray: Path) -> None:
    asked: list[Any] = [(bundles, strategy) for bundles, strategy, _ in SHAPES]
    command = [str(python_with_ray), "-c", RAY, json.dumps(NODES), json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    placed = json.loads(done.stdout.splitlines()[-1])
    unlike = [(shape, ray) for shape, ray in zip(SHAPES, placed, strict=True) if shape[2] is not ray]
    assert unlike == []
