"""A launch judged for an assumed machine, and the bundle of the same launch judged for it elsewhere, give the same
findings: what an assumption changes is derived again."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor import bundle
from rldoctor.catalogue import example, registry
from rldoctor.flow import engine, run, session
from rldoctor.model import Finding, Level
from rldoctor.project.settings import Settings

REGISTRY = registry.load()
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


def findings(**options: object) -> tuple[Finding, ...]:
    examined = run.examine(opened(**options), lambda text: None)
    return engine.join([one.report for one in examined]).findings


def test_there_are_examples_of_most_frameworks() -> None:
    assert len(SCENES) > 30


@pytest.mark.parametrize(("scene", "launch"), [row[1:] for row in SCENES], ids=[row[0] for row in SCENES])
def test_a_bundle_is_judged_for_a_machine_like_its_launch(
    scene: example.Scene, launch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for name, text in scene.files.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
    there.mkdir()
    monkeypatch.chdir(here)
    machine = (str(here / example.MACHINE),)
    direct = findings(target=Path(launch), assume=machine)
    saved = bundle.dump(run.gather(opened(target=Path(launch)), lambda text: None))
    monkeypatch.chdir(there)
    Path("case.json").write_text(saved)
    assert findings(bundles=(Path("case.json"),), assume=machine) == direct
