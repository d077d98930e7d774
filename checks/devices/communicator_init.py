"""The NCCL or gloo group for training or for weight sync cannot be built.

What it looks for
    A rollout server that leaves no memory for NCCL's buffers. A small job of several ranks on this host, through the
    environment's own torchrun, that cannot build its group. In a log: pynccl and torch errors while a communicator is
    initialised, a weight sync group that exists already or does not exist yet, a backend that this torch lacks, NCCL
    versions that differ.

Why it hurts
    The engines are up and the first generation may even have run; the weights cannot follow, and the run ends, or
    waits.

How sure it is
    The message names the group and the library's reason. Where NCCL says ``unhandled``, its reason is in its own
    warnings, which ``NCCL_DEBUG=WARN`` shows.

The fix and its cost
    Restart the server between runs, leave memory for NCCL, use one NCCL on both sides; gloo works without GPUs and is
    slower.

References
    ``trl/scripts/vllm_serve.py`` (``init_communicator``), https://github.com/modelscope/ms-swift/issues/5428
    https://github.com/OpenRLHF/OpenRLHF/issues/313, https://github.com/vllm-project/vllm/issues/5477
    ``torch/distributed/distributed_c10d.py``;
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    Role,
    Severity,
    cite,
    plan_of,
)

from ..observed.communication import cured_without, evidence, runs, warnings
from ..observed.servers import serving

check = Check("RLD320", "communicator-init-failed", __doc__, before=("RLD321",))

SHARE = "engine.gpu_memory_utilization"
# NCCL takes some hundred MiB of each device for its channels, beside the CUDA context.
HIGHEST_SHARE = 0.97


@check.declared(needs=[f"plan.{SHARE}", "plan.sync.backend"])
def no_memory_for_nccl(case: Case) -> Iterator[Finding | Reach]:
    """A server that claims nearly all of a device's memory before the sync group is built."""
    plan = plan_of(case)
    if plan.value("sync.backend") != "nccl" or plan.value("placement.mode") not in ("server", "separate", "async"):
        raise NotApplicable("no NCCL group joins trainer and engine")
    share = plan.value(SHARE)
    if share <= HIGHEST_SHARE:
        yield Reach(f"the engine claims {share:g} of each device")
        return
    yield check.finding(
        f"the engine claims {share:g} of each device's memory, which leaves next to none for the NCCL group that "
        "brings the weights",
        severity=Severity.WARNING,
        evidence=cite(plan, SHARE, "sync.backend"),
        fixes=(Fix.safe("leave room for NCCL", {SHARE: 0.9}, side_effects="less KV cache"),),
        url="https://github.com/modelscope/ms-swift/issues/5428",
    )


@check.observed(needs=["observations.collectives"])
def group_on_this_host(case: Case) -> Iterator[Finding | Reach]:
    """A real group of the ranks on this host, with the launch's settings."""
    found = runs(case)
    first = found[0]
    if first.done:
        yield Reach(f"a group was built here: {first.describe()}")
        return
    if first.shared() or cured_without(found):
        raise NotApplicable("the group fails for a reason of its own: RLD302, RLD322")
    if first.waiting is not None or first.wrong():
        raise NotApplicable("the group was built")
    stages = {str(rank.get("stage")): rank for rank in reversed(first.failed)}
    # The others wait for a rank that cannot use its GPU.
    stage = "device" if "device" in stages else next((name for name in stages if name.endswith(" group")), None)
    if stage is None:
        raise NotChecked(f"the job failed outside its groups, at stage {', '.join(stages) or 'end'}")
    rank, backend = stages[stage], stage.removesuffix(" group")
    yield check.finding(
        f"{len(first.ranks)} ranks {first.where} cannot build a group: rank {rank['rank']}{first.at(rank['rank'])} "
        + ("cannot use its GPU" if backend == "device" else f"fails in {backend}'s set-up"),
        grade=Grade.REPRODUCED,
        evidence=(*evidence(first.failed), *warnings(first.failed)),
        fixes=(_DEBUG,) if backend == "nccl" else (),
    )


_DEBUG = Fix(title="let NCCL say why", commands=("export NCCL_DEBUG=WARN",))
_MEMORY = Fix.unsafe("leave memory for NCCL beside the engine", {SHARE: 0.9})
_GLOO = Fix.unsafe("take gloo for this group", {"sync.backend": "gloo"}, side_effects="a slower weight sync")


@check.logged(
    "NCCL error: unhandled cuda error",
    "NCCL error: unhandled system error",
    "NCCL error: internal error",
    "NCCL error: invalid argument",
    "NCCL error : invalid argument",
    "NCCL error: invalid usage",
    "ncclUnhandledCudaError: Call to CUDA function failed",
    "ncclSystemError: System call",
    "ncclInternalError: Internal check failed",
)
def nccl_refuses(case: Case, event: LogEvent) -> Iterator[Finding]:
    """pynccl (vLLM's groups, weight sync) and torch's ProcessGroupNCCL say the same in two spellings."""
    sync = event.search(r"init_communicator|init_weight_update_group|init_collective|update_weight|vllm_client")
    group = "the weight sync group" if sync else "an NCCL group"
    memory = event.search(r"out of memory|Failed to CUDA (?:calloc|malloc)|Failed to CUDA host alloc")
    yield check.finding(
        f"{group} cannot be built: {'no memory is left for NCCL' if memory else 'NCCL fails'}",
        fixes=(_MEMORY, _DEBUG) if memory else (_DEBUG, _MEMORY, _GLOO),
    )


