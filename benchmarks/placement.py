"""Fifty-eight placement shapes on Ray's own multi-node cluster with simulated devices: whether what ``check --ray``
says of a launch is what Ray does with the placement groups of its framework.

python -m benchmarks.placement [--only NAME] PYTHON_WITH_RAY

The groups are written down as the frameworks' sources make them, apart from how rldoctor derives them from the launch.
Ray is asked twice: with what others hold, and without."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Bundles = list[dict[str, float]]
Groups = list[tuple[str, Bundles]]
Nodes = tuple[dict[str, float], ...]

ONE = {"GPU": 1.0, "CPU": 1.0}
# A head without devices and two nodes of eight; the cores are what `ray start --num-cpus` was told.
TWO: Nodes = ({"CPU": 4}, {"GPU": 8, "CPU": 32}, {"GPU": 8, "CPU": 32})
STARVED: Nodes = ({"CPU": 4}, {"GPU": 8, "CPU": 16}, {"GPU": 8, "CPU": 16})
UNEVEN: Nodes = ({"GPU": 8, "CPU": 32}, {"GPU": 4, "CPU": 32}, {"GPU": 4, "CPU": 8})
SMALL: Nodes = ({"GPU": 4, "CPU": 8}, {"GPU": 4, "CPU": 8}, {"GPU": 2, "CPU": 64})
SINGLE: Nodes = ({"GPU": 8, "CPU": 24},)
ROOMY: Nodes = ({"CPU": 16}, {"GPU": 8, "CPU": 64}, {"GPU": 8, "CPU": 64})
THREE: Nodes = ({"CPU": 8}, {"GPU": 8, "CPU": 40}, {"GPU": 8, "CPU": 24}, {"GPU": 6, "CPU": 20})
ODD: Nodes = ({"GPU": 2, "CPU": 6}, {"GPU": 3, "CPU": 9}, {"GPU": 5, "CPU": 30})
PAIRS: Nodes = ({"CPU": 2}, *({"GPU": 2, "CPU": cores} for cores in (8.0, 8.0, 7.0, 5.0)))
NO_SPARE: Nodes = ({"GPU": 8, "CPU": 17}, {"GPU": 8, "CPU": 16})
CLUSTERS = {
    "roomy": ROOMY, "two": TWO, "starved": STARVED, "uneven": UNEVEN, "small": SMALL, "single": SINGLE,
    "three": THREE, "odd": ODD, "pairs": PAIRS, "no spare": NO_SPARE,
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """A launch on a cluster, the groups that its framework makes, and what others hold meanwhile."""

    cluster: str
    package: str
    launch: str
    groups: Groups
    held: tuple[Bundles, ...] = ()


def verl(cluster: str, nodes: int, each: int, cores: int = 3, more: str = "", held: tuple[Bundles, ...] = ()) -> Shape:
    launch = (
        f"python3 -m verl.trainer.main_ppo trainer.nnodes={nodes} trainer.n_gpus_per_node={each} "
        f"actor_rollout_ref.rollout.name=vllm actor_rollout_ref.model.path=m {more}"
    )
    # TaskRunner holds a core while the pools are made.
    pools: Groups = [("ACTOR", [{"CPU": 1}]), *[("STRICT_PACK", [{"GPU": 1.0, "CPU": cores}] * each)] * nodes]
    if more:
        pools = [*pools, ("STRICT_PACK", [{"GPU": 1, "CPU": cores}] * 4)]
    return Shape(cluster, "verl==0.7.1" if cores == 3 else "verl==0.6.1", launch, pools, held)


def apart(cluster: str, trainer: int, engines: int, fully: bool = True, version: str = "0.9.0") -> Shape:
    """verl's engines of two ranks on devices of their own: with a loop for each side, or one for both."""
    entry = "fully_async_policy.fully_async_main" if fully else "one_step_off_policy.main_ppo"
    launch = (
        f"python3 -m verl.experimental.{entry} trainer.nnodes=1 trainer.n_gpus_per_node={trainer} rollout.nnodes=1 "
        f"rollout.n_gpus_per_node={engines} actor_rollout_ref.rollout.tensor_model_parallel_size=2 "
        "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.model.path=m"
    )
    pools: Groups = [("STRICT_PACK", [{"GPU": 1, "CPU": 3}] * trainer)]
    theirs: Groups = [("STRICT_PACK", [{"GPU": 1, "CPU": 2}] * 2)] * (engines // 2)
    first, second, last = ((1, 10), (10,), (2,)) if fully else ((10,), (), ())
    groups = [*_loops(*first), *pools, *_loops(*second), *theirs, *_loops(*last)]
    return Shape(cluster, f"verl=={version}", launch, groups)


def _loops(*cores: float) -> Groups:
    return [("ACTOR", [{"CPU": one}]) for one in cores]


REWARDS = "reward_model.enable_resource_pool=True reward_model.nnodes=1 reward_model.n_gpus_per_node=4"


def openrlhf(
    cluster: str, version: str, actor: tuple[int, int], engines: int, size: int, groups: Groups, more: str = ""
) -> Shape:
    launch = (
        f"python3 -m openrlhf.cli.train_ppo_ray --pretrain m --remote_rm_url http://h/rm --actor_num_nodes {actor[0]} "
        f"--actor_num_gpus_per_node {actor[1]} --vllm_num_engines {engines} --vllm_tensor_parallel_size {size} "
        f"--ref_num_nodes {actor[0]} --ref_num_gpus_per_node {actor[1]} --advantage_estimator reinforce {more}"
    )
    return Shape(cluster, f"openrlhf=={version}", launch, groups)


def skyrl(cluster: str, colocated: bool, policy: tuple[int, int], engines: int, size: int, groups: Groups) -> Shape:
    launch = (
        f"uv run -m skyrl.train.entrypoints.main_base trainer.placement.colocate_all={str(colocated).lower()} "
        f"trainer.placement.policy_num_nodes={policy[0]} trainer.placement.policy_num_gpus_per_node={policy[1]} "
        f"trainer.placement.ref_num_nodes={policy[0]} trainer.placement.ref_num_gpus_per_node={policy[1]} "
        "trainer.placement.colocate_policy_ref=true trainer.policy.model.path=m "
        f"generator.inference_engine.num_engines={engines} generator.inference_engine.tensor_parallel_size={size}"
    )
    return Shape(cluster, "skyrl==0.3.0", launch, [("ACTOR", [{"CPU": 1}]), *groups])


def nemo_rl(cluster: str, nodes: int, each: int, size: int, groups: Groups, engines: str = "", held: Any = ()) -> Shape:
    colocated = "policy.generation.colocated.enabled=" + ("false " + engines if engines else "true")
    launch = (
        f"uv run examples/run_grpo_math.py cluster.num_nodes={nodes} cluster.gpus_per_node={each} "
        f"policy.generation.backend=vllm policy.generation.vllm_cfg.tensor_parallel_size={size} "
        f"grpo.num_prompts_per_step=8 policy.model_name=m {colocated}"
    )
    return Shape(cluster, "nemo-rl==0.4.0", launch, groups, held)


THEIRS = "policy.generation.colocated.resources."
SHAPES = {
    "verl two nodes": verl("two", 2, 8),
    "verl two nodes, one core each": verl("starved", 2, 8, cores=1),
    "verl three cores for a device on starved nodes": verl("starved", 2, 8),
    "verl four of eight on starved nodes": verl("starved", 2, 4),
    "verl third node": verl("two", 3, 8),
    "verl eight twice on uneven nodes": verl("uneven", 2, 8),
    "verl four three times on uneven nodes": verl("uneven", 3, 4, cores=1),
    "verl four four times on uneven nodes": verl("uneven", 4, 4, cores=1),
    "verl five times four": verl("uneven", 5, 4, cores=1),
    "verl with a pool for rewards": verl("two", 1, 8, more=REWARDS),
    "verl with a pool for rewards and no room": verl("two", 2, 8, more=REWARDS),
    "verl while another job holds a node": verl("two", 2, 8, held=([{"GPU": 8, "CPU": 8}],)),
    "verl while another job holds cores alone": verl("two", 2, 8, held=([{"CPU": 12}, {"CPU": 12}],)),
    "verl while another job holds the head": verl("two", 2, 8, held=([{"CPU": 4}],)),
    "verl fully async": apart("roomy", 8, 8),
    "verl fully async, cores of the loops": apart("two", 8, 8),
    "verl fully async, half a node each": apart("two", 4, 4),
    "verl one step off": apart("roomy", 8, 8, fully=False),
    "verl one step off, cores of the loop": apart("two", 8, 8, fully=False),
    "verl single node without a core to spare": verl("single", 1, 8),
    "verl single node, a core is held": verl("single", 1, 8, held=([{"CPU": 1}],)),
    "verl four while fractions are held": verl("single", 1, 4, held=([{"GPU": 0.5, "CPU": 1}] * 2,)),
    "verl seven while fractions are held": verl("single", 1, 7, held=([{"GPU": 0.6, "CPU": 1}] * 2,)),
    "openrlhf split": openrlhf("two", "0.8.5", (1, 4), 2, 2, [("PACK", [ONE] * 4)] * 3),
    "openrlhf split, too many": openrlhf(
        "two", "0.8.5", (1, 8), 2, 2, [("PACK", [ONE] * 8)] * 2 + [("PACK", [ONE] * 4)]
    ),
    "openrlhf all colocated": openrlhf(
        "two", "0.8.5", (2, 8), 8, 2, [("PACK", [ONE] * 16)], more="--colocate_all_models"
    ),
    "openrlhf colocated on small nodes": openrlhf(
        "small", "0.8.5", (2, 5), 5, 2, [("PACK", [ONE] * 10)], more="--colocate_all_models"
    ),
    "openrlhf of old, a node each": openrlhf(
        "two", "0.5.7", (2, 4), 2, 1,
        [("STRICT_SPREAD", [{"GPU": 4, "CPU": 4}] * 2), ("PACK", [ONE]), ("PACK", [ONE])], more="--colocate_actor_ref",
    ),
    "openrlhf of old, three nodes": openrlhf(
        "two", "0.5.7", (3, 2), 2, 1,
        [("STRICT_SPREAD", [{"GPU": 2, "CPU": 2}] * 3), ("PACK", [ONE]), ("PACK", [ONE])], more="--colocate_actor_ref",
    ),
    "openrlhf of old, engines first take nothing": openrlhf(
        "small", "0.5.7", (2, 4), 1, 2,
        [("STRICT_SPREAD", [{"GPU": 4, "CPU": 4}] * 2), ("PACK", [ONE] * 2)], more="--colocate_actor_ref",
    ),
    "skyrl colocated": skyrl("two", True, (2, 8), 4, 4, [("PACK", [ONE] * 16)]),
    "skyrl split": skyrl("two", False, (1, 8), 2, 4, [("PACK", [ONE] * 8), ("PACK", [{"GPU": 8, "CPU": 8}])]),
    "skyrl split, engines cut the policy's node": skyrl(
        "uneven", False, (1, 8), 2, 2, [("PACK", [ONE] * 4), ("PACK", [{"GPU": 8, "CPU": 8}])]
    ),
    "skyrl split on small nodes": skyrl(
        "small", False, (2, 4), 1, 2, [("PACK", [ONE] * 2), ("PACK", [{"GPU": 4, "CPU": 4}] * 2)]
    ),
    "skyrl six of a node that has four": skyrl(
        "small", False, (1, 6), 1, 2, [("PACK", [ONE] * 2), ("PACK", [{"GPU": 6, "CPU": 6}])]
    ),
    "nemo-rl colocated": nemo_rl("two", 2, 8, 4, [("PACK", [{"GPU": 1, "CPU": 2}] * 8)] * 2),
    "nemo-rl colocated on starved nodes": nemo_rl("starved", 2, 8, 4, [("PACK", [{"GPU": 1, "CPU": 2}] * 8)] * 2),
    "nemo-rl colocated on nodes with few cores": nemo_rl("small", 2, 4, 4, [("PACK", [{"GPU": 1, "CPU": 2}] * 4)] * 2),
    "nemo-rl one group for all": nemo_rl("two", 2, 8, 16, [("SPREAD", [{"GPU": 1, "CPU": 2}] * 16)]),
    "nemo-rl split": nemo_rl(
        "two", 2, 8, 4, [("PACK", [ONE] * 8)] * 2,
        engines=f"{THEIRS}num_nodes=1 {THEIRS}gpus_per_node=8",
    ),
    "nemo-rl one group, a node is held": nemo_rl(
        "two", 2, 8, 16, [("SPREAD", [{"GPU": 1, "CPU": 2}] * 16)], held=([{"GPU": 1, "CPU": 1}],)
    ),
    "verl six three times, cores just enough": verl("three", 3, 6),
    "verl eight on nodes of eight, eight and six": verl("three", 3, 8),
    "verl six while another job holds the third": verl("three", 3, 6, held=([{"GPU": 6, "CPU": 20}],)),
    "verl fully async over three nodes": apart("three", 8, 6),
    "verl one step off over three nodes": apart("three", 8, 8, fully=False),
    "verl five of the largest odd node": verl("odd", 1, 5),
    "verl three twice, cores left by the loop": verl("odd", 2, 3),
    "verl four twice on odd nodes": verl("odd", 2, 4, cores=1),
    "verl ten of one": verl("odd", 10, 1, cores=1),
    "nemo-rl three twice on odd nodes": nemo_rl("odd", 2, 3, 1, [("PACK", [{"GPU": 1, "CPU": 2}] * 3)] * 2),
    "openrlhf all colocated on odd nodes": openrlhf(
        "odd", "0.8.5", (2, 5), 10, 1, [("PACK", [ONE] * 10)], more="--colocate_all_models"
    ),
    "verl two four times, a node short of cores": verl("pairs", 4, 2),
    "verl four of nodes of two": verl("pairs", 2, 4, cores=1),
    "openrlhf of old, a pair each": openrlhf(
        "pairs", "0.5.7", (4, 1), 2, 1,
        [("STRICT_SPREAD", [{"GPU": 1, "CPU": 1}] * 4), ("PACK", [ONE]), ("PACK", [ONE])], more="--colocate_actor_ref",
    ),
    "skyrl split over pairs": skyrl(
        "pairs", False, (2, 2), 2, 2, [("PACK", [ONE] * 4), ("PACK", [{"GPU": 2, "CPU": 2}] * 2)]
    ),
    "verl without a node for its loop": verl("no spare", 2, 8),
    "skyrl split without a core to spare": skyrl(
        "no spare", False, (1, 8), 4, 2, [("PACK", [ONE] * 8), ("PACK", [{"GPU": 8, "CPU": 8}])]
    ),
}  # fmt: skip

# Keeps one cluster up and places groups as it is told, a line for each.
DRIVER = """
import json, sys, time
import ray
from ray.cluster_utils import Cluster
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group

cluster = Cluster()
for number, node in enumerate(json.loads(sys.argv[1])):
    has = {"num_cpus": node["CPU"], "num_gpus": node.get("GPU", 0)}
    cluster.add_node(object_store_memory=100 << 20, include_dashboard=False, **has)
ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
cluster.wait_for_nodes()
print(json.dumps(cluster.address), flush=True)

@ray.remote
class Loop:
    def is_up(self):
        return True

def made(groups, seconds):
    # One after another, as the frameworks wait for each; what is not placed on an idle cluster by now never will be.
    asked = []
    for strategy, bundles in groups:
        if strategy == "ACTOR":
            asked.append(Loop.options(num_cpus=bundles[0]["CPU"]).remote())
            if not ray.wait([asked[-1].is_up.remote()], timeout=10 * seconds)[0]:
                return asked, False
            continue
        asked.append(placement_group(bundles, strategy=strategy))
        end = time.monotonic() + seconds
        while placement_group_table(asked[-1])["state"] != "CREATED":
            if time.monotonic() > end:
                return asked, False
            time.sleep(0.02)
    return asked, True

def freed(groups):
    for group in groups:
        ray.kill(group) if isinstance(group, ray.actor.ActorHandle) else remove_placement_group(group)
    total = ray.cluster_resources()
    for _ in range(500):
        free = ray.available_resources()
        if all(free.get(name, 0) == total[name] for name in ("CPU", "GPU") if name in total):
            return
        time.sleep(0.02)

held = []
for line in sys.stdin:
    order, groups = json.loads(line)
    if order == "hold":
        held, ok = made(groups, 10)
        assert ok
        time.sleep(1)  # the nodes tell what is free of them
    else:
        asked, ok = made(groups, 3)
        freed([*asked, *held])
        held = []
    print(json.dumps(ok if order == "place" else True), flush=True)
ray.shutdown()
cluster.shutdown()
"""


# No workers are needed to reserve bundles.
QUIET = {"RAY_enable_worker_prestart": "0", "RAY_USAGE_STATS_ENABLED": "0"}


@contextmanager
def cluster(python: Path, nodes: Nodes) -> Iterator[Any]:
    """A cluster of these nodes: its address, and how it is spoken to."""
    command = [str(python), "-c", DRIVER, json.dumps(nodes)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with (
        tempfile.TemporaryDirectory(
            prefix="ray", dir="/tmp", ignore_cleanup_errors=True
        ) as folder,  # short, for sockets
        subprocess.Popen(command, env={**os.environ, "RAY_TMPDIR": folder, **QUIET}, **pipes) as driver,
    ):
        assert driver.stdin is not None and driver.stdout is not None
        orders, answers = driver.stdin, driver.stdout

        def told(order: str = "", groups: Any = ()) -> Any:
            if order:
                orders.write(json.dumps([order, groups]).encode() + b"\n")
                orders.flush()
            return json.loads(answers.readline() or "null")

        try:
            yield told(), told
        finally:
            driver.stdin.close()
            driver.wait(60)


def environment(folder: Path, python: Path) -> Path:
    """An environment with the other's Ray, in which a framework can be made to look installed."""
    subprocess.run([str(python), "-m", "venv", "--without-pip", str(folder)], check=True)
    where = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    theirs = subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip()
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "ray.pth").write_text(theirs + "\n")
    return site


def said(shape: Shape, address: str, site: Path) -> tuple[str, str]:
    """What ``check`` says of the launch on this cluster: placed, busy or never; and its words."""
    name, _, version = shape.package.partition("==")
    with tempfile.TemporaryDirectory(suffix=".dist-info", prefix=f"{name}-{version}-", dir=site) as installed:
        (Path(installed) / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file = site / "run.sh"
        file.write_text(shape.launch + "\n")
        command = [sys.executable, "-m", "rldoctor", "check", str(file), "--ray", address]
        command += ["--python", str(site.parents[2] / "bin" / "python"), "--level", "imports", "--format", "json"]
        done = subprocess.run(
            [*command, "--select", "RLD602"], capture_output=True, text=True, timeout=120, check=False
        )
    if not done.stdout:
        return "no answer", done.stderr.strip()
    report = json.loads(done.stdout)
    for finding in report["findings"]:
        return {"error": "never", "warning": "busy"}[finding["severity"]], finding["message"]
    (check,) = report["checks"]
    return {"pass": "placed"}.get(check["outcome"], check["outcome"]), check["reason"] or ""


def measured(names: list[str], python: Path) -> list[tuple[str, str, str, str]]:
    """Name, what Ray does, what is said, and in which words."""
    rows = []
    for name, nodes in CLUSTERS.items():
        wanted = {key: SHAPES[key] for key in names if SHAPES[key].cluster == name}
        if not wanted:
            continue
        with tempfile.TemporaryDirectory() as folder, cluster(python, nodes) as (address, told):
            site = environment(Path(folder), python)
            for key, shape in wanted.items():
                told("hold", [("PACK", bundles) for bundles in shape.held])
                verdict, words = said(shape, address, site)
                now = told("place", shape.groups)  # and lets go of what was held
                does = "placed" if now else "busy" if shape.held and told("place", shape.groups) else "never"
                rows.append((key, does, verdict, words))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("python", type=Path)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    rows = measured([name for name in SHAPES if given.only in name], given.python)
    for name, does, verdict, words in rows:
        print(f"{'=' if does == verdict else '!'} {name}: Ray {does}, said {verdict}: {words}")
    print(f"{sum(does == verdict for _, does, verdict, _ in rows)} of {len(rows)} agree")


if __name__ == "__main__":
    main()
