"""Families of log messages that frameworks and schedulers write: what fires, and its neighbour that stays quiet.

The messages are those of the programs themselves: Slurm's slurmstepd, kubelet events, Ray 2.9 to 2.46 (raylet, GCS
client, ``ray/exceptions.py``), torch_npu, Triton and LLVM, ATen, Megatron Core 0.12, DeepSpeed, wandb 0.19."""

from __future__ import annotations

import pytest

from rldoctor.api import Finding
from rldoctor.logs.triage import triage_text
from tests.loaded import REGISTRY
from tests.logs.asking import raised
from tests.logs.excerpts import HEALTHY

SITE = "/opt/venv/lib/python3.11/site-packages"
STEPS = HEALTHY[: HEALTHY.index("{'train_runtime'")]
SLURM = "slurmstepd: error: *** STEP 553019.0 ON dgx-17 CANCELLED AT 2025-07-22T05:41:07 {why}***\n"
RAYLET = "(raylet) [2025-08-30 03:14:52,117 E 3310 3310] (raylet) "
NPU = (
    "create_config:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:102 HCCL function error: "
    "hcclCommInitRootInfoConfig(numRanks, &rootInfo, rank, config, &(comm->hcclComm_)), error code is {code}"
)
KERNEL = (
    "/pytorch/aten/src/ATen/native/cuda/{file}:{line}: kernel: block: [0,0,0], thread: [3,0,0] Assertion `{words}` "
    "failed.\n"
)

