"""The folder of a job that Ray refuses to copy, the observed side of RLD603."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import Case, Evidence, Finding, Grade, NotChecked, Reach, cite, plan_of

from . import check
from .fixes import LESS_TO_COPY, RUNTIME_ENV

_OBSERVED = "ray_package"


@check.observed(needs=["plan.ray.working_dir", f"observations.{_OBSERVED}"])
def more_than_ray_copies(case: Case) -> Iterator[Finding | Reach]:
    """What the folder has, by Ray's own rules of what it leaves out."""
    plan = plan_of(case)
    for job in case.observations[_OBSERVED].values():
        records = job["records"]
        if "bytes" not in records:
            raise NotChecked(
                f"what Ray would pack of {plan.value('ray.working_dir')} was not measured ({job['ended']})"
            )
        size, limit = records["bytes"], records["limit"]
        if size < limit:
            yield Reach(f"Ray packs {_mib(size)} of at most {_mib(limit)}")
            continue
        yield check.finding(
            f"Ray {records['version']} is to copy {records['folder']} to the nodes: that is {_mib(size)} in "
            f"{records['files']} files, and it refuses more than {_mib(limit)}",
            grade=Grade.OBSERVED,
            evidence=(
                *cite(plan, "ray.working_dir"),
                *(
                    Evidence(text=f"{one['name']}: {_mib(one['bytes'])}", source=records["folder"])
                    for one in _most(records)
                ),
            ),
            fixes=(LESS_TO_COPY,),
            url=RUNTIME_ENV,
        )


def _most(records: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What in the folder is a part of it that counts."""
    return [one for one in records["largest"][:3] if one["bytes"] > records["limit"] / 100]


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
