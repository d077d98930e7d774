"""The node's scratch disk cannot be written to as the trainer writes its checkpoints.

What it looks for
    A file of a few bytes that the probe writes and reads back under the target's interpreter, in the folder that
    ``ACME_SCRATCH`` names.

Why it hurts
    The first checkpoint fails, hours into the run.

How sure it is
    The file was written here, by the interpreter that the run starts with.

The fix and its cost
    Another folder, or a word with whoever mounts it.
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Evidence, Finding, Fix, Grade, Reach

check = Check("ACME02", "acme-scratch-unwritable", __doc__)


@check.observed(needs=["observations.acme_scratch"])
def not_written(case: Case) -> Iterator[Finding | Reach]:
    """What the probe came back with."""
    job = case.observations["acme_scratch"]["scratch"]
    seen = job["records"].get("written")
    if seen is not None:
        yield Reach(f"{seen['bytes']} bytes written to {seen['folder']} and read back")
        return
    error = job.get("error") or {"type": job["ended"], "message": ""}
    yield check.finding(
        f"the scratch disk cannot be written to: {error['message'] or error['type']}",
        grade=Grade.OBSERVED,
        evidence=(Evidence(text=f"{error['type']}: {error['message']}", source="acme_scratch probe"),),
        fixes=(Fix(title="name a folder that can be written to in ACME_SCRATCH"),),
    )
