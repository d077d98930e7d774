"""What to do where nothing in the run was at fault, and where Ray refuses to copy a folder (RLD603)."""

from __future__ import annotations

from rldoctor.api import Fix

RESUME = Fix(
    title="submit the job again (Slurm: --requeue) and resume from the last checkpoint; save often enough that little "
    "is lost"
)
LESS_TO_COPY = Fix(
    title='leave data, checkpoints and .git out: runtime_env={"excludes": ["/data", "/ckpts", ".git"]}, '
    "or start from a folder that holds the code alone"
)
RUNTIME_ENV = "https://docs.ray.io/en/latest/ray-core/handling-dependencies.html"
