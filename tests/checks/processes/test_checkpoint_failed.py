"""RLD610: checkpoints that cannot be written or read."""

from __future__ import annotations

import pytest
from rldoctor_checks.processes.checkpoint_failed import check

from tests.logs.asking import finding, findings, raised

SAVE = "/opt/venv/lib/python3.11/site-packages/transformers/modeling_utils.py save_pretrained"


@pytest.mark.parametrize(
    "error",
    [
        "safetensors_rust.SafetensorError: Error while serializing: I/O error: No space left on device (os error 28)",
        "OSError: [Errno 122] Disk quota exceeded: 'out/model.safetensors'",
    ],
)
def test_a_save_that_fails(error: str) -> None:
    kind, message = error.split(": ", 1)
    assert finding(check, raised(kind, message, SAVE)).message.startswith("saving a checkpoint failed")


def test_what_safetensors_says_needs_no_frames() -> None:
    said = 'Error while serializing: IoError(Os { code: 28, kind: StorageFull, message: "No space left on device" })'
    assert "No space left on device" in finding(check, f"safetensors_rust.SafetensorError: {said}\n").message
    assert findings(check, "OSError: [Errno 122] Disk quota exceeded: 'out/model.safetensors'\n") == []


def test_a_parameter_that_was_saved_in_another_shape() -> None:
    # https://github.com/RLinf/RLinf/issues/655
    told = "Size mismatch between saved torch.Size([257152, 2048]) and current: torch.Size([131661824]) for model.embed"
    found = finding(check, raised("ValueError", told))
    assert found.message == "model.embed was saved with the shape [257152, 2048], and this run has [131661824]"
    left_out = f"WARNING {told}: left as it was made\n"
    assert findings(check, left_out + raised("KeyError", "'answer'", "/home/user/rl/reward.py score")) == []


def test_torchs_writer_that_lost_its_place() -> None:
    # https://github.com/meta-pytorch/torchforge/issues/568
    where = "/opt/venv/lib/python3.12/site-packages/torch/serialization.py __exit__"
    told = "[enforce fail at inline_container.cc:664] . unexpected pos 704 vs 598"
    assert "unexpected pos 704" in finding(check, raised("RuntimeError", told, where)).message


def test_a_full_disk_somewhere_else() -> None:
    assert (
        findings(check, raised("OSError", "[Errno 28] No space left on device: '/tmp/ray/x'", "/x/ray/node.py start"))
        == []
    )
    shared = "unable to allocate shared memory(shm) for file </torch_1>: No space left on device (28)"
    assert findings(check, raised("RuntimeError", shared, SAVE)) == []


def test_a_checkpoint_that_was_cut_off() -> None:
    text = "PytorchStreamReader failed reading zip archive: failed finding central directory"
    assert "incomplete" in finding(check, raised("RuntimeError", text)).message


def test_what_ray_carries_to_the_driver_counts_with_the_drivers_frames() -> None:
    # https://github.com/verl-project/verl/issues/3346
    text = """\
Traceback (most recent call last):
  File "/home/user/verl/verl/trainer/ppo/ray_trainer.py", line 919, in _save_checkpoint
    self.actor_rollout_wg.save_checkpoint(
ray.exceptions.RayTaskError(RuntimeError): ray::WorkerDict.save_checkpoint() (pid=21050, ip=192.0.2.1)
  File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 1266, in __exit__
    self.file_like.write_end_of_file()
RuntimeError: [enforce fail at inline_container.cc:659] . unexpected pos 2387758464 vs 2387758376
"""
    assert "inline_container" in finding(check, text).message


def test_what_grew_from_a_failed_write_may_be_cut_off() -> None:
    # https://github.com/hkust-nlp/simpleRL-reason/issues/19
    lines = [
        "    zip_file.write_record(name, storage, num_bytes)",
        "RuntimeError: [enforce fail at inline_container.cc:778] . PytorchStreamWriter failed writing file data/0: "
        "file write failed",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "ray::CriticModelRayActor.save_checkpoint() (pid=499917, ip=192.0.2.1, actor_id=4fc574fc0b)",
        '  File "/home/user/openrlhf/trainer/ray/ppo_critic.py", line 194, in save_checkpoint',
        "    self.strategy.save_ckpt(",
    ]
    text = "".join(f"(ActorModelRayActorBOX pid=499400) {line}\n" for line in lines)
    assert "PytorchStreamWriter" in findings(check, text)[0].message


@pytest.mark.parametrize("why", ["[Errno 30] Read-only file system: '/mnt/ckpt'", "[Errno 116] Stale file handle"])
def test_a_folder_that_the_node_lost(why: str) -> None:
    found = finding(check, raised("OSError", why, "trainer.py save_checkpoint", "/usr/lib/python3.11/os.py makedirs"))
    assert found.message == f"the checkpoint's folder cannot be used: {why}"
    assert findings(check, raised("OSError", why, "train.py load_rows")) == []


STATE = "/opt/megatron-lm/megatron/core/optimizer_param_scheduler.py load_state_dict"


def test_a_state_without_what_this_release_loads() -> None:
    found = finding(check, raised("KeyError", "'total_iters'", STATE))
    assert found.message.startswith("the checkpoint's training state has no total_iters")
    assert findings(check, "KeyError: 'total_iters'\n") != []
    own = "/home/user/rl/train.py <module>"
    assert findings(check, raised("KeyError", "'optimizer'", own, code='optimizer.load_state_dict(ckpt["optimizer"])'))


@pytest.mark.parametrize(
    "place",
    [
        "/home/user/rl/reward.py score",
        "/opt/venv/lib/python3.11/site-packages/transformers/modeling_utils.py load_state_dict",
        "/opt/venv/lib/python3.11/site-packages/vllm/model_executor/models/qwen2.py load_weights",
    ],
)
def test_a_key_that_no_checkpoint_was_asked_for(place: str) -> None:
    assert findings(check, raised("KeyError", "'optimizer'", place)) == []
    assert findings(check, "KeyError: 'answer'\n") == []


def test_a_decorator_of_another_name_loads_nothing() -> None:
    where = "/opt/venv/lib/python3.10/site-packages/ray/util/tracing/tracing_helper.py _resume_span"
    assert findings(check, raised("KeyError", "'messages'", where)) == []


def test_weights_that_are_loaded_into_a_partitioned_model() -> None:
    # https://github.com/hiyouga/ChatGLM-Efficient-Tuning/issues/312
    said = (
        "Error(s) in loading state_dict for ValueHead:\n\tsize mismatch for summary.weight: copying a param with shape "
        "torch.Size([1, 4096]) from checkpoint, the shape in current model is torch.Size([{}])."
    )
    assert "ZeRO-3" in finding(check, raised("RuntimeError", said.format(0))).message
    assert "does not fit ValueHead" in finding(check, raised("RuntimeError", said.format("1, 2048"))).message
