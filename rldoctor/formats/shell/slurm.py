"""Slurm's directives (``#SBATCH --nodes=2``) in canonical names."""

from __future__ import annotations

import re

from rldoctor.formats.source import Source
from rldoctor.plan.model import Setting

_DIRECTIVE = re.compile(r"#SBATCH\s+--?([A-Za-z][\w-]*)[=\s]+([^\s#]+)")
_TABLE = {
    "nodes": "placement.nodes",
    "N": "placement.nodes",
    "gpus-per-node": "placement.gpus_per_node",
    "gres": "placement.gpus_per_node",
}

# https://slurm.schedmd.com/sbatch.html, output environment variables
_NODES, _TASKS = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), ("SLURM_NTASKS", "SLURM_NPROCS")
_VARIABLES: dict[str, tuple[str, ...]] = {
    "nodes": _NODES,
    "N": _NODES,
    "gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
    "gres": ("SLURM_GPUS_ON_NODE",),
    "ntasks": _TASKS,
    "n": _TASKS,
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "cpus-per-task": ("SLURM_CPUS_PER_TASK",),
    "c": ("SLURM_CPUS_PER_TASK",),
}


def directives(source: Source) -> dict[str, Setting]:
    """The nodes and devices per node that a batch script asks for; a range or a variable is left out."""
    found: dict[str, Setting] = {}
    for number, row in enumerate(source.text.splitlines(), source.first_line):
        match = _DIRECTIVE.match(row)
        if match is None or match[1] not in _TABLE:
            continue
        count = re.fullmatch(r"(?:gpu:)?(?:[A-Za-z][\w.]*:)?(\d+)", match[2])
        if count is not None and (match[1] != "gres" or match[2].startswith("gpu")):
            key = f"#SBATCH --{match[1]}"
            found[_TABLE[match[1]]] = Setting(
                value=int(count[1]), file=source.file, line=number, key=key, raw=row.strip()
            )
    return found


def variables(source: Source) -> dict[str, str]:
    """The variables that the scheduler sets for a script with these directives, as far as they name numbers."""
    found: dict[str, str] = {}
    for row in source.text.splitlines():
        match = _DIRECTIVE.match(row)
        names = _VARIABLES.get(match[1], ()) if match is not None else ()
        count = re.fullmatch(r"(?:gpu:)?(?:[A-Za-z][\w.]*:)?(\d+)", match[2]) if match is not None else None
        if count is not None and match is not None and (match[1] != "gres" or match[2].startswith("gpu")):
            found.update(dict.fromkeys(names, count[1]))
    return found
