"""What leaves the host more memory."""

from __future__ import annotations

from rldoctor.api import Fix

LESS = Fix(
    title="use less host memory on the node: fewer actors and loader workers per node, no parameter or optimizer "
    "offload where the GPUs have room, no sleep level that keeps weights in host memory",
)
MORE = Fix(title="give the node or container more memory (docker run --memory, Slurm --mem, a pod's limit)")
