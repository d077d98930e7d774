"""What others say of a run that they ended: a scheduler, a cloud, the kernel, a person.

Where the run is over, a line that it did not write itself (:attr:`LogEvent.outside`) needs no form that is known: it
names what ran, and a verb of ending. The run's own words for its tools and servers are others."""

from __future__ import annotations

import re
from functools import lru_cache

from rldoctor.api.logs import is_event, is_signed, unsigned

from .causes import MACHINES, SOMEBODY, Why, cause, spelled

# What somebody else ends, and what a run has of its own as well.
_JOBS = (
    *(
        r"\w*job",
        "job ?set",
        "pod(?: ?group)?",
        "namespace",
        "work ?load",
        "alloc(?:ation)?",
        "reservation",
        "notebook",
        "studio",
        "workflow",
        "(?:pipeline|task) run",
        "work ?space",
    ),
    *("run ?time", "kernel", "cluster", "experiment", "app", "runner", "container"),
)
_OWN = (
    *("training", "session", "task", "run", "step", "service", "system", "agent", "client", "link", "connection"),
    *("replica", "trial"),
)
# What a run has and starts itself, too: where nothing says why, only its number tells it from others'.
_EITHER = ("run ?time", "kernel", "cluster", "app", "runner", "container", "reservation")
_OTHERS = ("account", "provider", "broker", "daemon", "resources", "queued resource", r"[\w@-]{1,60}\.service")
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
    *("evict(?:ed|ing|s|ion)?", "pre[ -]?empt(?:ed|ing|s|ion)?", "reclaim(?:ed|ing|s)?", "outbid"),
    *("interrupt(?:ion|ing)", "drain(?:ed|ing)", "cordon(?:ed|ing)", "expired", "timed ?-?out", "exceed(?:ed|s)"),
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
_OF_OTHERS = rf"(?:{'|'.join((*(job for job in _JOBS if job not in _EITHER), MACHINES))})"


def _words(*known: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(known)})(?!\w)")


