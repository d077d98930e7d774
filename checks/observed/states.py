"""What ended a job, in the words that schedulers and clouds share.

All of them name a reason in one of few forms (a field, an event of Kubernetes, a row of a table of jobs), in words of
their own, of which each has so many and no more: ``DeadlineExceeded``, ``TIMEOUT``, ``JOB_STATE_EXPIRED``. Which words
these are, and what they tell, is taken from the schedulers' sources and manuals. What is said of a run in a sentence is
:mod:`rldoctor_checks.observed.outside`'s."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache

from rldoctor.api import Case, LogEvent
from rldoctor.api.logs import job_states, unsigned

from .causes import Why, cause, spelled
from .endings import cut_short, given_back, no_task_ended_before
from .outside import ended, is_of_a_tool

# Where a reason stands, and what a row of a table of jobs says.
FORMS = (
    *("reason: ", "Reason: ", 'reason":', "Reason'", 'Reason"', "reason=", "Reason=", "Error Code", "errorCode"),
    *("error_code", "JobState", "job_state", "Job_id=", "Status:", "Phase: ", "jobStatus", "JOB_STATE_", "(status: "),
    *("Normal  ", "Warning  ", "Terminated (", "Failed (", "Stopped (", "Interrupted (", "Aborted (", "Killed ("),
    *(
        '"EventType"',
        " (ip: ",
        "_reason",
        "statusReason",
        "stoppedReason",
        "Status.",
        "Finished: ",
        "Failed(",
        "Cancelled(",
    ),
)


_KEY = r"(?i:reason|state|status|phase|condition|error ?code|stop ?code)"
_WHOSE = r"(?i:(?:\w+[_ -])?(?:job|task|trial|deployment|termination|stopped|failure|exit|node|current)[_ -]?)?"
# A record of a job names its reason, or its state, in letters that no sentence has: several words run together.
# DEADLINE_EXCEEDED is what any server of gRPC answers.
_FIELD = re.compile(
    rf"(?:^|[\s,;{{\[(\"'|]){_WHOSE}{_KEY}(?:[\"']?\s{{0,20}}[:=]\s{{0,40}}[\"']?| )(?!DEADLINE_E)"
    r"(?P<state>[A-Z][a-z0-9]+(?:[A-Z]+[a-z0-9]*)+|[A-Z]{2,}[a-z]\w+|[A-Z]+(?:_[A-Z]+)+)\b"
)
# Why something was stopped is told in a field of that name, be it a word in small letters or a sentence.
_REASON = re.compile(
    r"(?i:\b(?:status|stop(?:ped)?|terminat(?:ion|ed)|failure)[_ ]?reason)[\"']?\s{0,20}[:=]\s{0,40}[\"']?"
    r"(?P<state>\w[^\"'\n]{2,200})"
)
# One word alone is a state of many things: here it is a job's.
_STATE = re.compile(
    r"\b(?i:job[ _]?(?:state|status))[\"']?\s{0,20}[:=]\s{0,40}[\"']?(?:JOB_STATE_)?(?P<state>[A-Z]{6,20})\b"
    r"|\bJOB_STATE_(?P<state_2>[A-Z_]{6,40})\b"
    r"|\b[Jj]ob .{1,80}\(status: (?P<state_3>[A-Z_]{6,40})\)"
    # A member of an enumeration, as Python prints it: samples have a status, too.
    r"|<\w*Job(?:Status|State)\.(?P<state_9>[A-Z_]{6,40}): "
    # A column in a list of Tekton's and of Argo's.
    r"|\s\s(?:Failed|Error|Cancelled|Stopped)\((?P<state_11>[A-Z]\w+)\)$"
    # A build of Jenkins.
    r"|^Finished: (?P<state_10>ABORTED|FAILURE)$"
    # Slurm's letters.
    r"|\bJob_id=.{1,200}, (?P<state_4>[A-Z_]{6,20})(?:,|$)"
    # A line of a record whose values stand in one column. What has one space there may be anything's state.
    rf"|^\s*{_KEY}\s?[:=]\s{{2,40}}(?P<state_5>[A-Z][a-z]{{5,20}})\s*$"
    # What the command of a service prints last.
    r"|^(?:Terminated|Failed|Stopped|Interrupted|Aborted|Killed) \((?P<state_6>[A-Z][a-z]+(?: [a-z]+){1,4})\)$"
    # Azure's scheduled events.
    r"|\"EventType\": ?\"(?P<state_7>Preempt)\""
    # A failure in `ray status`.
    r"|^\s*[\w.-]+: (?P<state_8>[A-Z][a-z]+(?:[A-Z][a-z]+)+) \(ip: "
)
# A service's name for what it raises, at the head of a line of its own: ``PreemptionError: Nodes of this job ...``. A
# client of a model's server says so, too (``InternalServerError: Error code: 503``), and may ask again.
_ERROR = re.compile(r"^(?P<state>[A-Z][A-Za-z]{3,40}): (?=\S)(?!Error code: \d)(?!.*(?i:\bretry))")
# A pod in a list of pods.
_POD = re.compile(r"^\s*(?P<job>[\w.-]+)\s+\d+/\d+\s+(?P<state>[A-Z]\w{5,40})\s+\d+(?: \(\S+ ago\))?\s+\d+[smhd]")
# The same two columns of an event; a row of a table of jobs has the job's number first, and behind its state either an
# exit code with its signal, or nothing where the state is of several words.
_EVENT = re.compile(r"(?:^|\s)(?:Normal|Warning)\s+(?P<state>[A-Z][a-z]+(?:[A-Z][A-Za-z]*)*)\s+(?:\d|<|\w+/)")
_ROW = re.compile(
    r"^\s*(?P<job>[1-9]\d*)(?:[_+]\d+)?(?:\.\w+)?[\s|]+(?:[^\s|]+[\s|]+){0,16}?"
    r"(?:(?P<state>[A-Z_]{6,13})\+?(?: by \d+)?[\s|]+\d+:\d+\b|(?P<state_2>[A-Z]{2,12}(?:_[A-Z]{2,12}){1,4})\s*$"
    r"|\((?P<state_3>[A-Z]\w+)\)\s*$)"
)
# A pod's record gives this for a reason whatever it was evicted for: that stands in its message.
_BARE, _MESSAGE = re.compile(r"\b[Rr]eason[\"']?:\s*[\"']?Evicted\b"), re.compile(r"\s*[\"']?[Mm]essage[\"']?:\s")
_BARE_EVENT = re.compile(r"^\s*Warning\s+Evicted\s")
# The message of a record that says beside it that the job failed: of what, the record is about. The answer of a tool
# has a status, a pod a phase.
_SAID = re.compile(r"^\s*(?:- )?[\"']?message[\"']?:\s+[\"']?(?P<said>\S[^\n]{2,300}?)[\"',]*$")
_FAILED = re.compile(r"^\s*(?:- )?[\"']?phase[\"']?:\s+[\"']?(?:Failed|Error)[\"',]*$")
# A line that explains what a state means, and how many of them, each of another state, are a list.
_EXPLAINED = re.compile(
    r"^\W{0,4}(?:[A-Z]{1,3} +)?(?!(?:DEBUG|INFO|NOTE|WARN|WARNING|ERROR|FATAL|CRITICAL|SUCCESS)\b)"
    r"(?P<state>[A-Z_]{4,40}):?\s+[A-Za-z][a-z]* [a-z]"
)
_LIST = 3
# What a scheduler says of a job that it had taken off its machine for a while.
_WENT_ON = re.compile(r"\b[Jj]ob (?:was |has been |is )?(?:reconnected|unsuspended|resumed|released|recovered)\b")
# What a record holds of a job that came to its end.
_SUCCESS = re.compile(r"(?i)exit_?code[\"']?\s*[:=]\s*[\"']?0\b|\bSUCCEEDED\b")
_FAILURE = re.compile(r"(?i)exit_?code[\"']?\s*[:=]\s*[\"']?-?[1-9]|\bFAILED\b")
# What a service's client raises of the job that it waited for.
_RECORDED = r"(?:\w{0,12}job|ray job|jobset|podgroup|workload|trial|experiment|allocation)"
_RAISED = re.compile(rf"\b{_RECORDED}\b.{{0,80}}\bfailed\b|\bfailed\b.{{0,80}}\b{_RECORDED}\b", re.IGNORECASE)
_RAISED_FIELD = re.compile(r"\s*(?:message|reason|error|details?)\W", re.IGNORECASE)


@cache
def _vocabulary() -> dict[str, Why]:
    """What the schedulers' own words tell. A reason of other words is somebody else's: RewardTimeout."""
    return {spelled(word): Why(why) for word, why in job_states().items()}


@lru_cache(maxsize=64)
def _named(line: str) -> frozenset[Why]:
    """What the reasons say that a line names."""
    found = (one for form in (_FIELD, _STATE, _ERROR, _EVENT, _ROW, _POD) for one in form.finditer(line, 0, 1000))
    names = (next(value for key, value in one.groupdict().items() if value and key != "job") for one in found)
    named = set[Why]()
    if _BARE_EVENT.search(line) and (why := cause(spelled(unsigned(line)))) is not None:
        named.add(why)
    else:
        known = _vocabulary()
        named |= {known[word] for name in names if (word := spelled(name)) in known}
    told = (cause(spelled(one["state"])) for one in _REASON.finditer(line, 0, 1000))
    return frozenset(named | {why for why in told if why is not None})


def _of_a_job(event: LogEvent) -> bool:
    """Whether a line is no exception's, or one of those in which a service's client raises how its job ended."""
    if event.exception is None:
        return True
    message = event.exception.message
    own = _RAISED_FIELD.match(event.line) is not None or event.line.endswith(message.split("\n", 1)[0])
    return own and _RAISED.search(message, 0, 300) is not None


def one_of_several(event: LogEvent) -> bool:
    """Whether a row of a table of jobs has others beside it: which of them is this run's nobody said."""
    for form in (_ROW, _POD):
        row = form.match(event.line)
        beside = (form.match(line) for line in (*event.before, *event.after)) if row is not None else ()
        if row is not None and any(other is not None and other["job"] != row["job"] for other in beside):
            return True
    return False