# oneCCL opens them to hand device memory to another process.
_DEVICE_FILES = (
    Fix(title="give the container the devices' files", commands=("docker run --device /dev/dri ...",)),
    Fix(title="or exchange handles without these files", commands=("export CCL_ZE_IPC_EXCHANGE=sockets",)),
)
# Intel's GPUs. These sources of oneCCL set a group up; its exceptions elsewhere come from a group that runs.
check.signature(
    "oneCCL: ",
    pattern=r"oneCCL: (?P<source>ze_fd_manager|exec|atl\w*|topo\w*|kvs\w*)\.[ch]pp:\d+ \w+: "
    r"EXCEPTION: (?P<why>[^\n]{1,160})",
    says="a group of Intel GPUs cannot be built: oneCCL says {why}",
    fixes=lambda case, event, words: (
        *(_DEVICE_FILES if words["source"] == "ze_fd_manager" else ()),
        Fix(title="let oneCCL say more", commands=("export CCL_LOG_LEVEL=info",)),
    ),
    url="https://uxlfoundation.github.io/oneCCL/env-variables.html",
)


# TRL's and ms-swift's server keeps the group of a trainer that went away.
check.signature(
    "Weight update group already initialized",
    "weight update group is already initialized",
    says="the rollout server still holds the weight sync group of an earlier trainer",
    fixes=lambda case, event, words: (
        Fix(
            title="restart the rollout server before each run, or close the group",
            commands=serving(event),
        ),
    ),
)


# Weights came before the group, or after it was closed.
check.signature(
    "Communicator not initialized. Call ",
    says=(
        "weights were sent to a rollout server without a weight sync group: building it failed before, or it was closed"
    ),
    fixes=(Fix(title="the server's log has the reason above; restart server and trainer together"),),
    role=Role.CASCADE,
)


_GLOO_OR_CUDA = (
    Fix(title="on machines without GPUs take the gloo backend", commands=("init_process_group('gloo')",)),
    Fix(
        title="on machines with GPUs install torch with CUDA",
        commands=("python -c 'import torch; print(torch.version.cuda, torch.cuda.is_available())'",),
    ),
)
check.signature(
    "Distributed package doesn't have NCCL built in",
    says="this torch has no NCCL (a build without CUDA)",
    fixes=_GLOO_OR_CUDA,
)
check.signature(
    "ProcessGroupNCCL is only supported with GPUs",
    says="NCCL is asked for in a process that sees no GPU",
    fixes=_GLOO_OR_CUDA,
)


# NCCL's own warning as the ranks compare their versions.
check.signature(
    "Mismatched NCCL version detected",
    says="the ranks of a group run different NCCL versions",
    fixes=(
        Fix(
            title="install one torch, and with it one NCCL, in the environments of trainer and engine, and set no "
            "VLLM_NCCL_SO_PATH or LD_PRELOAD to another",
            commands=("python -c 'import torch; print(torch.cuda.nccl.version())'",),
        ),
    ),
)


# vLLM 0.4.3 to 0.6.3 with tensor parallel workers: the broadcast of weights meets their execution loop.
check.signature(
    "start_worker_execution_loop. This might cause deadlock in distributed execution",
    says=(
        "the execution loop of a tensor parallel worker failed; with weight broadcasts by NCCL the two get in "
        "each other's way"
    ),
    fixes=(_GLOO, Fix(title="vLLM 0.6.4 and later take the broadcast", commands=('pip install "vllm>=0.6.4"',))),
    role=Role.CASCADE,
    url="https://github.com/OpenRLHF/OpenRLHF/issues/313",
)


# The id of a communicator comes from its first rank; the others say this when that one is gone.
check.signature(
    "is setting up NCCL communicator and retrieving ncclUniqueId from",
    pattern=r"\[(?P<rank>\d+)\] is setting up NCCL communicator and retrieving ncclUniqueId from \[(?P<first>\d+)\]"
    r"(?:[^\n]{0,200}got error: (?P<why>[^.\n]{1,80}))?",
    says=(
        "rank {rank} waits for the communicator's id from rank {first}, which does not give it[[ ({why})]]: that rank "
        "ended before, or cannot be reached"
    ),
    fixes=(
        Fix(
            title="look at the first rank's own output: what ended it is the cause",
            commands=("rldoctor triage FOLDER_OF_LOGS",),
        ),
        Fix(
            title="on several nodes: the interface that reaches all of them",
            commands=("export NCCL_SOCKET_IFNAME=INTERFACE",),
        ),
    ),
    role=Role.CASCADE,
    url="https://github.com/modelscope/ms-swift/issues/3612",
)


