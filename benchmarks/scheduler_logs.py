"""Ninety-six logs that a scheduler ended, of twenty-four kinds, and thirty healthy ones: whether triage says what
ended the run, on which node, and in which attempt.

python -m benchmarks.scheduler_logs [--keep FOLDER]

The lines in ``endings/`` have the forms that Slurm, Kubernetes, Ray, torchrun, mpirun, LSF, PBS, HTCondor, Flux and
clouds write (manuals and sources); names, numbers and what the trainer prints before them are drawn from a fixed
seed."""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TEXTS = Path(__file__).parent / "endings"
EACH, HEALTHY = 4, 30


@dataclass(frozen=True)
class Kind:
    """What the message must say, and whether such a log names the node and the attempt."""

    says: str
    node: bool = True
    attempt: bool = False
    begun: bool = True


KINDS = {
    "slurm-time": Kind("time limit"),
    "slurm-node-failure": Kind(r"node \S+ failed"),
    "slurm-preemption": Kind("preempted"),
    "slurm-requeue": Kind("back into the queue", attempt=True),
    "slurm-cancel": Kind("was cancelled"),
    "slurm-memory": Kind("memory was used up"),
    "slurm-credential": Kind("could not start the step.*credential", begun=False),
    "kubernetes-memory": Kind("memory was used up", attempt=True),
    "kubernetes-eviction": Kind("evicted.*disk", attempt=True),
    "kubernetes-preemption": Kind("Kubernetes ended the pod", attempt=True),
    "kubernetes-image": Kind("cannot pull the image", begun=False),
    "ray-node": Kind(r"counts the node \S+ .* as dead"),
    "torchrun-killed": Kind("SIGKILL", attempt=True),
    "lsf-time": Kind("LSF ended the job at its time limit"),
    "pbs-time": Kind("PBS ended the job at its time limit", node=False),
    "skypilot-preemption": Kind("SkyPilot.* preempted", node=False),
    "condor-memory": Kind("HTCondor put the job on hold at its memory limit"),
    "condor-eviction": Kind("HTCondor evicted", node=False),
    "mpirun-killed": Kind("SIGKILL"),
    "vertex-memory": Kind("memory was used up", node=False),
    "sagemaker-time": Kind("SageMaker ended the job at its time limit", node=False),
    "ray-job-killed": Kind("SIGKILL", node=False),
    "flux-time": Kind(r"Flux ended the job \(timeout\)", node=False),
    "slurm-2013": Kind("was cancelled"),
}
STARTS = ("slurm", "srun", "kubernetes", "torchrun", "ray", "condor", "none")
NODES = ("node{0:03}", "gpu-{0}-a", "hpc{0}.cluster.local", "ip-10-0-{0}-7", "nid{0:06}", "r{0}n3")
ENDS = (
    "{{'train_runtime': {job}.31, 'train_samples_per_second': 3.1, 'train_loss': 0.041, 'epoch': 1.0}}\n",
    "100%|██████████| 60/60 [19:00<00:00, 19.81s/it]\n",
)
# A step as TRL, verl and a loop of one's own print it.
STEPS = (
    "{{'loss': {0:.4f}, 'grad_norm': {1:.4f}, 'reward': {2:.4f}, 'reward_std': {3:.4f}, 'epoch': 0.{step:02}}}",
    "(TaskRunner pid={job}) step:{step} - actor/entropy:{0:.3f} - actor/grad_norm:{1:.3f} - critic/score/mean:{2:.3f}",
    "[2026-11-20 14:02:{step:02},118][INFO][train.py:214] step {step} loss {0:.4f} reward {2:.3f}",
)


def names(chance: random.Random) -> dict[str, Any]:
    """What differs between logs of a kind."""
    drawn = {"job": chance.randrange(10_000, 99_999), "attempt": chance.randrange(1, 4), "local": chance.randrange(8)}
    node = chance.choice(NODES).format(chance.randrange(2, 250))
    address = f"10.{drawn['job'] % 200}.{drawn['job'] % 90}.{drawn['job'] % 250}"
    return {**drawn, "node": node, "address": address, "pod": f"grpo-{drawn['job']}-worker-{drawn['local']}"}


