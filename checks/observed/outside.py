"""What others say of a run that they ended: a scheduler, a cloud, the kernel, a person.

Where the run is over, a line that it did not write itself (:attr:`LogEvent.outside`) needs no form that is known: it
names what ran, and a verb of ending. The run's own words for its tools and servers are others."""

from __future__ import annotations

import re
from functools import lru_cache

from rldoctor.api.logs import is_signed

from .causes import MACHINES, SOMEBODY, Why, cause, spelled

# What somebody else ends, and what a run has of its own as well.
_JOBS = (
    *(
        r"\w*job",
        "job ?set",
        "pod(?: ?group)?",
        "namespace",
        "work ?load",
        "allocation",
        "reservation",
        "notebook",
        "studio",
        "work ?space",
    ),
    *("run ?time", "kernel", "cluster", "experiment", "trial", "app", "runner", "container", "replica"),
)
_OWN = ("training", "session", "task", "run", "step", "service", "system", "agent", "client", "link", "connection")
_OTHERS = ("account", "provider", "broker", "daemon", "resources", r"[\w@-]{1,60}\.service")
_ENDED = (
    *("killed", "terminated", "s?cancell?ed", "stopped", "aborted", "shut ?down", "torn down", "taken down"),
    *("removed", "deleted", "destroyed", "requeued", "suspended", "paused", "revoked", "deactivated", "disconnected"),
    *("interrupted", "logged (?:out|off)", "lost", "gone"),
)
# With a subject that only others end: whatever tells that it stopped, and why it had to.
_ENDING = (
    *("ended", "exited", "kill(?:ing|s)?", "terminat(?:e|ing|es|ion)", "s?cancel(?:ling|lation)", "stop(?:ping|s)"),
    *("aborting", "die[ds]?", "shut(?:s|ting) ?down", r"tearing (?:\S+ ){0,2}down"),
    *(r"t(?:ak(?:en|es|ing)|ook) (?:\S+ ){0,2}(?:away|back|out)", "removing", "deleti(?:ng|on)", "requeu(?:ing|e)"),
    *("re-?schedul(?:ed|ing)", "suspending", "pausing", "dead", "deallocat(?:ed|ing)", "decommission(?:ed|ing)"),
    *("revoking", "restart(?:ed|ing)", "reboot(?:ed|ing|s)", "power(?:ed|ing) (?:off|down)"),
    *("evict(?:ed|ing|s|ion)?", "pre ?empt(?:ed|ing|s|ion)?", "reclaim(?:ed|ing|s)?", "outbid"),
    *("interrupt(?:ion|ing)", "drain(?:ed|ing)", "cordon(?:ed|ing)", "expire[ds]", "timed ?-?out", "exceed(?:ed|s)"),
    *("exhausted", "unreachable", "unresponsive", "non[ -]?responsive", "not (?:responding|ready)", "offline"),
    *("fail(?:ed|ure|ing)", "down", "crash(?:ed|es)", "replace(?:d|ment)", "kicked", "disconnects", "bumped"),
    *("hibernated", "put (?:to sleep|back)", "undergoing", "unhealthy", "unavail", "unschedulable"),
    *("ran out", "used up", "beyond", "oom", "vanished", "marked", "f[ae]ll(?:en)? off", "closed"),
    *("withdrawn", "zombie", "fenced", "tainted", "unheard", "displaced", "disrupt(?:ed|ing)", "migrated"),
    *("panic(?:ked)?", "insufficient", "no longer", "warning received", "reclamation notice"),
)
_ADJECTIVE = (
    r"(?:(?:training|trainer|train|batch|ray|mpi|slurm|custom|spot|py ?torch|compute|gpu|remote|worker|head|service) )?"
)
_JOB = rf"(?:{'|'.join((*_JOBS, MACHINES))})"


def _words(*known: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(known)})(?!\w)")


