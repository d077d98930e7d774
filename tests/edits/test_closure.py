"""No fix of a worked example opens the next finding: each is made, and the launch is judged again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rldoctor.catalogue import example
from rldoctor.edits import fixes
from rldoctor.flow.run import Examined
from rldoctor.model import Edit, Fix
from tests.edits import closure

MACHINE = {
    "python": "3.12",
    "packages": {"verl": "0.6.1", "vllm": "0.11.0", "torch": "2.8.0", "transformers": "4.57.1"},
    "env": {},
    "gpus": [{"name": "NVIDIA A100-SXM4-80GB", "memory_gib": 80, "compute_capability": "8.0", "count": 8}],
    "nodes": 1,
}


def scenes() -> list[tuple[str, example.Scene, str]]:
    """The worked examples of launches for a machine whose packages are named."""
    found = []
    for check in closure.CHECKS:
        file = example.file_of(check)
        scene = example.read(file).fires if file is not None else None
        if scene is None or example.MACHINE not in scene.files or example.BUNDLE in scene.files:
            continue
        launch = next((name for name in scene.files if example.is_launch(name)), None)
        if launch is not None and json.loads(scene.files[example.MACHINE]).get("packages"):
            found.append((check.code, scene, launch))
    return found


SCENES = scenes()


@pytest.mark.parametrize(("scene", "launch"), [row[1:] for row in SCENES], ids=[row[0] for row in SCENES])
def test_a_fix_opens_no_other_finding(scene: example.Scene, launch: str, tmp_path: Path) -> None:
    for name, text in scene.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert list(closure.opened(tmp_path, launch)) == []


def test_a_fix_that_opens_one_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank of 3 does not divide 8 devices; what a bad remedy would leave, 5, does not either."""
    launch = "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.tensor_model_parallel_size={} trainer.nnodes=1"
    (tmp_path / "run.sh").write_text(launch.format(3) + " trainer.n_gpus_per_node=8\n")
    (tmp_path / closure.MACHINE).write_text(json.dumps(MACHINE))
    bad = Fix(title="five", edits=(Edit(option="engine.tensor_parallel_size", value=5),))
    examined = closure._examined

    def worse(folder: Path, name: str) -> list[Examined]:
        def of(one: Examined) -> Examined:
            assert one.case.plan is not None
            results = tuple(
                replace(result, findings=tuple(replace(found, fixes=(bad,)) for found in result.findings))
                for result in one.report.results
            )
            report = replace(one.report, results=results, ranked=None)
            return replace(one, report=fixes.spelled_report(report, one.case.plan))

        return [of(one) for one in examined(folder, name)]

    monkeypatch.setattr(closure, "_examined", worse)
    (seen,) = closure.opened(tmp_path, "run.sh")
    assert (seen.code, seen.found[0][:15]) == ("RLD209", "RLD209: still: ")
    assert "=3 " in (tmp_path / "run.sh").read_text()
