"""A function or tensor that is sent to the engine's workers is refused by the serializer.

What it looks for
    TRL and ms-swift releases whose rollout server hands ``torch.dtype`` objects to a vLLM that no longer pickles them.
    In a log: vLLM's refusal.

Why it hurts
    From vLLM 0.9.0 on the V1 engine's messages are msgpack, and what msgpack does not know is refused. The server's
    worker never joins the broadcast of the weights; the trainer waits at its barrier, without an error of its own.

How sure it is
    The releases on both sides were read in their sources.

The fix and its cost
    The framework's release that sends names of types. ``VLLM_ALLOW_INSECURE_SERIALIZATION=1`` lets pickle through:
    whoever can write to the engine's sockets can then run code in it.

References
    https://github.com/huggingface/trl/issues/3676, https://github.com/huggingface/trl/pull/3690 (0.19.1)
    https://github.com/modelscope/ms-swift/pull/4825 (3.6.0), https://github.com/vllm-project/vllm/pull/22158
    ``vllm/v1/serial_utils.py`` 0.8.5 (pickles) and 0.9.0 (refuses)
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    cite,
    plan_of,
    version_within,
)
from rldoctor.api.engine import generation, release
from rldoctor.api.logs import package_of

check = Check("RLD407", "rpc-serialization-refused", __doc__)

ALLOW = "env.VLLM_ALLOW_INSECURE_SERIALIZATION"
REFUSES_FROM = (0, 9)
# Releases whose server passes torch.dtype through collective_rpc, and the first that passes its name.
SENDS_TYPES = {
    "TRL": (">=0.16,<0.19.1", 'pip install "trl>=0.19.1"', "TRL 0.19.1 and later send the name of the type"),
    "ms-swift": (">=3.4,<3.6", 'pip install "ms-swift>=3.6"', "ms-swift 3.6 and later send the name of the type"),
}
_PICKLE = Fix.unsafe(
    "let vLLM pickle what msgpack does not know, in the engine's process and in the one that calls it",
    {ALLOW: "1"},
    side_effects="whoever reaches the engine's sockets can run code in it",
)


@check.declared(needs=["plan.placement.mode", "packages.vllm"])
def types_for_weight_sync(case: Case) -> Iterator[Finding | Reach]:
    """The rollout server's ``update_named_param``."""
    plan = plan_of(case)
    versions, command, says = SENDS_TYPES.get(plan.framework, ("", "", ""))
    if not versions or plan.version is None or plan.value("placement.mode") != "server":
        raise NotApplicable("no rollout server of TRL or ms-swift")
    vllm = release(case)
    if vllm is None:
        raise NotChecked("the vLLM release is not known")
    launches = (plan, plan.server) if plan.server is not None else (plan,)
    allowed = any(launch.value(ALLOW) == "1" or launch.value("env.VLLM_USE_V1") == "0" for launch in launches)
    older = vllm < REFUSES_FROM or generation(case).value == "V0"
    if allowed or older or not version_within(plan.version, versions):
        yield Reach(f"{plan.framework} {plan.version} and this vLLM agree on what is sent")
        return
    yield check.finding(
        f"the rollout server of {plan.framework} {plan.version} hands torch.dtype objects to its workers, and this "
        "vLLM refuses them: the first weight sync hangs",
        evidence=(*cite(plan, "placement.mode"), Evidence(text=f"vllm {'.'.join(map(str, vllm))}")),
        fixes=(
            Fix(title=says, commands=(command,)),
            Fix.safe(
                "let vLLM pickle them",
                {ALLOW: "1"},
                side_effects="whoever reaches the engine's sockets can run code in it",
            ),
        ),
        url="https://github.com/huggingface/trl/issues/3676",
    )