FIRES: list[tuple[str, str, str]] = [
    (STEPS + SLURM.format(why="DUE TO PREEMPTION "), "RLD603", "preempted the job 553019 "),
    (STEPS + SLURM.format(why="DUE TO TIME LIMIT "), "RLD603", "at its time limit"),
    (
        STEPS + SLURM.format(why="DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS "),
        "RLD603",
        "the node dgx-17 failed",
    ),
    (
        STEPS + SLURM.format(why="DUE TO JOB REQUEUE "),
        "RLD603",
        "took the job 553019 from dgx-17 back into the queue",
    ),
    (
        STEPS + "srun: error: Node failure on dgx-17\nsrun: Job step aborted: Waiting up to 32 seconds for job step to "
        "finish.\n",
        "RLD603",
        "the node dgx-17 failed",
    ),
    (
        "srun: error: Task launch for StepId=553019.0 failed on node dgx-17: Invalid job credential\n"
        "srun: error: Application launch failed: Invalid job credential\n",
        "RLD603",
        "could not start the step on dgx-17: Invalid job credential",
    ),
    (
        "srun: error: Unable to create step for job 553019: More processors requested than permitted\n",
        "RLD603",
        "could not start the step: More processors requested",
    ),
    (
        STEPS + "  Warning  NodeNotReady  2m  node-controller  Node is not ready\n",
        "RLD603",
        "the node of the pod is not ready",
    ),
    (
        STEPS + "  Warning  BackoffLimitExceeded  1m  job-controller  Job has reached the specified backoff limit\n",
        "RLD603",
        "it failed each time",
    ),
    (
        "  Warning  FailedScheduling  9s  default-scheduler  0/12 nodes are available: 12 Insufficient nvidia.com/gpu. "
        "preemption: 0/12 nodes are available: 12 No preemption victims found for incoming pod.\n",
        "RLD602",
        "no node of the 12 has the nvidia.com/gpu that the pod asks for",
    ),
    (
        STEPS + "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0. Some of the step tasks have been OOM "
        "Killed.\n",
        "RLD604",
        "memory was used up",
    ),
    (
        "  Warning  Evicted  3m  kubelet  The node was low on resource: memory. Threshold quantity: 100Mi, "
        "available: 92Mi.\n",
        "RLD604",
        "its node ran low on memory",
    ),
    (
        "  Warning  Evicted  3m  kubelet  The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi.\n",
        "RLD114",
        "local disk is used up",
    ),
    (
        '  Warning  Failed  8s  kubelet  Failed to pull image "registry.example/rl:v9": not found\n'
        "  Warning  Failed  8s  kubelet  Error: ErrImagePull\n",
        "RLD603",
        "cannot pull the image registry.example/rl:v9",
    ),
    (
        STEPS + RAYLET + "file_system_monitor.cc:116: /tmp/ray/session_2025 is over 95% full, available space: 2.04 "
        "GB; capacity: 69.9 GB. Object creation will fail if spilling is required.\n",
        "RLD114",
        "/tmp/ray/session_2025 over 95 %, 2.04 GB left of 69.9 GB",
    ),
    (
        "[2025-07-23 10:05:49,679 W 51000 51000] gcs_rpc_client.h:151: Failed to connect to GCS at address "
        "10.0.0.4:6379 "
        "within 5 seconds.\n[2025-07-23 10:06:19,681 W 51000 51000] gcs_client.cc:183: Failed to get cluster "
        "ID from GCS "
        "server: TimedOut: Timed out while waiting for GCS to become available.\n",
        "RLD323",
        "no Ray head answers at 10.0.0.4:6379",
    ),
    (
        STEPS + "srun: error: Node failure on dgx-17\nsrun: error: Aborting step 900.1\n",
        "RLD603",
        "the node dgx-17 failed",
    ),
    (
        "slurmstepd: error: execve(): /tmp/slurmd/job299/slurm_script: No such file or directory\n",
        "RLD603",
        "could not start /tmp/slurmd/job299/slurm_script on a node: No such file",
    ),
    (
        STEPS + "slurmstepd: error: *** JOB 61842 STEPD TERMINATED ON n44 AT 2026-03-02T11:03:50 DUE TO JOB NOT ENDING "
        "WITH SIGNALS ***\n",
        "RLD603",
        "processes of the job 61842 on n44 could not be ended",
    ),
    (
        STEPS
        + "2026-04-09 13:17:57,345\tWARNING worker.py:1085 -- The node with node id: 7f12 and ip: 172.31.8.135 has "
        "been marked dead because the detector has missed too many heartbeats from it.\n",
        "RLD603",
        "Ray counts the node 172.31.8.135 as dead",
    ),
    (
        "[2026-06-23 09:11:23,100 C 89 89] (raylet) node_manager.cc:1046: [Timeout] Exiting because this node manager "
        "has mistakenly been marked as dead by the GCS: GCS failed to check the health of this node for 5 times.\n",
        "RLD603",
        "took a node for dead that lived",
    ),
    (
        STEPS + "PBS Job Id: 326.fe1\nExec host:  gpu-1-12/2\nAborted by PBS Server\nJob exceeded its walltime limit. "
        "Job was aborted\n",
        "RLD603",
        "PBS ended the job at its time limit",
    ),
    (
        STEPS + "PBS Job Id: 259.fe1\njob deleted\njob preempted (node failure)\n",
        "RLD603",
        "PBS preempted the job (node failure)",
    ),
    (
        "ray-worker-qtr59   rl   Evicted   oct-03   Pod The node had condition: [DiskPressure]. \n",
        "RLD603",
        "its node was in DiskPressure",
    ),
    (
        "status:\n  conditions:\n  - message: preempted to accommodate a workload\n    reason: PreemptionByScheduler\n"
        "    type: DisruptionTarget\n  phase: Failed\n",
        "RLD603",
        "Kubernetes ended the pod: reason: PreemptionByScheduler",
    ),
    (
        "".join(f"[2026-02-27T21:35:30.1Z] fa88a9df || {line}\n" for line in STEPS.splitlines())
        + "[2026-02-27T21:35:32.1Z] fa88a9df || WARNING: torch.distributed.elastic.agent.server.api:Received 15 death "
        "signal, shutting down workers\n",
        "RLD603",
        "the run was terminated (signal 15)",
    ),
    (
        STEPS
        + "[2023-06-14 23:54:11,900 E 869 1530] gcs_rpc_client.h:542: Failed to connect to GCS within 60 seconds. "
        "GCS may have been killed. It's either GCS is terminated by `ray stop` or is killed unexpectedly.\n",
        "RLD603",
        "the head of the Ray cluster is gone",
    ),
    (
        STEPS
        + "(raylet, ip=10.0.0.128) [2022-07-25 08:35:14,805 C 157 212] (raylet) gcs_rpc_client.h:537:  Check failed: "
        "absl::Now() - alive < ::RayConfig::instance().gcs_rpc_server_reconnect_timeout_s() Failed to connect to GCS "
        "within 60 seconds\n",
        "RLD603",
        "the head of the Ray cluster is gone",
    ),
    (
        raised(
            "ray.exceptions.RuntimeEnvSetupError",
            "Failed to set up runtime environment.\nCould not create the actor because its associated "
            "runtime env failed to "
            "be created.\nPackage size (812.33MiB) exceeds the maximum size of 500.00MiB. You can exclude large files.",
            f"{SITE}/ray/_private/worker.py get",
        ),
        "RLD603",
        "has 812.33MiB, and 500.00MiB is the most",
    ),
    (
        raised(
            "ray.exceptions.RuntimeEnvSetupError",
            "Failed to set up runtime "
            "environment.\nray._private.runtime_env.utils.SubprocessCalledProcessError: Run cmd[9] "
            "failed with the following details.",
            f"{SITE}/ray/_private/worker.py get",
        ),
        "RLD603",
        "could not build the runtime environment",
    ),
    (raised("RuntimeError", NPU.format(code=7), f"{SITE}/torch/distributed/utils.py sync"), "RLD320", "error code 7"),
    (
        raised(
            "ImportError",
            "libascendcl.so: cannot open shared object file: No such file or directory",
            f"{SITE}/torch_npu/__init__.py <module>",
        ),
        "RLD106",
        "libascendcl.so is not found",
    ),
    (
        STEPS + "INFO 04-27 08:15:33 [cuda.py:240] Cannot use FlashAttention-2 backend for Volta and Turing GPUs.\n"
        "LLVM ERROR: Failed to compute parent layout for slice layout.\n",
        "RLD107",
        "compute capability 7.x",
    ),
    (STEPS + "LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.mma\n", "RLD112", "gave up"),
    (
        raised(
            "triton.runtime.errors.OutOfResources",
            "out of resource: shared memory, Required: 163840, Hardware "
            "limit: 101376. Reducing block sizes or `num_stages` may help.",
            f"{SITE}/triton/compiler/compiler.py init",
        ),
        "RLD107",
        "163840 bytes of shared memory per block, and this GPU has 101376",
    ),
    (
        raised(
            "torch._inductor.exc.InductorError",
            "LoweringException: AssertionError: dynamic shape",
            f"{SITE}/torch/x.py f",
        ),
        "RLD112",
        "torch.compile fails (InductorError): LoweringException",
    ),
    (
        STEPS
        + KERNEL.format(file="ScatterGatherKernel.cu", line=365, words="idx_dim >= 0 && idx_dim < index_size") * 3,
        "RLD305",
        "idx_dim >= 0",
    ),
    (
        raised(
            "megatron.core.dist_checkpointing.core.CheckpointingException",
            "Object shard /ckpts/global_step_160/actor/dist_ckpt/rng_state/shard_0.3_1.4.pt not found",
            f"{SITE}/megatron/core/dist_checkpointing/strategies/common.py load",
        ),
        "RLD610",
        "written with another parallel layout",
    ),
    (
        raised(
            "deepspeed.runtime.zero.utils.ZeRORuntimeException",
            "The checkpoint being loaded used a DP world size of 8 but the current world size is 4. "
            "Automatic adjustment of "
            "ZeRO's optimizer state partitioning with a new world size is not currently supported.",
            f"{SITE}/deepspeed/runtime/engine.py load_checkpoint",
        ),
        "RLD610",
        "8 data parallel ranks wrote the DeepSpeed checkpoint, and 4 load it",
    ),
    (
        raised(
            "FileNotFoundError",
            "[Errno 2] No such file or directory: '/ckpts/global_step_40/actor/model_world_size_16_rank_9.pt'",
            f"{SITE}/verl/utils/checkpoint/fsdp_checkpoint_manager.py load_checkpoint",
        ),
        "RLD610",
        "no part for rank 9 of 16",
    ),
    (
        raised(
            "Exception",
            "Request error for 5 times, returning None. Please check the API server.",
            f"{SITE}/openrlhf/utils/remote_rm_utils.py request_api_wrapper",
        ),
        "RLD607",
        "the remote reward model does not answer",
    ),
    (
        raised(
            "TypeError",
            "GRPOTrainer._get_train_sampler() takes 1 positional argument but 2 were given",
            f"{SITE}/transformers/trainer.py _get_dataloader",
        ),
        "RLD104",
        "GRPOTrainer overrides _get_train_sampler()",
    ),
    (
        raised(
            "AttributeError",
            "'DeepSpeedZeRoOffload' object has no attribute '_register_hooks_recursively'",
            f"{SITE}/trl/models/utils.py add_hooks",
        ),
        "RLD104",
        "DeepSpeed 0.16.4 and later have renamed",
    ),
    (
        raised("RuntimeError", "ACL stream synchronize failed, error code:507034", f"{SITE}/vllm_ascend/worker.py f"),
        "RLD305",
        "a kernel failed on an Ascend device",
    ),
    (
        raised(
            "requests.exceptions.HTTPError",
            "401 Client Error: Unauthorized for url: https://huggingface.co/acme/model-7b/resolve/main/config.json",
            f"{SITE}/huggingface_hub/utils/_http.py hf_raise_for_status",
        ),
        "RLD115",
        "the hub does not give acme/model-7b to this node",
    ),
    (
        "2025-10-28 14:50:18.369\tERROR The worker group startup timed out after 30.0 seconds waiting for 8 workers.\n",
        "RLD602",
        "Ray cannot place a group",
    ),
    (
        "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'\n",
        "RLD107",
        "compiler does not know a GPU of compute capability 12.1",
    ),
    (
        raised(
            "subprocess.CalledProcessError",
            f"Command '['{SITE}/triton/backends/nvidia/bin/ptxas', '-lineinfo', '-v', '--gpu-name=sm_100', "
            "'/tmp/a.ptx', '-o', '/tmp/a.ptx.o']' returned non-zero exit status 255.",
            f"{SITE}/triton/backends/nvidia/compiler.py make_cubin",
        ),
        "RLD107",
        "compiler does not know a GPU of compute capability 10.0",
    ),
    (
        raised("RuntimeError", "write(): fd 29 failed with Input/output error", f"{SITE}/torch/serialization.py save"),
        "RLD610",
        "saving a checkpoint failed",
    ),
    (
        raised(
            "RuntimeError",
            'Error(s) in loading state_dict for PeftModelForCausalLM:\n\tMissing key(s) in state_dict: "base_model.x"',
            f"{SITE}/torch/nn/modules/module.py load_state_dict",
        ),
        "RLD610",
        "does not fit PeftModelForCausalLM: base_model.x",
    ),
    (
        raised(
            "RuntimeError",
            "Error(s) in loading state_dict for Qwen2ForCausalLM:\n\tsize mismatch for lm_head.weight: copying a "
            "param with shape torch.Size([151936, 896]) from checkpoint, the shape in current model is "
            "torch.Size([151665, 896]).",
            f"{SITE}/torch/nn/modules/module.py load_state_dict",
        ),
        "RLD610",
        "has the shape [151936, 896] there and [151665, 896] in the model",
    ),
    (
        raised(
            "RuntimeError",
            "Error(s) in loading state_dict for GPTModel:\n\tMissing key(s) in state_dict: "
            '"decoder.layers.0.self_attention.linear_qkv._extra_state".',
            f"{SITE}/torch/nn/modules/module.py load_state_dict",
        ),
        "RLD610",
        "extra state",
    ),
    (
        raised(
            "RuntimeError",
            "Missing key in checkpoint state_dict: optim.state.head.weight.exp_avg.",
            f"{SITE}/torch/x.py f",
        ),
        "RLD610",
        "the checkpoint has no optim.state.head.weight.exp_avg",
    ),
    (
        raised(
            "pyarrow.lib.ArrowInvalid", "Parquet magic bytes not found in footer. Either", f"{SITE}/pyarrow/core.py f"
        ),
        "RLD902",
        "no Parquet file",
    ),
    (
        raised(
            "jinja2.exceptions.TemplateError",
            "This model only supports single tool-calls at once!",
            f"{SITE}/jinja2/environment.py handle_exception",
        ),
        "RLD215",
        "refuses the conversation: This model only supports single tool-calls at once!",
    ),
    (
        raised(
            "TypeError",
            "Object of type Undefined is not JSON serializable",
            f"{SITE}/transformers/utils/chat_template_utils.py render_jinja_template",
        ),
        "RLD215",
        "as JSON",
    ),
    (
        raised(
            "torch._dynamo.exc.Unsupported",
            'Observed exception\n  Developer debug context: raised exception ValueError(["no such mode"])',
            f"{SITE}/torch/_dynamo/exc.py unimplemented_v2",
        ),
        "RLD112",
        "raises ValueError: no such mode",
    ),
    (
        '  File "/x/rl/verl/trainer/main.py", line 94, in run\n    trainer.fit()\n'
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.update_actor() (pid=118848, ip=10.130.71.7)\n"
        '  File "/x/rl/verl/single_controller/ray/base.py", line 432, in func\n    return getattr(self.worker_dict\n',
        "RLD206",
        "a worker of Ray ran out of device memory in WorkerDict.update_actor",
    ),
    (
        raised(
            "AssertionError",
            "First dimension of the tensor should be divisible by tensor parallel size",
            f"{SITE}/megatron/core/tensor_parallel/mappings.py _reduce_scatter_along_first_dim",
        ),
        "RLD209",
        "tokens of a micro batch",
    ),
    (
        raised("RuntimeError", "server launch failed", f"{SITE}/acme/engine.py _wait_for_server"),
        "RLD607",
        "gave up waiting for its rollout servers",
    ),
]