_SUBJECT, _OWN_SUBJECT = _words(_JOB, *_OTHERS), _words(*_OWN)
_VERB, _HARD_VERB = (
    _words(*_ENDED, *_ENDING),
    _words(*_ENDED, "exceeded", "timed ?-?out", "closed", "evicted", "going down", "execution time ?out"),
)
_SOMEBODY = _words(*SOMEBODY)
# A noun that a line begins with is a title: "preemption-safe checkpoints".
_LEADS = re.compile(
    rf"^(?!(?:\S+: )?\w+[ts]ion\b)(?:\S+: |\[\w+\] )?\W{{0,3}}(?:\S*\d\S* (?:has |was |is |had )?)?"
    rf"(?:{'|'.join((*_ENDED, *_ENDING))})(?!\w)"
)
# What is at its limit was ended for it.
_AT_A_LIMIT = _words("hit (?:its|the|a)", "reached", "passed", "ran past", "is up")
# Where nothing says why, the clause is about the job: it was ended, or somebody ends it. Between the two stands a name.
_PLAIN = re.compile(
    rf"(?:^|[\]:;>.,-] |\d )\W{{0,3}}(?:(?:the|your|this) )?{_ADJECTIVE}(?:{_JOB}|run)\b"
    r"(?:(?: \S*[^\s\w]\S*| \S*\d\S*){0,4} |(?: \S+){0,4} (?:(?:was|is|has been|got|being|has) )(?:being )?)"
    rf"(?:\w+ly )?(?:{'|'.join(_ENDED)})\b"
    rf"|(?:{_JOB}|run)(?: \S+){{0,2}} (?:{'|'.join(_ENDED)}) by |(?:{_JOB}) (?:die|stop|kill)\b"
    rf"|\b(?:kill|cancel|terminat|delet|abort|stopp|evict|requeu)(?:e|ing)? (?:(?:the|your|this|its) )?{_ADJECTIVE}"
    rf"(?!container|app){_JOB}\b|(?:^|\]: )(?:stopped|stopping) [\w@-]{{1,60}}\.service\b"
)
# A row of several columns is an inventory's.
_COLUMNS = re.compile(r"\S {3,}\S|\S {2,}\S.* {2,}\S")
# What a run does with its rollouts, or their tools; a job may be named after them: grpo-rollout.
_OF_A_TOOL = re.compile(
    r"(?<![\w./-])(?:rollouts?(?! (?:node|host|machine|pod))|sandbox\w*|reward\w*|trajector\w+|episodes?"
    r"|env(?:ironment)?s?|(?:\w+_)?weights?|refit|generation|tools?|eval(?:uation)?s?)(?![\w/-])|\bswe(?:[-_]?bench)?[-_]",
    re.IGNORECASE,
)
# And with its engine and its data.
_OF_THE_RUN = re.compile(
    r"(?<![\w./-])(?:samples?|prompts?|completions?|responses?|(?<!on )(?<!at )(?<!its )(?<!user )(?<!admin )requests?"
    r"|agent loop|judge\w*|verif\w+|grader|browser|data ?loader|shards?|benchmark|curriculum|profiler|kv|blocks?"
    r"|threads?|sequences?|cache|lora|adapter|graph|tree|(?:v?llm|engine|inference|model) (?:instance|server|worker)s?)"
    r"(?![\w/-])",
    re.IGNORECASE,
)
# Advice, a policy, what may come, what went on, what was long ago, who asks, a search that gives its trials up.
_OTHERWISE = re.compile(
    r"\b(?:if|when|whenever|unless|until|in case|may|might|would|should|never|false|simulat\w+|echo)\b"
    r"|\bretr(?:y|ying|ies)\b(?! limit)|(?<![\w./\"-])0 \w|^\s*\w+=\S*$|\?(?:\s|$)|\(\d+ of \d+\)|\bidle termination\b"
    r"|\(idle\)"
    r"|\bwill be (?:down|offline)\b"
    r"|\b(?:jobs|instances|pods|runs|containers)\b[^.]{0,40} are (?!being|now)"
    r"|\b(?<!be )(?<!auto-)(?:resuming|resumed|earlier (?:attempt|run|job)|reconnect(?:ed|ing)|restor(?:ing|ed)"
    r"|falling back|cached|previous(?:ly)?|(?:hours?|days?|weeks?|months?|years?) ago|yesterday"
    r"|last (?:night|week|month))\b"
    r"|\b(?:asha|hyperband|bohb|pbt|optuna|search\w*|prun(?:ed|er|ing)|early stop\w*|median|plateau)\b"
    r"|\b(?:cuda|gpu|hbm) (?:out of )?memory\b|\b(?:poll\w*|watch(?:er|es|ing)|handler|installed)\b",
    re.IGNORECASE,
)
_LONGEST = 600


def is_of_a_tool(line: str) -> bool:
    """Whether a line speaks of what a rollout runs (a sandbox, a tool, an environment), and not of the job."""
    return _OF_A_TOOL.search(line, 0, 1000) is not None


@lru_cache(maxsize=256)
def ended(line: str) -> Why | None:
    """Why, as a line that others wrote tells, a run was ended; None where it tells of no end."""
    line = line[:_LONGEST]
    if any(other.search(line) for other in (_OTHERWISE, _OF_A_TOOL, _OF_THE_RUN)):
        return None
    words = spelled(line).strip()
    begun = is_signed(line) or _LEADS.match(words) is not None
    if _COLUMNS.search(line) and not begun:
        return None
    told = _VERB.search(words) and (begun or _SUBJECT.search(words))
    limited = _AT_A_LIMIT.search(words) is not None and _SUBJECT.search(words) is not None
    if limited and cause(words) in (Why.TIME, Why.QUOTA, Why.MEMORY):
        return cause(words)
    if told or (_OWN_SUBJECT.search(words) and _HARD_VERB.search(words)):
        known = cause(words)
        if known not in (None, Why.ASKED, Why.FAILED) or _SOMEBODY.search(words):
            return known
    return Why.ASKED if _PLAIN.search(words) else None
