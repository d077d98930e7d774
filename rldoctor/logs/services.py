"""Lines of what runs jobs and machines: schedulers, container runtimes, the kernel, the system's services."""

from __future__ import annotations

from rldoctor.expressions import expression

__all__ = ["is_signed"]

# They sign their lines so, in the system's journal too, or lay them out as a table of events.
_SIGNED = expression(
    r"\s*(?:[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \S{1,80} )?"
    r"(?:slurm\w+(?:-\S{1,80})?|srun|salloc|sbatch|scancel|pbs\w*|condor\w*|sge\w*|qmaster|[sm]batchd|flux[\w-]{0,20}"
    r"|broker\.err|pdsh@[\w.-]{1,80}|kube[\w-]{1,30}|nomad(?:\.\w{1,30})*|systemd(?:-\w{1,20})*|kernel|dockerd"
    r"|containerd)(?:\[\d+\])?: "
    r"|\s*(?:Normal|Warning)\s{2,}[A-Z]\w+\s{2,}"
)


def is_signed(text: str) -> bool:
    """Whether a line begins as those of schedulers, of the kernel and of the system's services do."""
    return _SIGNED.match(text) is not None