QUIET: list[tuple[str, str]] = [
    (HEALTHY + "sbatch: jobs over the limit are CANCELLED AT midnight DUE TO TIME LIMIT policy\n", "RLD603"),
    (STEPS + "slurmstepd: info: no oom_kill event\n" + HEALTHY, "RLD604"),
    # A node that an autoscaler took away, or that came back.
    (
        STEPS + "(raylet) The node with node id: 9f and address: 10.0.3.9 and node name: 10.0.3.9 has been marked dead "
        "because it was drained by the autoscaler (idle termination).\n" + HEALTHY,
        "RLD603",
    ),
    ("  Warning  FailedScheduling  9s  0/2 nodes are available: 2 Insufficient nvidia.com/gpu.\n" + HEALTHY, "RLD602"),
    (HEALTHY.replace("DONE\n", "disk of /tmp/ray/session_2025 is 40% full\nDONE\n"), "RLD114"),
    (raised("RuntimeError", "HCCL function error: hcclAllReduce", f"{SITE}/torch/distributed/x.py f"), "RLD320"),
    (raised("RuntimeError", "LLVM IR is empty", f"{SITE}/triton/compiler.py f"), "RLD107"),
    (raised("AssertionError", "Assertion `x` failed", f"{SITE}/torch/x.py f"), "RLD305"),
    (raised("KeyError", "'model_world_size_16_rank_9.pt'", f"{SITE}/verl/utils/x.py f"), "RLD610"),
    (raised("Exception", "Please check the API server", "/home/user/reward.py f"), "RLD607"),
    (raised("TypeError", "sampler() takes 1 positional argument but 2 were given", f"{SITE}/torch/x.py f"), "RLD104"),
    (raised("RuntimeError", "the package is not installed", f"{SITE}/acme/x.py f"), "RLD108"),
    (raised("TypeError", "Object of type Undefined is not JSON serializable", "/home/user/x.py f"), "RLD215"),
    (raised("UndefinedError", "'x' is undefined", "/home/user/x.py f"), "RLD215"),
    (raised("subprocess.CalledProcessError", "Command '['/usr/bin/ptxas', '-V']' failed", "/home/u/x.py f"), "RLD107"),
    (raised("RuntimeError", "read(): fd 3 failed with Input/output error", f"{SITE}/acme/x.py f"), "RLD610"),
    (STEPS + "Health check: 401 Client Error: Unauthorized for url: http://10.0.0.1/x\n" + HEALTHY, "RLD115"),
    (raised("RuntimeError", "a recent driver is not installed", f"{SITE}/acme/x.py f"), "RLD108"),
]


