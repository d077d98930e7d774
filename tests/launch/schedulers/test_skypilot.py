"""SkyPilot tasks: the commands under ``run``, with the variables that the cluster gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.launch.recognise import read

TASK = """\
resources:
  accelerators: {accelerators}
num_nodes: 2
envs:
  MODEL: ./model
  WANDB_API_KEY: null
run: |
  if [ "$SKYPILOT_NODE_RANK" = "0" ]; then
    ray start --head
    python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=$MODEL trainer.nnodes=$SKYPILOT_NUM_NODES \\
      trainer.n_gpus_per_node=$SKYPILOT_NUM_GPUS_PER_NODE
  else
    ray start --address $HEAD
  fi
"""


@pytest.mark.parametrize("accelerators", ["H100:4", "{H100: 4}", "[H100:4, A100-80GB:4]"])
def test_a_task_is_read_with_what_it_asks_for(tmp_path: Path, accelerators: str) -> None:
    (tmp_path / "task.yaml").write_text(TASK.format(accelerators=accelerators))
    (plan,) = read(tmp_path / "task.yaml", version_of={"verl": "0.6.1"})
    assert (plan.value("placement.nodes"), plan.value("placement.gpus_per_node")) == (2, 4)
    assert (plan.value("scheduler.nodes"), plan.value("scheduler.gpus_per_node")) == (2, 4)
    assert plan.value("model.path") == "./model"
    nodes = plan.get("scheduler.nodes")
    assert nodes is not None
    assert nodes.line == 3


def test_devices_to_choose_from_are_no_number(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(TASK.format(accelerators="[H100:4, L4:8]"))
    (plan,) = read(tmp_path / "task.yaml", version_of={"verl": "0.6.1"})
    assert plan.value("scheduler.gpus_per_node") is None
    assert plan.value("placement.gpus_per_node") is None