def explains_reasons(event: LogEvent) -> bool:
    """Whether the lines around it are a list of states and what they mean, and not what happened to a job."""
    lines = map(_EXPLAINED.match, (*event.before, event.line, *event.after))
    return len({match["state"] for match in lines if match is not None}) >= _LIST


def alone(event: LogEvent) -> bool:
    """Whether no line beside it names another reason: a state that says nothing but that a job failed has one."""
    return not any(_named(line) - {Why.FAILED} for line in (*event.before, *event.after))


def _in_a_failed_record(event: LogEvent) -> Why | None:
    """Why, as the line says, the job failed whose record it is in; None where it is no such line."""
    said = _SAID.match(event.line)
    if said is None or not any(map(_FAILED.match, (*event.before[-3:], *event.after[:3]))):
        return None
    return cause(spelled(said["said"])) or Why.FAILED


def ended_well(event: LogEvent) -> bool:
    """Whether what a record of a job says beside the line is that it succeeded: ECS gives a reason for that, too."""
    record = "\n".join((*event.before[-5:], event.line, *event.after[:5]))
    return _SUCCESS.search(record) is not None and _FAILURE.search(record) is None


def tells(why: Why) -> Callable[[Case, LogEvent], bool]:
    """For ``when=`` of a signature: whether a line says that this ended a job that was sound until then."""

    def condition(case: Case, event: LogEvent) -> bool:
        named = _named(event.line) if not is_of_a_tool(event.line) else frozenset()
        told = why in named
        if event.outside and not named:
            told = (_in_a_failed_record(event) or ended(event.line)) is why
        # What a launcher tells of its child is an end of its own; a limit of memory may stand beside it.
        if (
            event.outside
            and why is not Why.MEMORY
            and any(
                one.line == event.number and one is not event.run.root and spelled(one.type) not in _vocabulary()
                for one in event.run.failures
            )
        ):
            return False
        if not (told and _of_a_job(event)):
            return False
        if _BARE.search(event.line) and any(_MESSAGE.match(line) for line in (*event.before[-3:], *event.after[:3])):
            return False
        went_on = given_back(event) or any(_WENT_ON.search(line) for line in event.after)
        if went_on or one_of_several(event) or explains_reasons(event) or not cut_short(case, event):
            return False
        # Of a step of which a task has ended the rest is ended by whoever runs it.
        return why is not Why.ASKED or no_task_ended_before(case, event)

    return condition
