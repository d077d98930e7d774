"""The UUID of the GPU that each rank of a small job has."""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotApplicable, Reach, Severity

from ...declared.devices import joined
from ...observed.communication import PROBE, evidence, runs
from . import check


@check.observed(needs=["observations.collectives"])
def same_uuid(case: Case) -> Iterator[Finding | Reach]:
    """Each rank of the probe's job told which physical GPU it has."""
    first = runs(case)[0]
    reported = [rank for rank in first.ranks if rank.get("device", {}).get("uuid")]
    if not reported:
        raise NotApplicable("no rank of the probe had a GPU, or its torch does not tell the UUID")
    for uuid, ranks in first.shared().items():
        yield check.finding(
            f"ranks {joined([str(rank) for rank in ranks])} are on one physical GPU"
            + ("" if first.done else ", and their group cannot be used"),
            severity=Severity.WARNING if first.done else Severity.ERROR,
            grade=Grade.OBSERVED if first.done else Grade.REPRODUCED,
            evidence=(Evidence(text=f"GPU {uuid}", source=PROBE), *evidence([] if first.done else first.failed)),
            fixes=(_OWN_RANK,),
        )
    if not first.shared():
        yield Reach(f"{len(reported)} ranks on {len(reported)} GPUs")


_OWN_RANK = Fix(
    title="a GPU for each rank: as many processes as CUDA_VISIBLE_DEVICES lists, torch.cuda.set_device(LOCAL_RANK)",
    commands=("torchrun --nproc_per_node=GPUS ...",),
)
