"""Messages that the schedulers' own sources and manuals have, read as the end of a log.

``scheduler_messages.json`` holds them by scheduler and by what ended the job, each with the node that it names;
numbers and names are filled in. What stands under ``none`` ends nothing. Slurm: src/srun, src/salloc,
src/api/step_launch.c, src/slurmd/slurmstepd; HTCondor: condor_event.cpp and its hold reasons; OpenPBS: resmom and
svr_messages.c; LSF: its table of termination reasons; Kubernetes: kubelet, controllers, autoscaler; Kueue, JobSet,
Volcano, KubeRay; Ray: raylet, autoscaler, jobs, Train; torch/distributed/elastic; dstack: JobTerminationReason; the
agents of ECS and Batch; SkyPilot's controller; Flux: job-exec; slurmctld: job_mgr.c; Nomad: its task events and the
reasons of its allocations; Tekton: the reasons of TaskRun and PipelineRun, pkg/pod/status.go; Argo Workflows:
workflow/controller/operator.go; Determined: resources.go, agent.go; Jenkins: workflow-durable-task-step."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rldoctor.logs.triage import triage_text
from rldoctor.model import Severity
from tests.logs.excerpts import HEALTHY

STEPS = "".join(line for line in HEALTHY.splitlines(keepends=True) if "'grad_norm'" in line)
MESSAGES = json.loads((Path(__file__).parent / "scheduler_messages.json").read_text())
# What the finding says of each.
SAID = {
    "time": "time limit|deadline|duration|walltime|timeout|cput|window",
    "memory": "memory|swap",
    "preempted": "preempt|evict|took .*away|reclaim|Kubernetes ended the pod",
    "machine": "node|machine|host|reach|lost|RMS|not available",
    "asked": "from outside|by a person|cancel|killed|removed|stopped|signal|revoked|Kubernetes ended|autoscaler|abort"
    "|asked for it|terminated by LSF|terminated",
    "quota": "quota|credential",
    "place": "no place|place|left|not available|taken|refused",
    "image": "image",
    "start": "could not|cannot|environment|not accessible|on hold",
    "again": "each time|as often|again",
    "failed": "failed|task|each time|exit code",
    "requeue": "queue",
    "disk": "(?i:disk)|space|volume",
    "killed": "SIGKILL|137",
    "crash": "SIGSEGV",
    "limit": "limit|threshold",
    "probe": "probe",
    "stuck": "stuck in the kernel",
}
# These come before a run has begun.
AT_START = ("place", "image", "start")


@pytest.mark.parametrize(
    ("why", "line", "node"),
    [
        pytest.param(why, line, *(node or [None]), id=f"{scheduler}-{why}-{number}")
        for scheduler, kinds in MESSAGES.items()
        for why, lines in kinds.items()
        for number, (line, *node) in enumerate(lines)
    ],
)
def test_what_a_scheduler_writes(why: str, line: str, node: str | None) -> None:
    result = triage_text(f"{'' if why in AT_START else STEPS}{line}\n")
    errors = [finding for finding in result.findings if finding.severity is Severity.ERROR]
    if why == "none":
        assert errors == []
        return
    assert errors
    # Some findings quote the line behind what they say.
    said = errors[0].message.split(f": {errors[0].evidence[0].text}"[:60])[0]
    assert re.search(SAID[why], said), errors[0].message
    if node is not None:
        assert result.incident is not None and result.incident.node == node
