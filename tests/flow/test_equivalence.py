"""A launch judged for an assumed machine, and the bundle of the same launch judged for it elsewhere, give the same
findings and outcomes: what an assumption changes is derived again."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from rldoctor import bundle
from rldoctor.catalogue import example
from rldoctor.flow import examination, run, session
from rldoctor.model import Level, Outcome, Report
from rldoctor.project.settings import Settings
from tests.frameworks.test_dropped import FOLDERS, LAUNCHES
from tests.launch import test_secrets
from tests.loaded import REGISTRY

CHECKS = REGISTRY.select()


def scenes() -> list[tuple[str, example.Scene, str]]:
    """Every worked example that has a launch and a machine."""
    found = []
    for check in CHECKS:
        file = example.file_of(check)
        if file is None:
            continue
        for title, scene in zip(("fires", "quiet"), vars(example.read(file)).values(), strict=True):
            launch = next((name for name in scene.files if example.is_launch(name)), None)
            if launch is not None and example.MACHINE in scene.files and example.BUNDLE not in scene.files:
                found.append((f"{check.code}-{title}", scene, launch))
    return found


SCENES = scenes()


def opened(**options: object) -> session.Session:
    return session.Session(
        options=session.Options(level="static", **options),  # type: ignore[arg-type]
        settings=Settings(),
        registry=REGISTRY,
        checks=CHECKS,
        probes=[],
        level=Level.STATIC,
    )


def report(**options: object) -> Report:
    examined = run.examine(opened(**options), lambda text: None)
    return examination.join([one.report for one in examined])


def test_there_are_examples_of_most_frameworks() -> None:
    assert len(SCENES) > 30


def outcomes(said: Report) -> dict[str, Outcome]:
    return {result.code: result.outcome for result in said.results}


def both_ways(
    files: Mapping[str, str], launch: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Report, Report]:
    """What is said of a launch for the machine beside it, and of its bundle in an empty folder."""
    here, there = folder / "here", folder / "there"
    for name, text in files.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
    there.mkdir()
    monkeypatch.chdir(here)
    machine = (str(here / example.MACHINE),)
    direct = report(target=Path(launch), assume=machine)
    saved = bundle.dump(run.gather(opened(target=Path(launch)), lambda text: None))
    monkeypatch.chdir(there)
    Path("case.json").write_text(saved)
    return direct, report(bundles=(Path("case.json"),), assume=machine)


@pytest.mark.parametrize(("scene", "launch"), [row[1:] for row in SCENES], ids=[row[0] for row in SCENES])
def test_a_bundle_is_judged_for_a_machine_like_its_launch(
    scene: example.Scene, launch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct, saved = both_ways(scene.files, launch, tmp_path, monkeypatch)
    assert saved.findings == direct.findings and outcomes(saved) == outcomes(direct)


V100 = {"name": "Tesla V100-SXM2-32GB", "memory_gib": 32, "compute_capability": "7.0", "count": 2}
CALLER = {"CUDA_VISIBLE_DEVICES": "0", "http_proxy": "http://proxy:1", "RAY_ADDRESS": "auto", "NPROC_PER_NODE": "2"}
# Old, small and full of variables: most launches have findings there.
POOR = {"python": "3.10", "env": CALLER, "gpus": [V100], "nodes": 2}


def poor(versions: Mapping[str, str]) -> str:
    return json.dumps({**POOR, "packages": {**versions, "transformers": "5.0.0"}})


@pytest.mark.parametrize("framework", LAUNCHES)
def test_a_launch_of_which_parts_are_in_variables(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, options, versions = LAUNCHES[framework]
    chosen = random.Random(framework)
    kept = [option if chosen.random() < 0.7 else f"$MORE{number}" for number, option in enumerate(options)]
    files = {"run.sh": f"export MORE1='{options[1]}'\n{command} {' '.join(kept)}\n", example.MACHINE: poor(versions)}
    direct, saved = both_ways(files, "run.sh", tmp_path, monkeypatch)
    assert saved.findings == direct.findings != ()
    assert outcomes(saved) == outcomes(direct)


@pytest.mark.parametrize("framework", FOLDERS)
def test_a_launch_of_several_files(framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, versions = FOLDERS[framework]
    direct, saved = both_ways({**files, example.MACHINE: poor(versions)}, "run.sh", tmp_path, monkeypatch)
    assert saved.findings == direct.findings != ()
    assert outcomes(saved) == outcomes(direct)


@pytest.mark.parametrize(
    ("file", "text"),
    [("run.sh", test_secrets.SHELL), ("train.py", test_secrets.PYTHON), ("grpo.yaml", test_secrets.YAML)],
)
def test_a_launch_of_which_a_bundle_keeps_no_secret(
    file: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"verl": "0.4.1", "trl": "0.18.1", "axolotl": "0.9.0", "vllm": "0.8.5", "torch": "2.7.1"}
    direct, saved = both_ways({file: text, example.MACHINE: poor(versions)}, file, tmp_path, monkeypatch)
    assert (
        [(one.code, one.message) for one in saved.findings]
        == [(one.code, one.message) for one in direct.findings]
        != []
    )
