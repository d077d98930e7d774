"""What to do where nothing in the run was at fault (RLD603)."""

from __future__ import annotations

from rldoctor.api import Fix

RESUME = Fix(
    title="submit the job again (Slurm: --requeue) and resume from the last checkpoint; save often enough that little "
    "is lost"
)
