"""dstack's tasks: their commands, with the variables that the nodes give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.launch.recognise import read

TASK = """\
type: task
nodes: 2
env:
  - MODEL=./model
  - WANDB_API_KEY
commands:
  - pip install verl
  - |
    ray start --head
    python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=$MODEL trainer.nnodes=$DSTACK_NODES_NUM \\
      trainer.n_gpus_per_node=$DSTACK_GPUS_PER_NODE
resources:
  gpu: {gpu}
"""


@pytest.mark.parametrize("gpu", ["H100:4", "4", "A100:80GB:4", "80GB..:4", "{name: H100, count: 4}"])
def test_a_task_is_read_with_what_it_asks_for(tmp_path: Path, gpu: str) -> None:
    (tmp_path / "grpo.dstack.yml").write_text(TASK.format(gpu=gpu))
    (plan,) = read(tmp_path / "grpo.dstack.yml", version_of={"verl": "0.6.1"})
    assert (plan.value("placement.nodes"), plan.value("placement.gpus_per_node")) == (2, 4)
    assert (plan.value("scheduler.nodes"), plan.value("scheduler.gpus_per_node")) == (2, 4)
    model, nodes = plan.get("model.path"), plan.get("scheduler.nodes")
    assert model is not None and nodes is not None
    assert (model.value, model.line, nodes.line) == ("./model", 10, 2)


@pytest.mark.parametrize(
    "gpu", ["H100:1..8", "v5litepod-8", "H100", "80GB", "{name: H100}", "{count: {min: 4, max: 8}}"]
)
def test_devices_to_choose_from_are_no_number(tmp_path: Path, gpu: str) -> None:
    (tmp_path / "grpo.dstack.yml").write_text(TASK.format(gpu=gpu))
    (plan,) = read(tmp_path / "grpo.dstack.yml", version_of={"verl": "0.6.1"})
    assert plan.value("scheduler.gpus_per_node") is None
    assert plan.value("placement.gpus_per_node") is None


TORCHRUN = """\
type: task
nodes: 2
commands:
  - torchrun --nnodes={nodes} --nproc-per-node=8 --node-rank=$DSTACK_NODE_RANK
    --master-addr=$DSTACK_MASTER_NODE_IP --master-port=29500 train.py
resources:
  gpu: H100:8
"""


def test_a_launcher_that_waits_for_more_nodes_than_the_task_has(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from trl import GRPOTrainer\nGRPOTrainer()\n")
    task = tmp_path / "grpo.dstack.yml"
    task.write_text(TORCHRUN.format(nodes=4))
    (plan,) = read(task)
    assert (plan.value("process.nnodes"), plan.value("scheduler.nodes")) == (4, 2)
    task.write_text(TORCHRUN.format(nodes="$DSTACK_NODES_NUM"))
    (plan,) = read(task)
    assert plan.value("process.nnodes") == 2
