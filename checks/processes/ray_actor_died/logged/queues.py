"""The words of LSF, PBS (with Torque and Moab) and SkyPilot for a job that they ended (RLD603)."""

from __future__ import annotations

from functools import partial

from rldoctor.api import Fix

from ....observed.endings import nothing_failed_before
from .. import check
from ..fixes import RESUME

_LSF = "https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=bhist-description"
_PBS = "https://openpbs.org"
_MORE_TIME = (RESUME, Fix(title="or ask for more time", commands=("qsub -l walltime=HOURS:00:00 ...",)))
_RECORDED = (RESUME, Fix(title="see what the server recorded", commands=("tracejob JOB", "qstat -xf JOB")))
_ended = partial(check.signature, when=nothing_failed_before, silent=True)

_ended(
    "TERM_RUNLIMIT: job killed",
    "TERM_DEADLINE: job killed",
    "TERM_CPULIMIT: job killed",
    says="LSF ended the job at its time limit: nothing in the run is at fault",
    fixes=(RESUME, Fix(title="or ask for more time", commands=("bsub -W HOURS:00 ...",))),
    url=_LSF,
)
_ended(
    "TERM_PREEMPT: job killed",
    says="LSF preempted the job for one of higher priority: nothing in the run is at fault",
    fixes=(RESUME, Fix(title="or use a queue that is not preempted")),
    url=_LSF,
)
_ended(
    "TERM_OWNER: job killed",
    "TERM_ADMIN: job killed",
    "TERM_FORCE_OWNER: job killed",
    "TERM_FORCE_ADMIN: job killed",
    "TERM_REQUEUE_OWNER: job killed",
    "TERM_REQUEUE_ADMIN: job killed",
    "TERM_LOAD: job killed",
    "TERM_WINDOW: job killed",
    "TERM_PROCESSLIMIT: job killed",
    "TERM_THREADLIMIT: job killed",
    "TERM_SWAP: job killed",
    "TERM_EXTERNAL_SIGNAL: job killed",
    pattern=r"TERM_\w+: job (?P<how>killed [^\n.]{3,120})",
    says="LSF ended the job: {how}",
    fixes=(RESUME, Fix(title="see who or what ended it", commands=("bhist -l JOB",))),
    url=_LSF,
)
_ended(
    "=>> PBS: job killed: walltime ",
    pattern=r"walltime (?P<used>\d+) exceeded limit (?P<limit>\d+)",
    says="PBS ended the job at its time limit of {limit} s (walltime): nothing in the run is at fault",
    fixes=_MORE_TIME,
    url=_PBS,
)
# Torque's and Moab's letters, which people keep with the output.
_ended(
    "Job exceeded its walltime limit",
    "job exceeded wallclock limit",
    says="PBS ended the job at its time limit: nothing in the run is at fault",
    fixes=_MORE_TIME,
    url=_PBS,
)
_ended(
    "job preempted (",
    pattern=r"(?m)^\s*job preempted \((?P<why>[^\n)]{3,80})\)",
    says="PBS preempted the job ({why}): nothing in the run is at fault",
    fixes=_RECORDED,
    url=_PBS,
)
_ended(
    "=>> PBS: job killed: ",
    unless=("job killed: walltime ", "job killed: mem ", "job killed: vmem "),
    pattern=r"(?m)^\s*=>> PBS: job killed: (?P<why>[^\n]{3,160})",
    says="PBS ended the job: {why}",
    fixes=_RECORDED,
    url=_PBS,
)
_ended(
    "Cluster is preempted or failed",
    says="SkyPilot's cluster was preempted or failed, and the managed job starts again on another",
    fixes=(
        Fix(title="resume from the last checkpoint, kept in a mounted bucket"),
        Fix(title="or use machines that are not preempted (use_spot: false)", commands=("sky jobs queue",)),
    ),
    url="https://docs.skypilot.co/en/latest/examples/managed-jobs.html",
)
