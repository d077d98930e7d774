"""Short pieces of real logs (torchrun, vLLM, TRL, Ray on a CPU; paths shortened) that several tests put together."""

from __future__ import annotations

HEALTHY = """\
INFO 11-20 21:24:33 [core.py:133] Initializing a V1 LLM engine (v0.11.0) with config: model='/models/qwen'
INFO 11-20 21:24:35 [gpu_model_runner.py:1906] Loading weights took 0.31 seconds
{'loss': '0.0364', 'grad_norm': '1.522', 'reward': '0.825', 'reward_std': '0.24', 'epoch': '0.125'}
{'loss': '0.0321', 'grad_norm': '1.402', 'reward': '0.835', 'reward_std': '0.22', 'epoch': '0.25'}
{'loss': '0.0301', 'grad_norm': '1.322', 'reward': '0.845', 'reward_std': '0.21', 'epoch': '0.375'}
{'train_runtime': '7.469', 'train_loss': '-0.08558', 'epoch': '0.5'}
DONE
"""

REWARD_RAISES = """\
Traceback (most recent call last):
  File "/home/user/rl/train.py", line 21, in <module>
    trainer.train()
  File "/opt/venv/lib/python3.11/site-packages/trl/trainer/grpo_trainer.py", line 1626, in _calculate_rewards
    output_reward_func = reward_func(
                         ^^^^^^^^^^^^
  File "/home/user/rl/train.py", line 9, in reward
    return [float(c == kw["answer"][0]) for c in completions]
                       ~~^^^^^^^^^^
KeyError: 'answer'
"""

OUT_OF_MEMORY = """\
Traceback (most recent call last):
  File "/home/user/rl/train.py", line 40, in <module>
    trainer.train()
  File "/opt/venv/lib/python3.11/site-packages/transformers/trainer.py", line 2059, in training_step
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 13.91 GiB. GPU 3 has a total capacity of 79.11 GiB of \
which 5.06 GiB is free.
"""

PEER_GONE = """\
Traceback (most recent call last):
  File "/home/user/rl/train.py", line 40, in <module>
    trainer.train()
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 5356, in barrier
    work.wait()
RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:24463. \
This is typically caused by a remote worker hanging or bugs in the application.
"""

SEGFAULT = """\
Fatal Python error: Segmentation fault

Current thread 0x00007ff18fe23b80 (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/torch/autograd/graph.py", line 824 in _engine_run_backward
  File "/home/user/rl/train.py", line 7 in <module>

Extension modules: numpy._core._multiarray_umath, torch._C (total: 2)
"""
TERMINATED = """\
terminate called after throwing an instance of 'c10::Error'
  what():  CUDA error: an illegal memory access was encountered
"""


def ranked(rank: int, text: str) -> str:
    """The text as torch's exception hook prints it on that rank."""
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


def elastic(rank: int, code: int = 1) -> str:
    """What torchrun writes when that rank failed first."""
    return f"""\
E1120 20:49:05.791000 7526 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) \
local_rank: {rank} (pid: 7535) of binary: /opt/venv/bin/python
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 7, in <module>
    sys.exit(main())
             ^^^^^^
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 383, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_20:49:05
  host      : localhost
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 7535)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def interleaved(parts: list[str]) -> str:
    """The parts' lines in turns, as processes write that share one standard error."""
    queues = [part.splitlines() for part in parts]
    lines: list[str] = []
    while any(queues):
        lines += [queue.pop(0) for queue in queues if queue]
    return "\n".join(lines) + "\n"
