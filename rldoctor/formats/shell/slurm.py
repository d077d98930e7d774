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
