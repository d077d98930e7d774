"""What Ray packs of a job's folder: with Ray's own code where it is there, and as RLD603 judges it."""

from __future__ import annotations

from pathlib import Path

import pytest
from rldoctor_checks.processes.process_ended import check

from rldoctor.api import Case, Finding, NotApplicable
from rldoctor.case import Distribution, Packages
from rldoctor.catalogue.probe import Request
from rldoctor.judge import judge_one
from rldoctor.launch.plans import plans
from rldoctor.probes.ray_package import ray_package
from rldoctor.probes.runner import run_job

PPO = "python3 -m verl.trainer.main_ppo trainer.nnodes=1 trainer.n_gpus_per_node=8 actor_rollout_ref.model.path=m"


def case(folder: Path, options: str) -> Case:
    (folder / "run.sh").write_text(f"ray job submit {options} -- {PPO}\n")
    known = Case(packages=Packages(python="3.11.7", distributions=(Distribution(name="ray", version="2.60.0"),)))
    (plan,) = plans(folder / "run.sh", known)
    return Case(packages=known.packages, plan=plan)


def observed(found: Case, **records: object) -> list[Finding]:
    job = {"ended": "done", "records": {"version": "2.60.0", "folder": "/w", "limit": 512 << 20, **records}}
    judged = Case(packages=found.packages, plan=found.plan, observations={"ray_package": {"folder": job}})
    return list(judge_one(check, judged).findings)


def test_more_than_ray_takes(tmp_path: Path) -> None:
    largest = [{"name": "ckpts", "bytes": 700 << 20}, {"name": "a.py", "bytes": 9}]
    found = case(tmp_path, f"--working-dir {tmp_path}")
    (only,) = observed(found, files=2, bytes=700 << 20, largest=largest)
    assert "700 MiB in 2 files, and it refuses more than 512 MiB" in only.message
    assert [one.text for one in only.evidence[1:]] == ["ckpts: 700 MiB"]
    assert observed(found, files=2, bytes=511 << 20, largest=largest) == []


@pytest.mark.parametrize(
    ("options", "excludes"),
    [
        ("--working-dir {0}", []),
        ("""--runtime-env-json '{{"working_dir": "{0}", "excludes": ["/ckpts"]}}'""", ["/ckpts"]),
        ("""--working-dir {0} --runtime-env-json '{{"working_dir": "/elsewhere", "excludes": ["*.pt"]}}'""", ["*.pt"]),
    ],
)
def test_the_folder_and_what_is_left_out(tmp_path: Path, options: str, excludes: list[str]) -> None:
    (job,) = ray_package.jobs(case(tmp_path, options.format(tmp_path)), Request()).values()
    assert job.arguments == {"folder": str(tmp_path), "excludes": excludes}


@pytest.mark.parametrize("options", ["", "--working-dir s3://bucket/code.zip", "--working-dir /no/such/folder"])
def test_nothing_of_this_machine_is_packed(tmp_path: Path, options: str) -> None:
    with pytest.raises(NotApplicable):
        ray_package.jobs(case(tmp_path, options), Request())


@pytest.mark.ray
def test_rays_own_rules(python_with_ray: Path, tmp_path: Path) -> None:
    for name, size in {"a.py": 10, "ckpts/m.safetensors": 5000, ".git/pack": 7000, "logs/x.txt": 300}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"0" * size)
    (tmp_path / ".rayignore").write_text("logs/\n")
    written = len("logs/\n") + 10
    for options, expected in (
        (f"--working-dir {tmp_path}", 5000 + written),
        (f"""--runtime-env-json '{{"working_dir": "{tmp_path}", "excludes": ["/ckpts/"]}}'""", written),
    ):
        found = case(tmp_path, options)
        (job,) = ray_package.jobs(found, Request()).values()
        records = run_job(ray_package.child, job, "ray_package", Request(python=python_with_ray)).records
        assert records["bytes"] == expected + (tmp_path / "run.sh").stat().st_size
        assert records["limit"] == 512 << 20
