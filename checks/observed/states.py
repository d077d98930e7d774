"""What ended a job, in the words that schedulers and clouds share.

Each has reasons and events of its own, and new ones come with every release; but all of them name a reason in one of
few forms (a field, an event of Kubernetes, a row of a table of jobs, a sentence about a job or a machine), and the
words that a reason is made of are nearly the same: ``DeadlineExceeded``, ``TIMEOUT``, ``JOB_STATE_EXPIRED``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from rldoctor.api import Case, LogEvent

from .endings import cut_short

_MACHINE = r"(?:node|host|machine|instance|vm|server|agent|droplet|slave)"
# What a scheduler alone has; a run, a task or a container others have as well.
_RECORDED = r"(?:\w{0,12}job|ray job|jobset|podgroup|workload|trial|experiment|allocation)"
_JOB = rf"(?:{_RECORDED}|pod|task|replica|container|run|step|{_MACHINE})"
# Whose it is may stand between: "Node gpu-7 (a3-high) was preempted".
_NAME = r"(?:/[\w.-]{1,80})?(?:'?s)?(?: [\w./:@()'\"-]{1,80}){0,4}?"
_BE = r"(?: (?:was|were|is|are|has been|have been|got|gets|being|is being|will be|had been|became))?(?: \w+ly)?"
# Who says so of a job begins with it.
_BEGINS = rf"(?:^\W{{0,3}}|[\]:;|>.] [\"']?|-- |\d:\d\d(?:[.,]\d+)? )(?:the )?{_RECORDED}"
_LIMIT = r"(?:time ?limit|wall ?(?:clock ?)?time|deadline|time-?out|\w*DeadlineSeconds|max\w* (?:run ?time|duration))"
# One form for every reason: a job, or what runs one, was ended, and behind it why. What a job ran in has many names.
_ENDED = (
    *("shut down", "put to sleep", "torn down", "taken down", "paused", "suspended", "stopped", "terminated"),
    *("disconnected", "deallocated", "replaced", "interrupted", "killed", "cancelled", "requeued"),
)
_PLACE = rf"(?:{_RECORDED}|pod|{_MACHINE}|session|notebook|studio)"


def _ended_for(reason: str) -> str:
    """A sentence that tells that something was ended for this reason. It begins the line, where a run's own logger puts
    its level: what a run ends itself (sessions of a tool, jobs of a loader) it says there."""
    return (
        rf"^\W{{0,3}}(?:(?:the|your) )?{_PLACE}{_NAME}{_BE} (?:{'|'.join(_ENDED)})\b.{{0,40}}?"
        rf"(?::| (?:because|since|as|due to|owing to|after|by|for)\b).{{1,60}}?\b(?:{reason})\b"
    )


_BROKEN = r"(?:failed|lost|dead|unreachable|unhealthy)"


@dataclass(frozen=True)
class Why:
    """One thing that ends a job: ``words`` are an expression over the words of a reason (``node fail``), ``sentences``
    over a line, ``literals`` what one of them has."""

    words: str
    literals: tuple[str, ...]
    sentences: tuple[str, ...] = ()


# Where a reason stands, and what a row of a table of jobs says.
_FORMS = (
    *("reason: ", "Reason: ", 'reason":', "Reason'", 'Reason"', "reason=", "Reason=", "Error Code", "errorCode"),
    *("error_code", "JobState", "job_state", "Job_id=", "Status:", "Phase: ", "jobStatus", "JOB_STATE_", "(status: "),
    *("Normal  ", "Warning  ", "Terminated (", "Failed (", "Stopped (", "Interrupted (", "Aborted (", "Killed ("),
    *('"EventType"', " (ip: "),
)

NOT_READY = Why(
    r"\bpods ready time ?out\b|\b(?<!by )no (?:resource|capacity)\b|\b(?:insufficient capacity|capacity error)\b",
    (*_FORMS, "_NO_RESOURCE", "insufficient in ", "quota limits", "nable to provision ", " unschedulable"),
    (
        r"\bresources are insufficient\b|\bunable to provision\b|\btasks in gang unschedulable\b",
        r"\bexceed(?:s|ed)? (?:the )?(?:\w+ )?quota limits?\b",
    ),
)
START = Why(
    r"\b(?:unexpected admission|prolog|launch) (?:error|fail\w+)\b",
    (*_FORMS, "rolog launch fail", "rolog failed"),
    (r"\bprolog (?:launch )?fail(?:ed|ure)\b",),
)
IMAGE = Why(
    r"\b(?:cannot|err(?:or)?|failed) (?:to )?(?:pull|image)\b|\bimage pull (?:fail|error|back)",
    (*_FORMS, "pull access denied", "manifest unknown", " to pull image"),
    (r"\bpull access denied\b|\bmanifest unknown\b|\b(?:failed|unable) to pull image [\"']",),
)
MEMORY = Why(
    # Of CUDA there is an OutOfMemoryError.
    r"\b(?:oom|out of mem(?:ory)?(?! error)|out of me|mem(?:ory)? ?limit)\b",
    (
        *(*_FORMS, "OUT_OF_ME", "memory usage", "memory limits", "out of memory", "OOM Killed", "OOM-Killed"),
        *("OOM killer", "oom-kill", "with more memory"),
        "more memory than ",
    ),
    (
        r"\b(?:container|pod|runner|task|job)\b[^.]{0,60}\b(?:killed|failed|terminated)\b[^.]{0,40}"
        r"(?:\bmemory (?:usage|limit)|(?<!cuda )\bout of memory)\b",
        r"\boom[ -]?killed\b",
        r"\btried to (?:allocate|use) more memory than (?:is|was) (?:available|allowed)\b",
        r"\brunning beyond (?:physical|virtual) memory limits\b",
        r"\bof this unit (?:has been|was) killed by the oom killer\b",
        r"\bfailed with result \W?oom-kill\b|\binstance type with more memory\b",
    ),
)
PREEMPTED = Why(
    r"\b(?:preempt\w*|evict\w*|spot|reclaim\w*|interrupt(?:ed|ion))\b",
    (
        *(
            *_FORMS,
            "PREEMPTED",
            "preempted",
            "Preempted",
            "Preempt scheduled",
            "evicted",
            "Evicted",
            "Evict pod",
            "Evicting pod",
            "reclaimed",
            "interrupted",
        ),
        *("Interrupted", "interruption", "Interruption", " preemption", " eviction", " outbid", "s.preempted"),
        *("reclaiming ", "cheduled event: "),
    ),
    (
        rf"\b{_JOB}{_NAME}{_BE} (?:preempted|evicted|reclaimed|interrupted)\b",
        r"\b(?:preempted|evicted) (?:to|by|because|due|for|in order|from) |\bevict(?:ed|ing)? pod\b",
        r"\bpreempted jobid=\d",
        r"\bdue to (?:\w+ )?(?:preemption|eviction|interruption)\b|\boutbid\b|\binstances\.preempted\b",
        r"\b(?:spot|preemptible)(?: \w+)? (?:interruption|termination|preemption|eviction)\b",
        r"\bpreempt(?:ion)? scheduled\b|\bscheduled event: preempt\b|\breclaim(?:s|ing) (?:\w+ ){0,2}instances?\b",
        r"\bspot \w+ (?:was|were|has been|got) (?:reclaimed|interrupted|preempted|taken back)\b",
    ),
)
MACHINE = Why(
    rf"\b(?:{_MACHINE}|boot|hardware) (?:\w+ )?(?:fail\w*|lost|errors?|unreachable|terminat\w+|down|unhealthy|dead)\b"
    r"|\btask lost\b",
    (
        *(*_FORMS, "NODE_FAIL", "BOOT_FAIL", "(NodeDown)", " terminated", " disconnected", " drained", "deallocated"),
        *(
            " node ",
            "* node",
            " host ",
            "execution host",
            "decommissioned",
            " cordoned",
            " rebooted",
            " unreachable",
            "not responding",
        ),
        *(" health check", " failure", "node-failure", " maintenance", "deleting pod for node"),
        *("The system is going down for ", "The system will ", "lost contact with ", "unheard timeout"),
        *(" dead because ", "Kernel panic - "),
        *(" closed by remote host", "ssh exited with exit code", "heartbeat from ", "shutting down because "),
        *_ENDED,
    ),
    (
        rf"\b{_MACHINE}{_NAME}{_BE} (?:lost|disconnected|drained|deallocated|decommissioned|cordoned|rebooted|"
        r"unreachable|failed (?:\w+ )?health checks?)\b",
        # An agent is also what plays an episode.
        rf"\b(?!agent){_MACHINE}{_NAME}{_BE} terminated\b",
        rf"\b(?:execution|compute|worker) (?:node|host){_NAME}{_BE} down\b",
        rf"\b(?:on|for|from|of|to) (?:an? )?\W?{_BROKEN}\W? (?:node|host)\b|\bfailure of (?:the )?(?:node|host)\b",
        r"\bnode[ -]failure on [\w.-]|\bunable to reach (?:the )?execution (?:node|host)\b",
        # One ping that has no answer says nothing yet.
        r"\bnodes? [\w.,\[\]-]{1,200} (?:(?:is|are) )?not responding\b(?! (?:to|within|yet)\b)",
        rf"\bdue to (?:\w+ )?(?:maintenance|(?:{_MACHINE}|hardware) failure)\b|\bdeleting pod for node\b",
        r"\bthe system (?:is going down for|will (?:power off|reboot|halt)) ",
        rf"\b(?!agent){_MACHINE}{_NAME}{_BE} dead because (?!of\b)|\bkernel panic - not syncing\b",
        _ended_for(r"drain(?:ed|ing)|upgrad\w+|maintenance|temperature|health checks?|heartbeats?|reboot\w*|hardware"),
        rf"\bno heartbeat from (?:\w+ )?{_MACHINE}\b.{{1,60}}\b(?:tear|end|kill|abort|cancel|stopp|restart)ing\b",
        r"\bshutting down (?:because|due to|after|since)\b.{1,60}\b(?:temperature|power|battery|maintenance)\b",
        r"\(rank \d+\) has disconnected unexpectedly\b|\bunheard timeout\b.{1,80}\bhost\b",
        rf"\blost contact with (?:the )?(?:raylet|job shell|broker|worker|{_MACHINE})\b",
        r"\bconnection to \S+ closed by remote host\b|\bssh exited with exit code 255\b",
    ),
)
TIME = Why(
    r"\b(?:time ?out|timed out|(?:time|run) ?limit|deadline(?: exceeded)?|wall ?time|expired)\b"
    r"|\b(?:time|duration) exceeded\b",
    (
        *_FORMS,
        "TIMEOUT",
        "DEADLINE",
        "exceeded",
        " passed ",
        " reached",
        "timed out",
        "with result 'timeout'",
        " timeout [",
        "exhausted",
        *_ENDED,
    ),
    (
        _ended_for(
            rf"{_LIMIT}|(?:machine|session|hours?) limit|limit of \d+ ?(?:hours?|h|minutes?|min)"
            r"|\d+ (?:hours?|minutes?) of use|reservation (?:expire[sd]?|end(?:s|ed)?)"
        ),
        rf"^\W{{0,3}}{_RECORDED}\b.{{1,80}}\bexceeded (?:the |its )?{_LIMIT}\b",
        rf"{_BEGINS}{_NAME} (?:has |have )?(?:exceeded|passed|reached|hit) (?:\w+ ){{0,2}}{_LIMIT}\b",
        rf"{_BEGINS}{_NAME}{_BE} timed out\b",
        rf"\b{_LIMIT} (?:limit )?(?:exceeded|reached|expired)\b.{{0,20}}\b(?:kill|terminat|cancel|abort)\w* (?:the )?"
        r"job\b",
        rf"\b{_RECORDED}{_NAME}{_BE} (?:killed|terminated|cancell?ed|aborted)\W{{1,3}}(?:\w+ )?"
        rf"{_LIMIT} (?:exceeded|reached)\b",
        r"\bfailed with result \W?timeout\b",
        # Slurm's controller, and systemd of a unit.
        rf"(?:^|\] |: ){_LIMIT} exhausted for job|: service reached (?:\w+ )?{_LIMIT}\b",
        # Flyte: "task execution timeout [24h0m0s] expired"
        rf"\b{_JOB}(?: \w+)? timeout \[[\d.hms]+\] expired\b",
    ),
)
AGAIN = Why(r"\b(?:max(?:imum)? (?:restarts|retries)|(?:backoff|retry|restart|requeuing) limit)\b", _FORMS)
CANCELLED = Why(
    r"\b(?:cancell?ed|cancelling|stopped|revoked|aborted|deleted)\b",
    (
        *(
            *_FORMS,
            "cancelled",
            "canceled",
            " suspended",
            "CANCELLED",
            "REVOKED",
            "stopped",
            "revoked",
            "deleted",
            "requeued",
        ),
        *_ENDED,
        *(" terminated", " aborted", " killed", "externally set to ", "USER ABORTED", "User aborted", "> requested by"),
        "pod deleted",
    ),
    (
        _ended_for(r"quota|credits?|balance|budget|billing|licen[cs]es?|credentials?"),
        rf"\b{_JOB} (?:cancell?ed|stopped|killed|aborted): (?:user|admin\w*)(?:'s)? request\b",
        rf"{_BEGINS}{_NAME} (?:was|has been|got|is being) (?:\w+ly )?(?:cancell?ed|stopped|deleted|revoked|"
        r"requeued|terminated|aborted|killed)\b",
        rf"\b{_RECORDED}(?: [\w./:@()'\"-]{{1,80}})? (?:cancell?ed|stopped|deleted|requeued|terminated|killed) by \S",
        rf"{_BEGINS}{_NAME} (?:is|was|has been) suspended\W{{0,2}}$",
        rf"{_BEGINS} requeued\b|(?:{_BEGINS}|\btraining job) (?:cancell?ed|stopped|aborted)\W{{0,2}}$",
        rf"\b{_JOB} (?:is|was|has been) (?:cancell?ed|stopped|killed) by (?:user|admin\w*)\b",
        # Airflow, of a task that somebody marked.
        r"\bstate of this instance has been externally set to (?!success)\w",
        r"\bmessage: \W?pod deleted\b|\buser aborted\b|\bsignal <(?:KILL|TERM|INT)> requested by\b",
    ),
)
# Last: why it failed nobody says there.
FAILED = Why(r"^(?:(?:mpi|py|torch|tf|ray|train|jax) )*(?:job |task |pod )?failed$", _FORMS)
# A reason of several words is what the first of these makes it: pods that are not ready in time are evicted for that.
_EACH = (NOT_READY, IMAGE, START, MEMORY, PREEMPTED, MACHINE, TIME, AGAIN, CANCELLED, FAILED)

_RUN_TOGETHER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_-]+")
_KEY = r"(?i:reason|state|status|phase|condition|error ?code|stop ?code)"
_WHOSE = r"(?i:(?:\w+[_ -])?(?:job|task|trial|deployment|termination|stopped|failure|exit|node|current)[_ -]?)?"
# A record of a job names its reason, or its state, in letters that no sentence has: several words run together.
# DEADLINE_EXCEEDED is what any server of gRPC answers.
_FIELD = re.compile(
    rf"(?:^|[\s,;{{\[(\"'|]){_WHOSE}{_KEY}(?:[\"']?\s{{0,20}}[:=]\s{{0,40}}[\"']?| )(?!DEADLINE_E)"
    r"(?P<state>[A-Z][a-z0-9]+(?:[A-Z]+[a-z0-9]*)+|[A-Z]{2,}[a-z]\w+|[A-Z]+(?:_[A-Z]+)+)\b"
)
# One word alone is a state of many things: here it is a job's.
_STATE = re.compile(
    r"\b(?i:job[ _]?(?:state|status))[\"']?\s{0,20}[:=]\s{0,40}[\"']?(?:JOB_STATE_)?(?P<state>[A-Z]{6,20})\b"
    r"|\bJOB_STATE_(?P<state_2>[A-Z_]{6,40})\b"
    r"|\b[Jj]ob .{1,80}\(status: (?P<state_3>[A-Z_]{6,40})\)"
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
# A pod in a list of pods.
_POD = re.compile(r"^\s*(?P<job>[\w.-]+)\s+\d+/\d+\s+(?P<state>[A-Z]\w{5,40})\s+\d+(?: \(\S+ ago\))?\s+\d+[smhd]")
# The same two columns of an event; a row of a table of jobs has the job's number first, and behind its state either an
# exit code with its signal, or nothing where the state is of several words.
_EVENT = re.compile(r"(?:^|\s)(?:Normal|Warning)\s+(?P<state>[A-Z][a-z]+(?:[A-Z][A-Za-z]*)*)\s+(?:\d|<|\w+/)")
_ROW = re.compile(
    r"^\s*(?P<job>\d+)(?:[_+]\d+)?(?:\.\w+)?[\s|]+(?:[^\s|]+[\s|]+){0,16}?"
    r"(?:(?P<state>[A-Z_]{6,13})\+?(?: by \d+)?[\s|]+\d+:\d+\b|(?P<state_2>[A-Z]{2,12}(?:_[A-Z]{2,12}){1,4})\s*$"
    r"|\((?P<state_3>[A-Z]\w+)\)\s*$)"
)
# A reason of other words is somebody else's: RewardTimeout.
_WORDS = re.compile(
    r"(?:(?:job|job ?set|pods?|node|host|instance|agent(?! time)|machine|vm|container|replica|system|user|process"
    r"|mpi|py|torch|tf|ray|train|jax|check|unexpected|admission|prolog|launch|image|pull|cannot|err|start|requeuing"
    r"|scheduler|queue|workload|inactive|execution|cluster|api|pool|taint|manager|controller|evicted|eviction|spot"
    r"|reclaimed|preempt(?:ed|ing|ion)?|interrupt(?:ed|ion)|task|duration|due|to|by|of|in|the|no|not|on|out|ready"
    r"|time|time ?out|timed|deadline|exceed(?:ed|s)|limit|max(?:imum)?|run|wait|run ?time|wall|wall ?time|reach(?:ed)?"
    r"|passed|restarts?|backoff|retries|retry|oom|mem(?:ory)?|me|kill(?:ed)?|terminat(?:e|ed|ion)|fail(?:ed|ures?)?|error"
    r"|lost|unreachable|boot|hardware|unhealthy|down|dead|shutdown|cancell?ed|cancelling|stopped|revoked|aborted"
    r"|deleted|deletion|requeued|resources?|insufficient|capacity|expired|maintenance|state|status)(?: |$))+"
)

# What a service's client raises of the job that it waited for.
_RAISED = re.compile(rf"\b{_RECORDED}\b.{{0,80}}\bfailed\b|\bfailed\b.{{0,80}}\b{_RECORDED}\b", re.IGNORECASE)
_RAISED_FIELD = re.compile(r"\s*(?:message|reason|error|details?)\W", re.IGNORECASE)
_CLAUSES = re.compile(r"[:;.] ")
# What a trainer does with its rollouts, or their tools; a job may be named after them: grpo-rollout.
_OF_A_ROLLOUT = (
    rf"(?<![\w./-])(?:rollouts?(?! {_MACHINE}| pod)|sandbox\w*|reward\w*|trajector\w+|episodes?|env(?:ironment)?s?"
    r"|(?:\w+_)?weights?|refit|generation|tools?|eval(?:uation)?s?)(?![\w./-])"
)
# Advice, a policy, a count of none, what the engine does to its own requests, what a process says of itself, what is
# waited for, the nodes of a tree or graph, and a trial that the search over parameters gives up.
_OTHERWISE = re.compile(
    r"\b(?:if|when|whenever|unless|until|in case|may|might|can(?!'t)|could|would|should|never|without)\b"
    r"|(?<![\w./\"-])0 \w"
    r"|\bnot(?! responding| syncing)\b|\bno(?! longer| replacement| heartbeat)\b"
    r"|\b(?:requests?|sequence|seq_?group|cache|block|prefix|kv|lora|adapter|swap|thread|keyboard)\b"
    r"|\b(?<!by )user\b(?!::| aborted| or admin| request)"
    r"|\b(?:idle|config|policy|enabled?|disabled?|support\w*|handler|--\w+)\b"
    r"|\b(?:poll\w*|watch(?:er|es|ing)|listen\w*|simulat\w+|tree|graph|leaf|depth)\b"
    r"|\b(?:asha|hyperband|bohb|pbt|optuna|search\w*|prun(?:ed|er|ing)|early|median|plateau|stopp(?:er|ing))\b"
    rf"|{_OF_A_ROLLOUT}",
    re.IGNORECASE,
)
_OF_A_TOOL = re.compile(rf"{_OF_A_ROLLOUT}|\bswe(?:[-_]?bench)?[-_]", re.IGNORECASE)
# Who tells it went on, or tells of an earlier run.
_GOES_ON = re.compile(
    r"\b(?:(?<!be )resum(?:ing|ed)|earlier (?:attempt|run|job)|retry(?:ing)?|re-?connect\w*|restor(?:ing|ed)"
    r"|falling back|cached|previous(?:ly)?"
    r"|(?:hours?|days?|weeks?|months?|years?) ago|yesterday|last (?:night|week|month))\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=64)
def _named(line: str) -> frozenset[Why | None]:
    """What the reasons say that a line names."""
    found = (one for form in (_FIELD, _STATE, _EVENT, _ROW, _POD) for one in form.finditer(line, 0, 1000))
    names = (next(value for key, value in one.groupdict().items() if value and key != "job") for one in found)
    spelled = (_RUN_TOGETHER.sub(" ", name).lower() for name in names)
    reasons = [reason for reason in spelled if _WORDS.fullmatch(reason)]
    return frozenset(next((why for why in _EACH if re.search(why.words, reason)), None) for reason in reasons)


def is_of_a_tool(line: str) -> bool:
    """Whether a line speaks of what a rollout runs (a sandbox, a tool, an environment), and not of the job."""
    return _OF_A_TOOL.search(line, 0, 1000) is not None


def _of_a_job(event: LogEvent) -> bool:
    """Whether a line is no exception's, or one of those in which a service's client raises how its job ended."""
    if event.exception is None:
        return True
    message = event.exception.message
    own = _RAISED_FIELD.match(event.line) is not None or event.line.endswith(message.split("\n", 1)[0])
    return own and _RAISED.search(message, 0, 300) is not None


# An inventory says it, too, of a node without a job.
_OUT_OF_SERVICE = re.compile(r"\b(?:is|are) (?:now )?(?:drained|cordoned)\b", re.IGNORECASE)


def _only_word_of_an_end(event: LogEvent) -> bool:
    """Whether nothing else tells how the run ended, where a line gives a machine's state and no event."""
    ended = event.run.root is not None or event.run.departed
    return not ended or _OUT_OF_SERVICE.search(event.line, 0, 1000) is None