def trained(chance: random.Random, form: str, job: int) -> str:
    """Some steps of a run that is well."""
    rows = ([chance.uniform(0.1, 0.9) for _ in range(4)] for _ in range(chance.randrange(9, 40)))
    return "\n".join(form.format(*row, step=step, job=job) for step, row in enumerate(rows, 1))


def text(name: str, **values: Any) -> str:
    """The lines of a file, filled in."""
    return (TEXTS / f"{name}.txt").read_text().format(**values)


def failed(name: str, number: int) -> tuple[str, dict[str, Any]]:
    """A log of a kind, and the names in it."""
    chance = random.Random(f"{name} {number}")
    drawn, form = names(chance), chance.choice(STEPS)
    before = f"{trained(chance, form, drawn['job'])}\n" if KINDS[name].begun else ""
    if name == "torchrun-killed":
        for attempt in range(1, drawn["attempt"] + 1):
            steps = trained(chance, form, drawn["job"])
            before += text("torchrun-again", **{**drawn, "attempt": attempt}, trained=steps)
    return before + text(name, **drawn, trained=trained(chance, form, drawn["job"])), drawn


def healthy(number: int) -> str:
    """A run that came to its end, begun by one of the schedulers."""
    chance = random.Random(f"healthy {number}")
    drawn = names(chance)
    start = text(f"healthy-{STARTS[number % len(STARTS)]}", **drawn)
    return f"{start}{trained(chance, STEPS[0], drawn['job'])}\n{chance.choice(ENDS).format(**drawn)}"


def triaged(file: Path) -> dict[str, Any]:
    """What ``rldoctor triage`` says."""
    command = [sys.executable, "-m", "rldoctor", "triage", str(file), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if not done.stdout:
        raise RuntimeError(done.stderr)
    return {"code": done.returncode, **json.loads(done.stdout)}


def judged(name: str, drawn: dict[str, Any], report: dict[str, Any]) -> dict[str, bool]:
    """Of what the log tells, whether the report has it."""
    kind, incident = KINDS[name], report["incident"] or {}
    message = report["findings"][0]["message"] if report["findings"] else ""
    got = {"kind": report["code"] == 1 and re.search(kind.says, message) is not None}
    if kind.node:
        got["node"] = incident.get("node") == drawn["node"]
    if kind.attempt:
        got["attempt"] = incident.get("attempt") == drawn["attempt"]
    return got


def main() -> None:
    """Writes the logs, judges each, prints what was missed and the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    answers: dict[str, list[bool]] = {"kind": [], "node": [], "attempt": [], "healthy quiet": []}
    with tempfile.TemporaryDirectory(prefix="endings-") as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in KINDS:
            for number in range(EACH):
                written, drawn = failed(name, number)
                file = folder / f"{name}-{number}.txt"
                file.write_text(written)
                report = triaged(file)
                got = judged(name, drawn, report)
                for what, right in got.items():
                    answers[what].append(right)
                if not all(got.values()):
                    said = [f"{one['code']} {one['message']}" for one in report["findings"]]
                    print(f"MISS {file.name} {got} {drawn}: {said} {report['incident']}"[:600])
        for number in range(HEALTHY):
            file = folder / f"healthy-{number}.txt"
            file.write_text(healthy(number))
            report = triaged(file)
            answers["healthy quiet"].append(report["code"] == 0 and not report["findings"])
            if not answers["healthy quiet"][-1]:
                print(f"MISS {file.name}: {report['code']} {report['findings']}"[:600])
    print(", ".join(f"{what} {sum(right)} of {len(right)}" for what, right in answers.items()))


if __name__ == "__main__":
    main()