@pytest.mark.parametrize(("text", "code", "said"), FIRES, ids=[f"{code} {said[:40]}" for _, code, said in FIRES])
def test_fires(text: str, code: str, said: str) -> None:
    found = triage_text(text).findings
    assert [finding.code for finding in found][:1] == [code], [finding.message for finding in found]
    assert said in found[0].message
    assert found[0].fixes and "{" not in found[0].message


@pytest.mark.parametrize(("text", "code"), QUIET)
def test_stays_quiet(text: str, code: str) -> None:
    assert code not in {finding.code for finding in triage_text(text).findings}


def test_a_time_limit_after_a_failure_is_no_cause() -> None:
    crash = raised("RuntimeError", "flux drained", f"{SITE}/acme/flux.py step")
    found = triage_text(crash + SLURM.format(why="DUE TO TIME LIMIT ")).findings
    assert found[0].code == "RLD900"


def test_what_to_look_for_is_named() -> None:
    text = raised(
        "RuntimeError", "flux drained at /data/run/12 after 1024 steps of hopping", f"{SITE}/acme/flux.py step"
    )
    found = unknown("acme 1.4.2 started\n" + text)
    assert found.fixes[-1].title == ('search for RuntimeError "steps of hopping", raised by step of acme')


# The failure stays unrecognised: the training has no fault. Its services' own words name what they need.
@pytest.mark.parametrize(
    ("kind", "message", "remedy"),
    [
        (
            "wandb.errors.errors.UsageError",
            "api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
            "wandb login --verify",
        ),
        (
            "wandb.errors.errors.CommError",
            "Run initialization has timed out after 90.0 sec.",
            "export WANDB_MODE=offline",
        ),
        ("swanlab.error.KeyFileError", "api key not found", "swanlab login"),
        ("mlflow.exceptions.MlflowException", "API request to http://mlflow:5000 failed", "export MLFLOW_TRACKING_URI"),
        ("openai.RateLimitError", "Error code: 429 - {'error': 'Rate limit reached'}", "max_retries"),
    ],
)
def test_a_service_names_its_own_remedy(kind: str, message: str, remedy: str) -> None:
    package = kind.partition(".")[0]
    found = unknown(raised(kind, message, f"{SITE}/{package}/sdk/client.py ask"))
    assert any(remedy in text for fix in found.fixes for text in (fix.title, *fix.commands))


def unknown(text: str) -> Finding:
    (found,) = triage_text(text, [REGISTRY.checks["RLD900"]]).findings
    return found
