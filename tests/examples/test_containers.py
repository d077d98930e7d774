"""The container file and the Kubernetes job, as far as no engine for containers is needed."""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from tests.examples.conftest import ROOT

INSTRUCTIONS = {"FROM", "COPY", "RUN", "ENV", "WORKDIR", "USER", "ENTRYPOINT", "CMD", "ARG", "LABEL"}


def job() -> dict[str, Any]:
    reported: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "kubernetes" / "train.yaml").read_text())
    return reported


def test_the_container_file_says_what_a_container_file_may() -> None:
    text = re.sub(r"\\\n", " ", (ROOT / "examples" / "container" / "Dockerfile").read_text())
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    assert {instruction for instruction, _ in lines} <= INSTRUCTIONS
    assert lines[0][0] == "FROM"
    assert dict(lines)["ENTRYPOINT"] == '["rldoctor"]'
    assert dict(lines)["USER"] != "root"


def test_what_make_sets_up_does_not_go_into_the_image() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    made = re.findall(r"^(?:VENV|PATIENT|RAY) := (\S+)", (ROOT / "Makefile").read_text(), re.M)
    assert made == [".venv", ".patient", ".ray"]
    assert all(any(fnmatch(name, pattern) for pattern in ignored) for name in (*made, ".venv-lowest", ".git"))


def test_the_trainer_waits_for_the_doctor_on_the_same_image_devices_and_mounts() -> None:
    pod = job()["spec"]["template"]["spec"]
    (doctor,), (trainer,) = pod["initContainers"], pod["containers"]
    for key in ("image", "resources", "volumeMounts"):
        assert doctor[key] == trainer[key]
    mounted = {mount["name"] for mount in trainer["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    assert (pod["restartPolicy"], job()["spec"]["backoffLimit"]) == ("Never", 0)


def test_the_doctors_command_is_one_of_this_release(project: Path, environment: dict[str, str]) -> None:
    """In the project's folder, for its machine, at the level that starts no child."""
    (doctor,) = job()["spec"]["template"]["spec"]["initContainers"]
    program, *arguments = doctor["command"]
    assert Path(program).name == "rldoctor"
    here = [one.replace("/opt/launch/train.sh", "launch_sick.sh").replace("imports", "static") for one in arguments]
    here = [one for one in here if not one.startswith("--python")]
    done = subprocess.run(
        ["rldoctor", *here, "--assume=machine.json"],
        cwd=project, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "RLD202" in done.stdout