@check.logged(
    "is not serializableSet VLLM_ALLOW_INSECURE_SERIALIZATION",
    "Object of type <class 'torch.dtype'> is not serializable",
    "Set VLLM_ALLOW_INSECURE_SERIALIZATION=1 to allow fallback to pickle",
)
def refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``MsgpackEncoder.enc_hook`` names the type."""
    kind = event.search(r"Object of type <class '([\w.]+)'> is not serializable")
    what = kind[1] if kind else "an object"
    dtype = what == "torch.dtype"
    text = Fix(
        title="send the type's name and look it up in the worker (TRL 0.19.1, ms-swift 3.6 and later do)"
        if dtype
        else "send the name of a method of a worker extension (worker_extension_cls) in place of a function"
    )
    yield check.finding(
        f"vLLM's serializer refuses {what} in a call to its workers",
        fixes=(text, _PICKLE) if dtype else (_PICKLE, text),
        url="https://github.com/vllm-project/vllm/pull/22158",
    )


# The other side of the same: a pickled message reaches a decoder that takes none.
check.signature(
    "Extension type code ",
    pattern=r"Extension type code \d+ is not supported",
    says="a pickled message reached an engine that accepts none: the variable is set on one side only",
    fixes=(_PICKLE,),
)


@check.logged(
    "Could not serialize the argument ",
    "Could not serialize the return value",
    "cannot pickle '",
    "PicklingError: Can't pickle ",
)
def not_pickled(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Ray pickles what goes to an actor and what comes back."""
    error = event.exception
    packages = {package_of(frame.file) for link in (error.chain if error else ()) for frame in link.frames}
    if not packages & {"ray", "vllm", "torch"}:
        return
    kind = event.search(r"cannot pickle '([\w.]+)' object") or event.search(
        r"serialize the argument (.{1,80}?) for a |Can't pickle (.{1,80}?)(?:: |$)"
    )
    back = event.search(r"return value|store_task_outputs?|serialize_and_store")
    what = next(group for group in kind.groups() if group) if kind else "an object"
    yield check.finding(
        f"{what} cannot be pickled, and is sent {'back from' if back else 'to'} another process",
        fixes=(
            Fix(title="send plain data (numbers, text, tensors); build locks, files, clients and loggers where used"),
            Fix(title="ray.util.inspect_serializability(object, name) tells which part does not pickle"),
        ),
        url="https://docs.ray.io/en/latest/ray-core/objects/serialization.html",
    )


# A tensor of a GPU that one process shares with another is opened there through a handle.
_HANDLE = "https://docs.pytorch.org/docs/stable/notes/cuda.html#environment-variables"
check.signature(
    "pidfd_getfd: Operation not permitted",
    "pidfd_open: Operation not permitted",
    says="a process may not open the device memory that another one shares with it: with expandable segments torch "
    "hands over a file descriptor, which this container forbids",
    fixes=(
        Fix.unsafe("share plain segments", {"env.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}),
        Fix(title="or give the container the right", commands=("docker run --cap-add=SYS_PTRACE ...",)),
    ),
    url=_HANDLE,
)
check.signature(
    "does not support the pidfd_open syscall",
    says="this kernel of Linux is too old to hand device memory to another process as torch does it with expandable "
    "segments, over a file descriptor",
    fixes=(
        Fix.unsafe("share plain segments", {"env.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}),
        Fix(title="or run on Linux 5.6 or later, which has pidfd_open and pidfd_getfd", commands=("uname -r",)),
    ),
    url=_HANDLE,
)
check.signature(
    "CUDA error: invalid resource handle",
    "CUDA error: invalid device context",
    when=lambda case, event: event.search(r"rebuild_cuda_tensor|reductions\.py|_new_shared_cuda|ipc") is not None,
    says="a process cannot open the tensor that another one shares with it: the two see other devices under that "
    "number, or the owner has freed it",
    fixes=(
        Fix(title="let both processes see the same devices in the same order (CUDA_VISIBLE_DEVICES)"),
        Fix.unsafe("and share plain segments", {"env.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}),
        Fix(title="keep the tensor alive in its owner until the other process has copied it"),
    ),
    url=_HANDLE,
)
