"""Small cases from versions, devices and limits, for tests that judge an environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rldoctor.api import Case, Check
from rldoctor.api.facts import Distribution, Gpu, Gpus, Host, Packages
from rldoctor.api.results import CheckResult
from rldoctor.judge import judge, judge_one
from tests.loaded import REGISTRY

GIB = 1 << 30
SITE = "/opt/venv/lib/python3.12/site-packages"

HOST = Host(
    system="Linux",
    machine="x86_64",
    kernel="6.8.0",
    libc="glibc 2.39",
    cpu_model="EPYC",
    cpu_count=64,
    cpu_usable=64.0,
    load=0.5,
    memory_total=512 * GIB,
    memory_available=480 * GIB,
    memory_limit=None,
    shm_total=256 * GIB,
    shm_free=250 * GIB,
    open_files=65536,
    open_files_hard=65536,
    processes=None,
    locked_memory=None,
)


NO_SOURCES = {"links": "the sources of the packages are not at hand"}


def assumed(python: str = "3.12", **versions: str) -> Case:
    """A case as ``--assume`` makes it: versions without metadata, and what is not named unknown. Underscores in names
    stand for hyphens."""
    return Case(packages=_packages(python, versions, complete=False), absent=NO_SOURCES)


def installed(
    versions: dict[str, str], requires: Mapping[str, tuple[str, ...]] | None = None, python: str = "3.12.11"
) -> Case:
    """A case of installed packages; ``requires`` gives the ``Requires-Dist`` lines of those that have some."""
    packages = _packages(python, versions, complete=True)
    lines = requires or {}
    distributions = tuple(replace(d, requires=lines.get(d.name, ()), location=SITE) for d in packages.distributions)
    return Case(packages=replace(packages, distributions=distributions, prefix="/opt/venv"), absent=NO_SOURCES)


def gpus(capability: str = "8.0", count: int = 1, name: str = "NVIDIA A100-SXM4-80GB", **more: Any) -> Gpus:
    """Some equal devices; ``driver`` and ``cuda`` as the driver tells them."""
    one = Gpu(index=0, name=name, memory_total=80 * GIB, compute_capability=capability)
    return Gpus(vendor="nvidia", devices=tuple(replace(one, index=i) for i in range(count)), **more)


def host(**changes: Any) -> Host:
    """A roomy host, with changes."""
    return replace(HOST, **changes)


def judged(check: Check, case: Case) -> CheckResult:
    """The check's outcome, never a crash."""
    result = judge_one(check, case)
    assert result.traceback is None, result.traceback
    return result


def severities(result: CheckResult) -> list[str]:
    return [finding.severity.value for finding in result.findings]


def commands(result: CheckResult) -> list[str]:
    """Every command of every fix, in order."""
    return [command for finding in result.findings for fix in finding.fixes for command in fix.commands]


def _packages(python: str, versions: dict[str, str], complete: bool) -> Packages:
    distributions = tuple(Distribution(name=n.replace("_", "-"), version=v) for n, v in versions.items())
    return Packages(python=python, distributions=distributions, complete=complete)


def judged_among_all(check: Check, case: Case) -> CheckResult:
    """The outcome of one check where all built-in ones are known: a fallback is silent about what another knows."""
    (result,) = judge([check], case, REGISTRY.checks.values())
    return result
