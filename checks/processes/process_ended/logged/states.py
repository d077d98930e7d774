"""A job, a pod or a machine that was ended or taken away, in words that schedulers and clouds share (RLD603)."""

from __future__ import annotations

from functools import partial

from rldoctor.api import Fix, Role

from ....observed.states import AGAIN, CANCELLED, FAILED, IMAGE, MACHINE, NOT_READY, PREEMPTED, START, TIME, tells
from .. import check
from ..fixes import RESUME

_NODES = "https://docs.ray.io/en/latest/ray-core/fault_tolerance/nodes.html"
_JOBS = "https://kubernetes.io/docs/concepts/workloads/controllers/job/"
_SEE = Fix(title="see what the scheduler or the cloud recorded of the job and its machines")
_general = partial(check.signature, silent=True, general=True)

_counted_as_failed = tells(FAILED)

for _why in (PREEMPTED, MACHINE):
    _general(
        *_why.literals,
        when=tells(_why),
        says="whoever runs the job took it, or a machine of it, away: {line}",
        fixes=(RESUME, _SEE),
        url=_NODES,
    )
_general(
    *TIME.literals,
    when=tells(TIME),
    says="whoever runs the job ended it at a time limit: {line}",
    fixes=(RESUME, Fix(title="or give the job longer")),
    url=_JOBS,
)
_general(
    *NOT_READY.literals,
    when=tells(NOT_READY),
    says="whoever runs the job found no place for all of it in time: {line}",
    fixes=(Fix(title="ask for fewer or other machines, or wait for others' jobs to end"), _SEE),
    url=_JOBS,
)
_general(
    *IMAGE.literals,
    when=tells(IMAGE),
    says="whoever runs the job cannot pull its image: {line}",
    fixes=(Fix(title="correct the image's name and tag, or give the job the registry's credentials"),),
    url="https://kubernetes.io/docs/concepts/containers/images/",
)
_general(
    *START.literals,
    when=tells(START),
    says="whoever runs the job could not start it on a node: {line}",
    fixes=(Fix(title="leave that node out, and report it"), _SEE),
    url=_JOBS,
)
_general(
    *AGAIN.literals,
    when=tells(AGAIN),
    says="the job was started again as often as it may be, and failed each time: {line}",
    fixes=(Fix(title="read the log of an attempt that failed: it has the cause"),),
    role=Role.CASCADE,
    url=_JOBS,
)
_general(
    *CANCELLED.literals,
    when=tells(CANCELLED),
    says="the job was ended from outside, by a person, a script or its scheduler: {line}",
    fixes=(_SEE, RESUME),
    role=Role.CASCADE,
    url=_JOBS,
)
_general(
    *FAILED.literals,
    when=lambda case, event: _counted_as_failed(case, event) and not event.run.failures,
    says="whoever runs the job counts it as failed, and does not say why: {line}",
    fixes=(Fix(title="read the log of what failed: it has the cause"), _SEE),
    role=Role.CASCADE,
    url=_JOBS,
)
