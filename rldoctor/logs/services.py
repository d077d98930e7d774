"""Lines of what runs jobs and machines: schedulers, container runtimes, the kernel, the system's services."""

from __future__ import annotations

from rldoctor.expressions import expression

__all__ = ["is_event", "is_signed", "unsigned"]

# They sign their lines so, in the system's journal too. OpenPBS dates its daemons' lines (``;``) and what tracejob
# collects of them (one letter for the daemon), HTCondor numbers a job's events; Nomad's client has parts.
_HEAD = expression(
    r"\s*(?:[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \S{1,80} )?"
    r"(?:slurm\w+(?:-\S{1,80})?|srun|salloc|sbatch|scancel|pbs\w*|condor\w*|sge\w*|qmaster|[sm]batchd|flux[\w-]{0,20}"
    r"|broker\.err|pdsh@[\w.-]{1,80}|kube[\w-]{1,30}|nomad(?:\.\w{1,30})*"
    r"|client\.(?:alloc|driver)_\w{1,30}(?:\.\w{1,30})*|client(?=: (?:task|alloc) \")|systemd(?:-\w{1,20})*|kernel"
    r"|dockerd|containerd)(?:\[\d+\])?: "
    r"|\d\d/\d\d/\d{4} \d\d:\d\d:\d\d(?:\.\d+)?(?: {2}[A-Z] {2,}|(?:;[^;\n]{0,80}){4};)"
    r"|\d{3} \(\d+\.\d+\.\d+\) \d\S{4,9} [\d:.]{8,15} "
)
# Kubernetes' events: type, reason, and in a table of them their age and who tells it.
_EVENT = expression(
    r"\s*(?:Normal|Warning)\s{2,}[A-Z]\w+\s{2,}"
    r"(?:(?:\d+[smhd]){1,2}(?: \(x\d+ over \w+\))?\s{2,}\S{1,80}(?:, \S{1,80})?\s{2,})?"
)


def is_signed(text: str) -> bool:
    """Whether a line begins as those of schedulers, of the kernel and of the system's services do."""
    return _HEAD.match(text) is not None or is_event(text)


def is_event(text: str) -> bool:
    """Whether a line is a row of Kubernetes' events."""
    return _EVENT.match(text) is not None


def unsigned(text: str) -> str:
    """What a line says behind whoever signed it."""
    head = _HEAD.match(text) or _EVENT.match(text)
    return text if head is None else text[head.end() :]
