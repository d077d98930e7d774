"""The patient: an interpreter with a real vLLM, for the tests that run one."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from rldoctor import redact
from rldoctor.api import Case
from rldoctor.catalogue import registry
from rldoctor.probes.rollout import rollout as probe
from tests.live import Played, cases_of_faults, cases_of_one_import, imports_case
from tests.long import LONG

pytest_plugins = ("tests.served", "tests.written")
ROOT = Path(__file__).resolve().parent.parent
FAULTS_OF_ROLLOUTS = (
    "nan_layer",
    "meta_parameter",
    "idle_meta_parameter",
    "constant_noise",
    "one_token",
    "crash",
    "assertion",
    "killed",
)
# Options of engines that share an import of vLLM.
ROLLOUTS: tuple[dict[str, object], ...] = ({}, {"max_model_len": 4096}, {"tensor_parallel_size": 0})
# Fixtures that boot engines for tests of several files.
ENGINES = ("rollout", "traffic")
# A check that is a folder is whole once the registry has brought its parts; tests import the check alone.
registry.load()
# What a shell starts in the background ignores SIGINT, what nohup starts SIGHUP, and so would the programs under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
# How long an example takes says more about the machine than about the code.
settings.register_profile("rldoctor", deadline=None)
settings.load_profile("rldoctor")
# Workers are given the width of the terminal that they write to; reports here are those of a job's log.
os.environ.pop("COLUMNS", None)
# Engines of several workers would all be bound to the first core; miniatures have no use for more than one.
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
os.environ.setdefault("OMP_NUM_THREADS", "1")


# Before xdist reads the groups, for which it would otherwise come first.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What boots engines begins first, so that all workers end together; tests that share an engine share a worker;
    what is long is marked as such."""
    items.sort(key=lambda item: not boots(item))
    for item in items:
        if item.nodeid.startswith(LONG):
            item.add_marker(pytest.mark.long)
    for item in filter(boots, items):
        used = (name for name in ENGINES if name in getattr(item, "fixturenames", ()))
        item.add_marker(pytest.mark.xdist_group(next(used, item.nodeid.partition("::")[0])))


def boots(item: pytest.Item) -> bool:
    """Whether a test starts an engine or a cluster."""
    return any(item.get_closest_marker(name) for name in ("engine", "v0", "ray", "gpu"))


@pytest.fixture(scope="session", autouse=True)
def logs_of_probes(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The logs that the runner leaves for people go where pytest tidies up."""
    tempfile.tempdir = str(tmp_path_factory.mktemp("probes"))


@pytest.fixture(scope="session", autouse=True)
def nothing_in_the_hubs_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Launches that name a model of the hub are judged alike on every machine."""
    os.environ["HF_HUB_CACHE"] = str(tmp_path_factory.mktemp("hub"))


@pytest.fixture(autouse=True)
def no_secret_known() -> None:
    """What one test showed to be secret is a text like any other in the next."""
    redact.begin({})


@pytest.fixture(scope="session")
def patient() -> Path:
    """The interpreter that RLDOCTOR_PATIENT names, else the one that the set-up script built."""
    named = os.environ.get("RLDOCTOR_PATIENT")
    python = Path(named) if named else ROOT / ".patient" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no patient: {python} does not exist and RLDOCTOR_PATIENT names no other")
    return python


@pytest.fixture(scope="session")
def python_with_ray() -> Path:
    """The interpreter that RLDOCTOR_RAY names, else the one of the set-up."""
    named = os.environ.get("RLDOCTOR_RAY")
    python = Path(named) if named else ROOT / ".ray" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no Ray: {python} does not exist and RLDOCTOR_RAY names no other")
    return python


@pytest.fixture(scope="session")
def v0_patient() -> Path:
    """The interpreter that RLDOCTOR_V0 names: a vLLM that still has its V0 engine."""
    named = os.environ.get("RLDOCTOR_V0")
    if not named or not Path(named).exists():
        pytest.skip("RLDOCTOR_V0 names no interpreter with a vLLM that has a V0 engine")
    return Path(named)


@pytest.fixture(scope="session")
def patient_imports(patient: Path) -> Case:
    """What the import probe sees in the patient."""
    return imports_case(patient)


@pytest.fixture(scope="session")
def rollout(patient: Path) -> Callable[..., Case]:
    """The case of the rollout probe on the patient, with options of ``ROLLOUTS`` or with a fault from
    ``faults/rollout.py`` that breaks its engine; what one boot or one import can show is played once in a session."""

    @cache
    def broken() -> dict[str, Case]:
        return cases_of_faults(patient, probe, faults=[f"rollout:{name}" for name in FAULTS_OF_ROLLOUTS])

    @cache
    def whole() -> dict[str, Case]:
        return cases_of_one_import(patient, {str(options): Played((probe,), engine=options) for options in ROLLOUTS})

    def run(fault: str | None = None, **engine: object) -> Case:
        return broken()[f"rollout:{fault}"] if fault else whole()[str(engine)]

    return run