# What is of a node, watches one, or is counted in nodes, is none.
_SUBJECT = _words(
    rf"(?:{'|'.join((_JOB, *_OTHERS))})(?![ -](?:local|wide|level|specific|hours?|agent|monitor|exporter)\b)"
)
_OWN_SUBJECT = _words(*_OWN)
_VERB, _HARD_VERB = (
    _words(*_ENDED, *_ENDING),
    _words(
        *(*_ENDED, "exceeded", "timed ?-?out", "closed", "evicted", "going down", "execution time ?out"),
        "(?:power off|reboot|halt) now",
    ),
)
_SOMEBODY = _words(*SOMEBODY)
# A noun that a line begins with is a title: "preemption-safe checkpoints"; what somebody does is done to a thing, which
# is named behind it: "removing network".
_LEADS = re.compile(
    r"^(?!(?:\S+: )?(?:\w+[ts]ion\b|(?!shutting|powering)\w+ing (?!(?:[^.]{1,60} )?(?:because|due)\b|after|for|on)))"
    r"(?:\S+: |\[\w+\] )?\W{0,3}(?:\S*\d\S* (?:has |was |is |had )?)?"
    rf"(?:{'|'.join((*_ENDED, *_ENDING))})(?!\w)"
)
# What is at its limit was ended for it.
_AT_A_LIMIT = _words("hit (?:its|the|a)", "reached", "passed", "ran past", "is up")
# Of a machine's services, those that may have been the run.
_TRAINS = r"(?:train|[gp]rpo|ppo|dpo|sft|rlhf|(?<![a-z])rl(?![a-z])|llm|ray|slurm|job|run(?![a-z])|notebook|jupyter)"
# Where nothing says why, the clause is about the job: it was ended, or somebody ends it. Between the two stands a name.
_NAME = r" \S*[^\s\w]\S*| \S*\d\S*"
_PLAIN = re.compile(
    rf"(?:^|[\]:;>.,-] |\d )\W{{0,3}}(?:(?:the|your|this) )?{_ADJECTIVE}"
    rf"(?:(?:{_OF_OTHERS}|run)\b(?:{_NAME}){{0,4}} |(?!container){_JOB}\b(?:{_NAME}){{1,4}} "
    rf"|(?:{_JOB}|run)\b(?: \S+){{0,4}} (?:(?:was|is|has been|got|being|has) )(?:being )?)"
    rf"(?:\w+ly )?(?:{'|'.join(_ENDED)})\b(?! (?:at|after) \S*\s?step)(?! after \d+ step)"
    r"|\brun ?time disconnected\b"
    # Servers and tools of a run are sent signals, too, and read their settings again at one.
    rf"|(?:^|[\]:;] )(?:(?:the )?(?:{_OF_OTHERS}(?:{_NAME})?|run|train(?:er|ing)|process|python|main) )?(?:has )?"
    r"received (?:a )?(?:signal )?sig(?:term|int|hup)\b(?!.*\b(?:re-?load|re-?read|re-?configur|restart))"
    rf"|(?:{_JOB}|run|replica|trial)(?: \S+){{0,2}} (?:{'|'.join(_ENDED)}) by |(?:{_JOB}) (?:die|stop|kill)\b"
    rf"|{_OF_OTHERS} sent signal sig|^aborted by (?!signal)\S+(?: \S+)?$"
    rf"|\b(?:has|have) (?:{'|'.join(_ENDED)}) (?:(?:the|your|this) )?{_ADJECTIVE}{_OF_OTHERS}\b"
    rf"|\b(?:kill|cancel|terminat|delet|abort|stopp|evict|requeu)(?:e|ing)? (?:(?:the|your|this|its) )?{_ADJECTIVE}"
    rf"{_OF_OTHERS}\b|(?:^|\]: )(?:stopped|stopping) (?=[^\n]*{_TRAINS})[\w@-]{{1,60}}\.service\b"
)
# A row of several columns is an inventory's.
_COLUMNS = re.compile(r"\S {3,}\S|\S {2,}\S.* {2,}\S")
# But for one of a journal, which says in its last column, in a sentence, what happened.
_LAST_COLUMN = re.compile(r" {2,}(\S+(?: \S+){2,12}\.)$")
# What a run does with its rollouts, or their tools; a job may be named after them: grpo-rollout. Its own are numbered.
_ALONE = r"(?!\w|[/-](?!\d+\b))"
_OF_A_TOOL = re.compile(
    r"(?<![\w./-])(?:rollouts?(?! (?:node|host|machine|pod))|code[-_ ]exec\w*|sandbox\w*|reward\w*"
    r"|trajector\w+|episodes?"
    rf"|env(?:ironment)?s?|(?:\w+_)?weights?|refit|generation|tools?|eval(?:uation)?s?){_ALONE}"
    r"|\bswe(?:[-_]?bench)?[-_]",
    re.IGNORECASE,
)
# And with its engine and its data, by jobs beside the training.
_OF_THE_RUN = re.compile(
    r"(?<![\w./-])(?:samples?|prompts?|completions?|responses?|(?<!on )(?<!at )(?<!its )(?<!user )(?<!admin )requests?"
    r"|agent loop|judge\w*|verif\w+|grader|browser|data ?loader|shards?|benchmark|curriculum|profiler|kv|blocks?"
    r"|threads?|turns?|sequences?|cache"
    r"|lora|adapter|graph|tree|(?:v?llm|engine|inference|model) (?:instance|server|worker)s?"
    r"|(?:apptainer|singularity) instances?"
    r"|(?:upload|checkpoint|conversion|export|background|sync|backup|clean-?up)(?:ing)? (?:job|task|process)"
    rf"|(?:job|run)(?:'s)? (?:output|scratch|files|data|director\w+)){_ALONE}",
    re.IGNORECASE,
)
# Lines in which a subject and a verb tell of no end.
_OTHERWISE = re.compile(
    # Advice, a policy, what may come, who asks.
    r"(?<![\w-])(?:if|when|whenever|unless|until|in case|may|might|would|should|(?:you|users?|it|they) can"
    r"|false|simulat\w+|echo|never(?! started))(?![\w-])"
    r"|\bretr(?:y|ying|ies)\b(?! limit)|^\s*\w+=\S*$"
    r"|^\s*\"?\w+\"?\s*[:=]\s*[\d.]+,?$|\?(?:\s|$)|\bwill be (?:down|offline)\b"
    r"|\b(?:jobs|instances|pods|runs|containers)\b[^.]{0,40} are (?!being|now)"
    # Ray's word for a node is judged by what else it tells.
    r"|\bhas been marked dead because the\b"
    # Nodes that nobody uses.
    r"|(?<![a-z])idle[ _]termination\b|\(idle\)|\bidle (?:\w+ )?nodes?\b|(?:\bnodes?\b(?: \S+)?|\bit) (?:is|was) idle\b"
    r"|\bscal\w+ (?:down|in|to)\b"
    # Nothing that went wrong, or nothing of several.
    r"|\b(?:ignor(?:es|ing)|attempting to|tolerant of|alarm)\b|^job terminated\.$|\b(?:normally|cleanly|to spare)\b"
    r"|\b(?:code|status)[ =:]*0\b|\bchecks? (?:is |are |was )?ok\b"
    r"|(?<![\w./\"-])0 \w|\w: (?:0|none)\b|\(\d+ of \d+\)"
    # What goes on, and what was long ago.
    r"|\b(?<!be )(?<!auto-)(?:resuming|resumed|earlier (?:attempt|run|job)|reconnect(?:ed|ing)|restor(?:ing|ed)"
    r"|falling back|cached|previous(?:ly)?|(?:\d+ ?[mhd]|hours?|days?|weeks?|months?|years?) ago|yesterday"
    r"|last (?:night|week|month)|(?:starting|continuing with) (?:run|job|task|trial))\b"
    # What a training, or a search over several, is judged by.
    r"|\b(?:kl|(?<!power )loss(?:es)?(?! of)|metric|accuracy|score|converged|diverged)\b"
    r"|\b(?:asha|hyperband|bohb|pbt|optuna|search\w*|hyper-?parameter|prun(?:ed|er|ing)|early stop\w*|median|plateau)\b"
    # A link that goes down comes up again; what was done for it is an end.
    r"|^(?!.*\b(?:jobs?|killed|cancell?ed|evict\w*|drain\w*|requeu\w*)\b).*\blink (?:is |went |state )?(?:down|up)\b"
    # Who only looks on, and a machine's own chores.
    r"|\b(?:cuda|gpu|hbm) (?:out of )?memory\b|\b(?:poll\w*|watch(?:er|es|ing)|(?<![\w-])(?<!health )monitor(?!:)"
    r"|handler|installed|(?:ana)?cron\w*|clean-?up:|teardown:)(?!\w)"
    # Who reports a run speaks of what is his own, and announcements are headed as such.
    r"|\b(?:my|our|i'm|i (?:am|use|set|have|had|tried|ran?|run|see|saw|get|got|think|checked|guess|waited"
    r"|restarted|rebooted)"
    r"|we (?:run|use|tried))\b|^(?:ps|p\.s\.|motd|message of the day|reminder|welcome|thanks|hi|hello)\b",
    re.IGNORECASE,
)
# What somebody says did not happen, where a verb alone would tell that it did.
_PAST = ("reached", "exceeded", "failed", "down", "evicted", "pre ?empted", "reclaimed")
_DENIED = re.compile(
    rf"(?:\b(?:not|never)|n't) (?:(?:be|been|even|ever|yet|go|get) )*(?:{'|'.join((*_ENDED, *_PAST))})(?!\w)"
    r"|\bfail(?:ed|s|ure)? to (?:be )?(?:kill|terminat|stop|cancel|evict|pre ?empt|abort|remov|delet)"
    r"|\bnot (?:kill|end|terminat|stopp?|cancell?|evict|abort|remov|delet)ing\b"
    r"|\b(?:is|was) not (?:an?|the) |\bnone (?:of \S+ (?:\S+ )?)?(?:was|were|is|are|has|failed)\b"
    rf"|\bno (?:\w+ )?(?:{_JOB}|oom|errors?|xids?|process(?:es)?|limit|time ?-?out)\b|\b(?:nobody|no one)\b"
)
# What a reader is told to do is no news: "Verify the machine is running", "Check if the run has failed".
_ADVICE = re.compile(
    r"(?<=[.!])\s+(?:check|verify|see|please|make sure|ensure|try|consider|contact|refer)\b[^.!]{0,300}[.!]?",
    re.IGNORECASE,
)
_LONGEST = 600
# A field of a record that is a sentence: ``Desired Description = alloc is lost since its node is down``.
_FIELD = re.compile(
    r"^\s*(?:- )?[\"']?(?:\w+[ _-]){0,2}(?:description|message|reason|details?|comment|cause|note|info)[\"']?\s*[:=]\s+"
    r"[\"']?(?=\w+ )",
    re.IGNORECASE,
)
# A sentence of its own speaks of something else, unless it gives the reason.
_SENTENCE = re.compile(r"(?<=[.!])\s+(?!(?:reason|cause|because|due|it|its|this|that|the (?:reason|cause))\b)")
# What merely ended tells its figures, too: they are no reasons.
_MERELY = re.compile(r"(?:ended|exited(?! with)|closed(?! by))\b")
_FIGURES = re.compile(r"[^,;()]*?:\s*\d[^,;()]*|[^,;:()]*\d[^,;:()]*")


