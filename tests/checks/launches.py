"""Cases of whole launches: machines, releases, rollout servers, and launch files that are read, judged and mended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rldoctor.api import Case, Check, Finding, RolloutPlan, Setting
from rldoctor.api.facts import Distribution, Gpu, Gpus, Host, Packages
from rldoctor.api.results import CheckResult
from rldoctor.case.lookup import canonical
from rldoctor.edits import edit, fixes
from rldoctor.judge import judge_one
from rldoctor.launch.plans import plans


def machine(gpus: int | None, vendor: str = "nvidia") -> Gpus | None:
    """A node with so many GPUs; None where nothing is known."""
    if gpus is None:
        return None
    devices = tuple(
        Gpu(index=i, name="NVIDIA H100", memory_total=80 << 30, compute_capability="9.0") for i in range(gpus)
    )
    return Gpus(vendor=vendor, devices=devices)


def host(*ports: int) -> Host:
    """A host on which something listens at ``ports``."""
    return Host(
        system="Linux",
        machine="x86_64",
        kernel="6.8",
        libc=None,
        cpu_model=None,
        cpu_count=64,
        cpu_usable=64.0,
        load=0.0,
        memory_total=1 << 40,
        memory_available=1 << 40,
        memory_limit=None,
        shm_total=None,
        shm_free=None,
        open_files=None,
        open_files_hard=None,
        processes=None,
        locked_memory=None,
        listening_ports=ports,
    )


def settings(line: int = 7, **named: Any) -> dict[str, Setting]:
    """``engine__seed=1`` as the setting ``engine.seed``, given in that line of run.sh."""
    names = {name.replace("__", "."): value for name, value in named.items()}
    return {name: Setting(value=value, file="run.sh", line=line, key=name) for name, value in names.items()}


def launch(
    framework: str = "TRL",
    version: str | None = None,
    vllm: str | None = None,
    gpus: int | None = None,
    nodes: int | None = None,
    ports: tuple[int, ...] | None = None,
    server: dict[str, Any] | None = None,
    entry: str = "train.py",
    dialect: str = "",
    **named: Any,
) -> Case:
    """A case of one launch; ``server`` holds the settings of a rollout server that line 3 of the same file starts."""
    beside = None
    if server is not None:
        beside = RolloutPlan(
            framework=framework, file="run.sh", entry="serve", role="server", settings=settings(3, **server)
        )
    plan = RolloutPlan(
        framework=framework,
        version=version,
        dialect=dialect,
        file="run.sh",
        entry=entry,
        settings=settings(**named),
        server=beside,
    )
    return Case(
        packages=_packages({"vllm": vllm} if vllm else {}),
        gpus=machine(gpus),
        nodes=nodes,
        host=None if ports is None else host(*ports),
        environment={},
        plan=plan,
    )


def judged(check: Check, framework: str = "TRL", **arguments: Any) -> CheckResult:
    """The check's outcome on such a case."""
    return judge_one(check, launch(framework, **arguments))


def finding(check: Check, framework: str = "TRL", **arguments: Any) -> Finding:
    """Its only finding there."""
    (only,) = judged(check, framework, **arguments).findings
    return only


def quiet(check: Check, framework: str = "TRL", **arguments: Any) -> bool:
    """Whether it reports nothing there and did not crash."""
    result = judged(check, framework, **arguments)
    return not result.findings and result.traceback is None


class LaunchFile:
    """A launch file in a folder, as an environment with ``versions`` and a node with ``gpus`` would run it."""

    def __init__(
        self,
        folder: Path,
        text: str,
        versions: dict[str, str],
        gpus: int | None = None,
        name: str = "run.sh",
        **more: Any,
    ) -> None:
        self.path = folder / name
        self.path.write_text(text)
        self._read: tuple[Path, dict[Path, bytes]] | None = None
        self._cases: list[Case] = []
        self.case = Case(
            packages=_packages(versions),
            gpus=machine(gpus),
            nodes=more.get("nodes"),
            environment=more.get("environment", {}),
        )

    def cases(self) -> list[Case]:
        """One for each launch in the file, read again where it is another or something in its folder has changed."""
        read = self.path, {file: file.read_bytes() for file in self.path.parent.rglob("*") if file.is_file()}
        if read != self._read:
            self._read = read
            self._cases = [replace(self.case, plan=plan) for plan in plans(self.path, self.case)]
        return self._cases

    def findings(self, check: Check) -> list[Finding]:
        """What the check finds, with its fixes in the framework's words."""
        found: list[Finding] = []
        for case in self.cases():
            assert case.plan is not None
            found += fixes.spelled(judge_one(check, case), case.plan).findings
        return found

    def mend(self, check: Check) -> str:
        """Applies the check's safe fixes to the file and returns its new text."""
        found = [
            (case.plan, fixes.spelled(judge_one(check, case), case.plan).findings) for case in self.cases() if case.plan
        ]
        edit.save(fixes.applied(found))
        return self.path.read_text()


def _packages(versions: dict[str, str]) -> Packages:
    named = tuple(Distribution(name=canonical(name), version=version) for name, version in versions.items())
    return Packages(python="3.12", distributions=named, complete=False)
