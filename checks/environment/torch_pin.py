"""The installed torch is not the one that this vLLM build pins.

What it looks for
    vLLM's declared ``torch==...`` against the installed torch. vLLM's kernels are compiled against exactly one torch,
    which is why it pins one. A CPU build of torch beside a CUDA build of vLLM counts as another torch, whatever its
    number. In a log: a name of torch that vLLM misses, and a torch without CUDA that is asked for a GPU.

Why it hurts
    ``vllm._C`` fails to load with an undefined symbol, or loads and has no operators (``'_OpNamespace' '_C' object has
    no attribute``). Typical cause: a framework or flash-attn was installed after vLLM and moved torch.

How sure it is
    The pin is vLLM's own. Only the local label differing (``2.13.0`` for ``2.13.0+cpu``) is a warning. From vLLM 0.11
    on some kernels use torch's stable interface, but the pin still stands. A torch built by a vendor or from source
    (``2.8.0a0+...nv25.06``) goes with a vLLM built against it and is not judged.

The fix and its cost
    Install the pinned torch together with the torchvision and torchaudio that vLLM pins; flash-attn and other
    extensions that were compiled against the present torch have to be built again. Or a vLLM release that pins the
    present torch.

References
    https://github.com/vllm-project/vllm/blob/v0.9.1/CMakeLists.txt
    https://github.com/vllm-project/vllm/issues/20361
    https://docs.vllm.ai/en/latest/getting_started/installation/gpu/
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rldoctor.api import (
    Applicability,
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    Reach,
    Severity,
    find,
)
from rldoctor.api.packages import Demand
from rldoctor.api.releases import published_name

from ..declared.requirements import Misfit, judge, of_vllm
from ..declared.version_fixes import declared_fixes, releases_with
from ..observed.imports import install, named
from ..observed.moved_names import sought

check = Check("RLD102", "torch-pin-mismatch", __doc__)


@check.declared(needs=["packages.vllm", "packages.torch"])
def not_the_pinned_one(case: Case) -> Iterator[Finding | Reach]:
    """vLLM pins another torch."""
    yield from judge(case, check, _pins_torch, _severity, ("vllm",), "this vLLM pins no torch")


@check.declared(needs=["packages.vllm", "packages.torch"])
def torch_without_cuda(case: Case) -> Iterator[Finding | Reach]:
    """torch is a CPU build, vLLM is not."""
    assert case.packages is not None
    vllm, torch = find(case.packages, "vllm"), find(case.packages, "torch")
    assert vllm is not None and torch is not None
    if published_name(vllm) != "vllm" or _label(torch.version) != "cpu" or not _is_published_cuda(vllm.version):
        raise NotApplicable(f"torch {torch.version} is no CPU build beside a CUDA build of vLLM")
    release = torch.version.partition("+")[0]
    yield check.finding(
        f"torch {torch.version} is a CPU build, and vllm {vllm.version} is built for CUDA: its kernels cannot load",
        evidence=(
            Evidence(text=f"torch {torch.version}", source=torch.location or None),
            Evidence(text=f"vllm {vllm.version}", source=vllm.location or None),
        ),
        fixes=(
            Fix(
                title=f"install torch {release} with CUDA, from the index that serves CUDA builds",
                commands=(install(case, "--force-reinstall", shlex.quote(f"torch=={release}")),),
                applicability=Applicability.UNSAFE,
                side_effects="downloads CUDA's libraries, several GB",
            ),
        ),
    )


def _pins_torch(demand: Demand) -> bool:
    return of_vllm(demand, "torch")


def _severity(misfit: Misfit) -> Severity:
    pinned = misfit.demands[0].specifier.removeprefix("==")
    same = misfit.demands[0].exact and pinned.partition("+")[0] == misfit.version.partition("+")[0]
    return Severity.WARNING if same else Severity.ERROR


def _label(version: str) -> str:
    return version.partition("+")[2]


def _is_published_cuda(version: str) -> bool:
    """vLLM labels its builds for other platforms (``+cpu``, ``+rocm631``); none, or a CUDA label, is a CUDA build."""
    return not _label(version) or _label(version).startswith("cu")


@check.logged("cannot import name '", "No module named 'torch.", "module 'torch")
def lacks_a_name(case: Case, event: LogEvent) -> Iterator[Finding]:
    """vLLM uses a name of torch that the installed torch does not have."""
    name = sought(event, case)
    if name is None or name.package != "torch" or name.shadow or name.importer != "vllm":
        return
    again = Fix(
        title=f"install {named('vllm', case)} again with its dependencies: pip then brings the torch that it pins",
        commands=(install(case, "--force-reinstall", "vllm"),),
        applicability=Applicability.UNSAFE,
        side_effects="torchvision, torchaudio and compiled extensions follow torch",
    )
    yield check.finding(
        f"{named('vllm', case)} needs another torch: {named('torch', case)} has no {name.said}"
        f"{releases_with('torch', name.said)}",
        fixes=declared_fixes(case, check, "torch") or (again,),
    )


# A CPU build of torch is asked for a GPU.
check.signature(
    "Torch not compiled with CUDA enabled",
    when=lambda case, event: {"torch": named("torch", case)},
    says="{torch} is a build without CUDA, and the run wants a GPU",
    fixes=(
        Fix(
            title="install a torch with CUDA (the one that vLLM pins), from the index that serves CUDA builds",
            commands=("uv pip install vllm --torch-backend=auto --reinstall",),
            applicability=Applicability.UNSAFE,
            side_effects="downloads CUDA's libraries, several GB",
        ),
        Fix(title="or, on a machine without a GPU, run with device cpu"),
    ),
)