def _word_end(line: str, at: int) -> int:
    """Where the word ends that ``at`` is in."""
    while at < len(line) and line[at].isalnum():
        at += 1
    return at


def one_of_several(event: LogEvent) -> bool:
    """Whether a row of a table of jobs has others beside it: which of them is this run's nobody said."""
    for form in (_ROW, _POD):
        row = form.match(event.line)
        beside = (form.match(line) for line in (*event.before, *event.after)) if row is not None else ()
        if row is not None and any(other is not None and other["job"] != row["job"] for other in beside):
            return True
    return False


def tells(why: Why) -> Callable[[Case, LogEvent], bool]:
    """For ``when=`` of a signature: whether a line says that this ended a job that was sound until then."""
    sentences = re.compile("|".join(why.sentences) or r"(?!)", re.IGNORECASE)

    def told(line: str) -> bool:
        if why in _named(line):
            return True
        said = sentences.search(line, 0, 1000)
        if said is None or is_of_a_tool(line) or _GOES_ON.search(line, 0, 1000) is not None or line.endswith("?"):
            return False
        clause = max(0, said.start() - 80, *(one.end() for one in _CLAUSES.finditer(line, 0, said.end())))
        behind = _CLAUSES.search(line, said.end(), said.end() + 20)
        end = _word_end(line, said.end() + 20) if behind is None else behind.start()
        return _OTHERWISE.search(line, clause, end) is None

    def condition(case: Case, event: LogEvent) -> bool:
        if not (_of_a_job(event) and told(event.line) and _only_word_of_an_end(event)):
            return False
        return not one_of_several(event) and cut_short(case, event)

    return condition
