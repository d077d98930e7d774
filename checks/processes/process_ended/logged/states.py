"""A job, a pod or a machine that was ended or taken away, in words that schedulers and clouds share (RLD603)."""

from __future__ import annotations

from rldoctor.api import Case, Fix, LogEvent, Role

from ....observed.causes import Why
from ....observed.endings import pod_never_was
from ....observed.states import FORMS, alone, ended_well, tells
from .. import check
from ..fixes import RESUME

_NODES = "https://docs.ray.io/en/latest/ray-core/fault_tolerance/nodes.html"
_JOBS = "https://kubernetes.io/docs/concepts/workloads/controllers/job/"
_SEE = Fix(title="see what the scheduler or the cloud recorded of the job and its machines")
_counted_as_failed, _never_started = tells(Why.FAILED), pod_never_was("Started")


def _failed_alone(case: Case, event: LogEvent) -> bool:
    if ended_well(event) or not _never_started(case, event):
        return False
    return _counted_as_failed(case, event) and not event.run.failures and alone(event)


def _general(why: Why, says: str, *fixes: Fix, url: str = _JOBS, role: Role = Role.CAUSE) -> None:
    check.signature(
        *FORMS,
        when=_failed_alone if why is Why.FAILED else tells(why),
        says=f"{says}: {{line}}",
        fixes=fixes,
        url=url,
        role=role,
        silent=True,
        general=True,
        behind=True,
    )


_general(Why.PREEMPTED, "whoever runs the job took it, or a machine of it, away", RESUME, _SEE, url=_NODES)
_general(Why.MACHINE, "a machine of the job failed, or was taken out of service", RESUME, _SEE, url=_NODES)
_general(Why.TIME, "whoever runs the job ended it at a time limit", RESUME, Fix(title="or give the job longer"))
_general(
    Why.QUOTA,
    "whoever runs the job ended it for want of quota, credit or a valid credential",
    Fix(title="have it raised or renewed, then submit the job again"),
    RESUME,
)
_general(
    Why.PLACE,
    "whoever runs the job found no place for all of it in time",
    Fix(title="ask for fewer or other machines, or wait for others' jobs to end"),
    _SEE,
)
_general(
    Why.IMAGE,
    "whoever runs the job cannot pull its image",
    Fix(title="correct the image's name and tag, or give the job the registry's credentials"),
    url="https://kubernetes.io/docs/concepts/containers/images/",
)
_general(
    Why.START,
    "whoever runs the job could not start it on a node",
    Fix(title="leave that node out, and report it"),
    _SEE,
)
_general(
    Why.AGAIN,
    "the job was started again as often as it may be, and failed each time",
    Fix(title="read the log of an attempt that failed: it has the cause"),
    role=Role.CASCADE,
)
_general(
    Why.ASKED,
    "the job was ended from outside, by a person, a script or its scheduler",
    _SEE,
    RESUME,
    role=Role.CASCADE,
)
_general(
    Why.FAILED,
    "whoever runs the job counts it as failed, and does not say why",
    Fix(title="read the log of what failed: it has the cause"),
    _SEE,
    role=Role.CASCADE,
)
