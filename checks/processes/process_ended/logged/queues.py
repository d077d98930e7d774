"""The words of LSF, PBS (with Torque and Moab), HTCondor and Flux for a job that they ended (RLD603)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from rldoctor.api import Case, Fix, LogEvent
from rldoctor.api.logs import exit_statuses_of, job_states

from ....observed.endings import cut_short, nothing_failed_before, unfinished
from .. import check
from ..fixes import RESUME

_LSF = "https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=bhist-description"
_TERMS = job_states("LSF")
_PBS = "https://openpbs.org"
_MORE_TIME = (RESUME, Fix(title="or ask for more time", commands=("qsub -l walltime=HOURS:00:00 ...",)))
_RECORDED = (RESUME, Fix(title="see what the server recorded", commands=("tracejob JOB", "qstat -xf JOB")))
_ended = partial(check.signature, when=cut_short, silent=True)

_ended(
    *(f"{word}: job killed" for word, why in _TERMS.items() if why == "time"),
    says="LSF ended the job at its time limit: nothing in the run is at fault",
    fixes=(RESUME, Fix(title="or ask for more time", commands=("bsub -W HOURS:00 ...",))),
    url=_LSF,
)
_ended(
    *(f"{word}: job killed" for word, why in _TERMS.items() if why == "preempted"),
    says="LSF preempted the job for one of higher priority: nothing in the run is at fault",
    fixes=(RESUME, Fix(title="or use a queue that is not preempted")),
    url=_LSF,
)
_ended(
    *(f"{word}: " for word, why in _TERMS.items() if why not in ("time", "preempted", "memory")),
    pattern=r"(?m)\bTERM_\w+: (?:[Jj]ob (?=killed ))?(?P<how>[^\n]{3,160}?)\.?\s*$",
    says="LSF ended the job: {how}",
    fixes=(RESUME, Fix(title="see who or what ended it", commands=("bhist -l JOB",))),
    url=_LSF,
)
_ended(
    "unable to reach the execution host",
    pattern=r"unable to reach the execution host\s*(?:[;.]|$)",
    says="LSF could not reach the machine on which the job ran: it, its daemon or its network is gone",
    fixes=(RESUME, Fix(title="see what ails that host", commands=("bhosts -l HOST", "bhist -l JOB"))),
    url=_LSF,
)
_ended(
    "> requested by user or administrator <",
    pattern=r"Signal <(?P<signal>\w+)> requested by user or administrator <(?P<who>[^>]{1,80})>",
    says="LSF ended the job: {who} sent it {signal}",
    fixes=(RESUME,),
    url=_LSF,
)
_ended(
    "=>> PBS: job killed: walltime ",
    pattern=r"walltime (?P<used>\d+) exceeded limit (?P<limit>\d+)",
    says="PBS ended the job at its time limit of {limit} s (walltime): nothing in the run is at fault",
    fixes=_MORE_TIME,
    url=_PBS,
)
# Grid Engine's execution daemon: execd_ck_to_do.c.
_ended(
    " exceeded hard wallclock time",
    'exceeds job hard limit "h_rt"',
    'exceeds job hard limit "h_cpu"',
    pattern=r"\bjob (?P<job>[\d.]+) exceed",
    says="Grid Engine ended the job {job} at its time limit: nothing in the run is at fault",
    fixes=(RESUME, Fix(title="or ask for more time", commands=("qsub -l h_rt=HOURS:00:00 ...",))),
    url="https://gridscheduler.sourceforge.net/htmlman/htmlman5/queue_conf.html",
)
# Of the three, qacct does not say which.
_ended(
    "qmaster enforced h_rt, h_cpu",
    says="Grid Engine ended the job at a limit of its queue or request: its time (h_rt, h_cpu), or its memory (h_vmem)",
    fixes=(
        RESUME,
        Fix(title="compare ru_wallclock and maxvmem with what was asked for", commands=("qacct -j JOB",)),
        Fix(title="ask for more of it", commands=("qsub -l h_rt=HOURS:00:00 -l h_vmem=SIZE ...",)),
    ),
    url="https://gridscheduler.sourceforge.net/htmlman/htmlman5/accounting.html",
)
_STATUSES = exit_statuses_of("OpenPBS")
_STATUS = re.compile(r"Exit_status ?= ?(-\d{1,2})(?!\d)")


def _by_status(*causes: str) -> Callable[[Case, LogEvent], bool | Mapping[str, str]]:
    """For ``when=`` of a signature: whether PBS ended a sound job with a status that tells one of these."""

    def condition(case: Case, event: LogEvent) -> bool | Mapping[str, str]:
        found = _STATUS.search(event.line)
        why, said = _STATUSES.get(int(found[1]), ("", "")) if found is not None else ("", "")
        return {"said": said} if why in causes and cut_short(case, event) else False

    return condition


_ended(
    "Exit_status = -",
    "Exit_status=-",
    when=_by_status("time"),
    says="PBS ended the job at its time limit: nothing in the run is at fault",
    fixes=_MORE_TIME,
    url=_PBS,
)
_ended(
    "Exit_status = -",
    "Exit_status=-",
    when=_by_status("memory"),
    says="PBS ended the job at its memory limit: {said}",
    fixes=(*_RECORDED, Fix(title="or ask for more memory", commands=("qsub -l select=N:mem=SIZE ...",))),
    url=_PBS,
)
_ended(
    "Exit_status = -",
    "Exit_status=-",
    when=_by_status("start", "again", "machine", "asked", "quota", "failed"),
    says="PBS ended the job, or could not start it: {said}",
    fixes=_RECORDED,
    url=_PBS,
)
_ended(
    "Exit_status = 271",
    "Exit_status=271",
    says="PBS ended the job by SIGTERM (exit status 271): somebody deleted it, or it was at its time limit",
    fixes=_RECORDED,
    url=_PBS,
)
_ended(
    "exceeded some resource limit (walltime, mem",
    says="PBS ended the job at a limit that it had asked for (walltime, mem), and does not say which",
    fixes=_RECORDED,
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
# src/resmom/mom_comm.c: the first node's daemon watches over the others.
_ended(
    " secs, killing job now",
    pattern=r"lost communication with (?P<node>[\w.-]+) for > (?P<limit>\d+) secs",
    says="PBS lost the node {node}, of which nothing was heard for {limit} s, and ended the job",
    fixes=(RESUME, Fix(title="see what ails that node", commands=("pbsnodes {node}",))),
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
    "Job deleted at request of ",
    unless=("exceeded wallclock limit",),
    pattern=r"(?m)Job deleted at request of (?P<who>[\w.-]{1,80}(?:@[\w.-]{1,200})?)\s*$",
    says="PBS ended the job: {who} deleted it",
    fixes=_RECORDED,
    url=_PBS,
)
# Events of a job's log, and the hold reasons behind them: condor_utils/condor_event.cpp.
_CONDOR = "https://htcondor.readthedocs.io/en/latest/codes-other-values/job-event-log-codes.html"
_HISTORY = Fix(title="see what HTCondor recorded", commands=("condor_q -hold -analyze", "condor_history -long JOB"))
_ended(
    "Job was evicted.",
    pattern=r"\b004 \((?P<job>\d+\.\d+)\.\d+\)",
    when=cut_short,
    says="HTCondor evicted the job {job} from its machine: nothing in the run is at fault",
    fixes=(RESUME, _HISTORY),
    url=_CONDOR,
)
_ended(
    "Error from slot",
    pattern=r"Error from (?:slot\w+@)(?P<node>[\w.-]+): (?P<why>[^\n]{3,160})",
    unless=("Job has gone over cgroup memory limit", "Job has gone over memory limit"),
    says="HTCondor put the job on hold on {node}: {why}",
    fixes=(_HISTORY,),
    url=_CONDOR,
)
check.signature(
    "Job was held.",
    pattern=r"\b012 \((?P<job>\d+\.\d+)\.\d+\)",
    details=(r"Job was held\.\n\s*(?P<why>[^\n]{3,160})",),
    when=cut_short,
    says="HTCondor put the job {job} on hold[[: {why}]]",
    fixes=(_HISTORY,),
    silent=True,
    general=True,
    url=_CONDOR,
)
# What an expression of attributes of a job is about. How long it has been held or idle is no limit of its time.
_LIMITS = (
    (
        "time",
        re.compile(
            r"(?!.*\bJobStatus\s*={2,3}\s*[157]\b).*?\b(?:EnteredCurrentStatus|\w*WallClock\w*|\w*StartDate|\w*StartTime"
            r"|\w*Duration|QDate)\b"
        ),
    ),
    ("memory", re.compile(r".*?\b(?:MemoryUsage|ResidentSetSize\w*|ImageSize\w*|RequestMemory)\b")),
    ("disk", re.compile(r".*?\b(?:DiskUsage\w*|RequestDisk)\b")),
)
_EXPRESSION = re.compile(r"expression '([^'\n]{1,600})'")


def _of_policy(case: Case, event: LogEvent) -> bool | Mapping[str, str]:
    if not cut_short(case, event):
        return False
    said = _EXPRESSION.search(event.line)
    # Of several conditions any may have held.
    kinds = {
        next((kind for kind, form in _LIMITS if form.match(part)), "")
        for part in (said[1].split("||") if said is not None else ())
    }
    return {"limit": kinds.pop()} if len(kinds) == 1 and "" not in kinds else True


# A policy of the job or of the pool: condor_utils/user_job_policy.cpp.
_ended(
    *(f"attribute {policy} expression '" for policy in ("PeriodicRemove", "PeriodicHold", "OnExitHold")),
    *(
        f"The system macro SYSTEM_{policy} expression '"
        for policy in ("PERIODIC_REMOVE", "PERIODIC_HOLD", "ON_EXIT_HOLD")
    ),
    pattern=r"(?i:(?:periodic|on_?exit)_?)(?P<how>(?i:remove|hold))\w* expression '(?P<what>[^'\n]{1,200})' evaluated "
    r"to TRUE",
    when=_of_policy,
    says="HTCondor ended the job[[ at its {limit} limit,]] by a policy ({how}): {what}",
    fixes=(RESUME, _HISTORY),
    url=_CONDOR,
)
_ended(
    "via condor_rm (by user ",
    pattern=r"via condor_rm \(by user (?P<user>[\w.@-]+)\)",
    says="the job was removed by {user} (condor_rm): nothing in the run is at fault",
    fixes=(RESUME,),
    url=_CONDOR,
)
_ended(
    "Can not reconnect to slot",
    pattern=r"Can not reconnect to slot\w+@(?P<node>[\w.-]+)",
    when=unfinished,
    says="HTCondor lost {node}, on which the job ran, and starts it again elsewhere",
    fixes=(RESUME, _HISTORY),
    url=_CONDOR,
)
_ended(
    "job.exception type=",
    # A task had ended, and the others did not: how, Flux tells behind it.
    unless=("exit-timeout=",),
    # Others do not end the job.
    pattern=r"job\.exception type=(?P<type>[\w-]+) severity=0(?: note=)? ?(?P<why>[^\n]{0,160})",
    when=nothing_failed_before,
    says="Flux ended the job ({type}): {why}",
    fixes=(RESUME, Fix(title="see the job's events", commands=("flux job eventlog JOB",))),
    url="https://flux-framework.readthedocs.io/projects/flux-core/en/latest/man1/flux-job.html",
)