def is_of_a_tool(line: str) -> bool:
    """Whether a line speaks of what a rollout runs (a sandbox, a tool, an environment), and not of the job."""
    return _OF_A_TOOL.search(line, 0, 1000) is not None


@lru_cache(maxsize=256)
def ended(line: str) -> Why | None:
    """Why, as a line that others wrote tells, a run was ended; None where it tells of no end."""
    said = _ADVICE.sub("", _FIELD.sub("", unsigned(line[:_LONGEST])))
    if any(other.search(said) for other in (_OTHERWISE, _OF_A_TOOL, _OF_THE_RUN)):
        return None
    words = spelled(said).strip()
    begun = (is_signed(line) and not is_event(line)) or _LEADS.match(words) is not None
    if _COLUMNS.search(said) and not begun:
        sentence = _LAST_COLUMN.search(words)
        if sentence is None:
            return None
        words = sentence[1]
    if _DENIED.search(words):
        return None
    told = next((why for part in _SENTENCE.split(words) if (why := _ended(part, begun)) is not None), None)
    # What had failed is ended by whoever runs it, too.
    return Why.FAILED if told is Why.ASKED and cause(words) is Why.FAILED else told


def _ended(words: str, begun: bool) -> Why | None:
    """Why one sentence says that a run was ended; ``begun`` tells that its line begins with who ended it, or how."""
    verbs = [match.start() for match in _VERB.finditer(words)]
    told = verbs and (begun or _SUBJECT.search(words))
    limited = _AT_A_LIMIT.search(words) is not None and _SUBJECT.search(words) is not None
    if limited and cause(words) in (Why.TIME, Why.QUOTA, Why.MEMORY):
        return cause(words)
    if told or (_OWN_SUBJECT.search(words) and _HARD_VERB.search(words)):
        merely = verbs and all(_MERELY.match(words, verb) for verb in verbs)
        known = cause(_FIGURES.sub("", words) if merely else words)
        if known not in (None, Why.ASKED, Why.FAILED) or _SOMEBODY.search(words):
            return known
    return Why.ASKED if _PLAIN.search(words) else None