# A second NCCL group inside vLLM's Ray workers, from 0.4.3 on.
check.signature(
    "Error executing method 'update_weight'",
    "Error executing method update_weight",
    pattern="Cuda failure|NCCL|nccl",
    says="the second NCCL group inside vLLM's workers fails as the weights are broadcast",
    fixes=(_GLOO, _DEBUG),
    role=Role.CASCADE,
    url="https://github.com/vllm-project/vllm/issues/5477",
)


check.signature(
    "HCCL error: HCCL_E_",
    pattern=r"HCCL error: (?P<why>HCCL_E_\w+)",
    says="the HCCL group of the Ascend devices cannot be built ({why})",
    when=lambda case, event: event.search(r"[Cc]omm_?[Ii]nit|init_communicator|Communicator\(") is not None,
    fixes=(
        Fix(
            title="give the two ends of the group devices of their own, the same CANN, and an interface between them",
            commands=("export HCCL_SOCKET_IFNAME=eth0", "npu-smi info"),
        ),
        Fix(title="read why in CANN's own log", commands=("grep -rh ERROR ~/ascend/log/debug/plog | tail",)),
    ),
)
_HCCL = "https://www.hiascend.com/document/detail/en/canncommercial/800/apiref/envvar/envref_07_0077.html"
check.signature(
    "HCCL function error: ",
    "HCCL function error : ",
    "EI0006: ",
    "Communication_Error_Get_Socket(EI0006)",
    "EI0009: ",
    pattern=r"HCCL function error ?: ?(?P<call>hccl\w*[Cc]omm[Ii]nit\w*|Hccl\w*Init\w*)|EI000[69]",
    details=(
        r"(?P<code>E[IJ]\d{4}): (?:\[PID: \d+\] [\d:. -]+)?(?P<why>[^.\n]{1,160})",
        r"error code is (?P<number>\d+)",
        r"remote_ip_addr\[(?P<peer>[\d.]+)",
    ),
    says="the HCCL group of the Ascend devices cannot be built ({call|no connection to a peer}[[, error code "
    "{number}]])[[: {code} {why}]][[; the peer at {peer} did not answer]]",
    fixes=(
        Fix(
            title="name the interface between the hosts, and give slow ranks more time to arrive",
            commands=(
                "export HCCL_SOCKET_IFNAME=eth0",
                "export HCCL_IF_IP=ADDRESS_OF_THIS_NODE",
                "export HCCL_CONNECT_TIMEOUT=1800",
            ),
        ),
        Fix(
            title="test the connectivity of the devices: link, address and TLS setting must agree on all of them",
            commands=("for i in 0 1 2 3 4 5 6 7; do hccn_tool -i $i -link -g; hccn_tool -i $i -tls -g; done",),
        ),
        Fix(title="see that no process of an earlier run holds a device", commands=("npu-smi info",)),
    ),
    url=_HCCL,
)
check.signature(
    "Failed to initialize the HCCP process",
    "EJ0001: ",
    says="HCCL's helper process does not start on an Ascend device: another run still holds it, or its "
    "network is not set up",
    fixes=(
        Fix(title="end what an earlier run left, and wait until its devices are free", commands=("npu-smi info",)),
        Fix(title="see that each device has an address", commands=("hccn_tool -i 0 -ip -g",)),
    ),
    url=_HCCL,
)
check.signature(
    "Failed to load NCCL library from ",
    pattern=r"Failed to load NCCL library from (?P<file>\S+?)[ .]",
    unless=("libnccl.so.2 .",),
    says="vLLM cannot load the NCCL library that it was told to take: {file}",
    fixes=(
        Fix(title="take the library that torch brings", commands=("unset VLLM_NCCL_SO_PATH",)),
        Fix(title="or name a file that exists on this node and fits its CUDA", commands=("ls -l {file}", "ldd {file}")),
    ),
    url="https://docs.vllm.ai/en/latest/usage/troubleshooting/",
)
check.signature(
    "unhandled cuda error (run with NCCL",
    "unhandled system error (run with NCCL",
    "internal error - please report this issue to the NCCL",
    "invalid usage (run with NCCL",
    "invalid argument (run with NCCL",
    pattern=r"NCCL error in: \S+, (?P<why>unhandled \w+ error|internal error|invalid (?:usage|argument))",
    unless=("ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError", "Duplicate GPU detected", "Last error"),
    says="an NCCL group cannot be built or used ({why}); the lines that say why are cut off or were not asked for",
    fixes=(_DEBUG, _MEMORY, _GLOO),
)
# gloo's ranks tell each other their addresses and connect, pair by pair.
check.signature(
    "Gloo connectFullMesh failed with ",
    says="gloo's ranks do not reach each other: some have told an address that the others cannot use",
    fixes=(
        Fix(
            title="name the interface that all nodes reach (and see that the host's name is no loopback in /etc/hosts)",
            commands=("ip -brief address", "export GLOO_SOCKET_IFNAME=eth0"),
        ),
    ),
    url="https://docs.pytorch.org/docs/stable/distributed.html#common-environment-variables",
)
