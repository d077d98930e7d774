"""Why jobs and machines are ended, in words that schedulers, clouds and people share.

One table serves all who speak: a reason in a field (``DeadlineExceeded``, ``NODE_FAIL``), a row of a table of jobs, and
a sentence of somebody who took the job away."""

from __future__ import annotations

import re
from enum import Enum


class Why(Enum):
    """One thing that ends a job."""

    PLACE = "place"  # what it asked for was not there in time
    IMAGE = "image"
    START = "start"
    MEMORY = "memory"
    QUOTA = "quota"  # a budget, a balance, a licence, a credential
    PREEMPTED = "preempted"
    TIME = "time"
    MACHINE = "machine"  # a node, its hardware, its network
    AGAIN = "again"  # it was started as often as it may be
    FAILED = "failed"  # by its own doing, nobody says which
    ASKED = "asked"  # by a person, a script, a policy, or nobody says by whom


MACHINES = r"(?:nodes?|hosts?|machines?|instances?|vms?|droplet|hypervisor)"
_BROKEN = "|".join(
    (
        *(
            r"fail\w*",
            "lost",
            "errors?",
            "unreachable",
            r"terminat\w+",
            "down",
            "unhealthy",
            "dead",
            "died",
            r"crash\w*",
        ),
        *(
            "offline",
            "unavail",
            r"disconnect\w*",
            r"vanish\w*",
            "gone",
            r"drain\w*",
            r"cordon\w*",
            r"decommission\w*",
        ),
        *(
            r"deallocat\w*",
            "restarted",
            "unresponsive",
            "not responding",
            "not ready",
            "unusable",
            "replaced",
            "exited",
        ),
        *(
            "no longer exists",
            "does not exist",
            "removed",
            "fenced",
            "tainted",
            "marked for replacement",
            r"recycl\w*",
            r"disappear\w*",
        ),
        *("reset", "shut ?down", "shutting down", r"power\w* (?:off|down)", "stopped"),
    )
)
_LONGEST = (
    r"max(?:imum)? ?(?:allowed |permitted |allotted )?(?:run|running|execution|wall|life)? ?-?"
    r"(?:time|duration|lifetime|runtime|age|hours)"
)
SOMEBODY = (
    r"externally (?:set|killed|terminated|marked)",
    r"by (?:the |a |an )?(?:\w+ )?(?:user|admin\w*|operator|owner|root)",
    *(r"user (?:abort|stop|cancel|interrupt|terminat|request)\w*", r"(?:on|at) (?:\w+ )?request", "by hand"),
    "manually",
    r"i (?:killed|stopped|cancell?ed|ended)",
    "(?:from|via|through) (?:the )?(?:web ?ui|ui|console|dashboard|portal|cli|api)",
)
"""Who says that a person did it."""

# What ends a job is what the first of these makes it: pods that are not ready in time are evicted for that, and what is
# said of a machine, or of a pod that is evicted, goes behind the reason for it.
_CAUSES: tuple[tuple[Why, tuple[str, ...]], ...] = (
    (Why.ASKED, SOMEBODY),
    (
        Why.PLACE,
        (
            *("pods ?ready time ?out", r"(?<!by )no (?:resources?|capacity)"),
            "insufficient (?:amount of )?(?:capacity|resources?)",
            *("(?:resource|service) limit", "capacity error", "resources are insufficient", "unable to provision"),
            "waiting (?:instance|runner) limit",
            *("gang unschedulable", r"exceed\w* (?:the )?(?:\w+ )?quota limits?"),
        ),
    ),
    (
        Why.IMAGE,
        (
            "(?:cannot|err(?:or)?|failed|unable) (?:to )?(?:pull|image)",
            *("image pull", "pull access denied", "manifest unknown"),
        ),
    ),
    (
        Why.START,
        (
            r"(?:unexpected admission|prolog(?: launch)?|launch|creating container|volume) (?:error|fail\w*)",
            *("failed to start", "too many failed attempts"),
        ),
    ),
    (
        Why.MEMORY,
        (
            # Of CUDA there is an OutOfMemoryError.
            *("oom", r"(?<!cuda )(?<!gpu )out of (?:\w+ )?mem(?:ory)?(?! error)", "out of me"),
            *(
                "mem(?:ory)? ?(?:usage|limits?|(?:resource )?pressure|hard limit)",
                r"(?:more|much|low on) (?:\w+ )?memory",
            ),
            *("(?:physical|virtual|host|resident|low) memory", "[sh][ _](?:rss|vmem)", "resource v?mem"),
        ),
    ),
    (
        Why.PREEMPTED,
        (
            *(r"pre ?-?empt\w*", r"reclaim\w*", "reclamation", "outbid", r"displac\w*", "bumped"),
            r"spot[ /](?:\w+ )?(?:instances?|vms?|machines?|nodes?|pods?|cluster|capacity|interrupt\w*|terminat\w*)",
            *("(?:higher|urgent|lower|low)[ -]?priority", "(?:taken|took|takes|taking) (?:it )?back"),
            *(r"wants? \w+ back", "(?:goes|went|going) back to"),
        ),
    ),
    (
        Why.QUOTA,
        (
            *(
                "quotas?",
                "credits?",
                "balance",
                "(?<!time )(?<!retry )(?<!recovery )budget",
                "billing",
                "payment",
                "funds",
                "licen[cs]es?",
                "credentials?",
            ),
            *("kerberos", "tickets?", "tokens? (?:has |is )?expired", "compute units", "used up", "gpu[ -]hours?"),
            "(?:spend(?:ing)?|cost) (?:limit|cap)",
        ),
    ),
    (
        Why.MACHINE,
        (
            *("hardware", "maintenance", "health ?checks?", "heart ?beats?", "temperature", r"overheat\w*", "thermal"),
            *(
                "(?:lost|no) power",
                "power (?:loss|supply|outage|failure|cut)",
                "network",
                "infiniband",
                "nvlink",
                "ecc",
            ),
            *("xid", "fallen off", "kernel panic", r"reboot\w*", "link (?:is )?down", r"upgrad\w+", r"drain\w*"),
            *("(?:lost|losing|no) (?:its )?(?:contact|connection|communication|track)", "unheard", "scheduled event"),
            *(r"boot fail\w*", r"agent fail\w*", "ttl expired", "non[ -]?responsive", "zombie", "system shutdown"),
        ),
    ),
    (
        Why.TIME,
        (
            *(
                "time ?-?outs?",
                "timed ?-?out(?! waiting)",
                "deadline",
                "wall ?-?(?:clock ?)?time",
                "expire[sd]?",
                "expiry",
                "max run",
            ),
            "(?:time|run|session|machine|lifetime|hours?|duration|wall ?clock) ?limits?",
            *(
                _LONGEST,
                "(?:time|duration|runtime) exceeded",
                "execution time",
                "time budget",
                "(?:allowed|execute|execution|job) (?:\\w+ )?duration",
                "hours? of use",
                "h_rt",
            ),
            *(
                "session (?:length|duration)",
                "failed to (?:finish|complete|end) (?:with)?in",
                r"limit of \d+ ?(?:hours?|h|minutes?|min|days?)",
                "time (?:is|was) (?:up|over)",
            ),
            *("(?:allotted|requested) time", "end of (?:the |its )?(?:reservation|window|slot|lease)"),
            *(r"reservation (?:\S+ )?(?:expire[sd]?|end(?:s|ed)?|is over)", "(?:ran|running|run) (?:for )?too long"),
        ),
    ),
    (
        Why.MACHINE,
        (
            rf"{MACHINES}\b.{{0,80}}?\b(?:{_BROKEN})",
            rf"(?:{_BROKEN})\W{{1,2}}(?:of )?(?:the |an? )?{MACHINES}",
            *("task lost", "marking it lost", "ssh exited"),
            # Whoever leaves a machine closes it, too.
            r"connection (?:to \S+ )?(?:closed by (?:the )?(?:remote|peer)|reset|lost)",
            *(r"lost (?:\w+ )?of its", r"system (?:is going down|will|is \w+ing down)"),
            *("(?:disconnected|lost|gone) from (?:the )?(?:master|server|controller|cluster)", "went not ready"),
            *(
                r"agent (?:\S+-\S+ (?:disconnected|lost)|(?:running it )?(?:was|is) lost|closed with|died)",
                rf"missing from (?:\w+ )?{MACHINES}",
            ),
            "stopped (?:answering|sending|responding)",
        ),
    ),
    (Why.PREEMPTED, (r"evict\w*", "(?<!kernel )interrupt(?:ed|ion)")),
    (
        Why.AGAIN,
        (
            r"max(?:imum)? (?:number of )?(?:[\w-]+ )?(?:restarts?|retries)",
            "(?:exceeded|exhausted) (?:the |its |all )?(?:allowed )?(?:attempts|retries)",
            "no (?:more )?(?:attempts|retries|restarts) left",
            "(?:backoff|retry|restart|requeuing) limit",
            "(?:retry|recovery) budget",
        ),
    ),
    (
        Why.FAILED,
        (
            r"\A(?:\w+ ){0,4}(?:failed|failure)\Z",
            r"(?:exited|terminated) with (?:an? )?(?:error|(?:exit )?code [1-9])",
            "non-?zero (?:exit|return|status)",
            "essential container in task exited",
        ),
    ),
    (
        Why.ASKED,
        (
            *(
                r"cancel\w*",
                "stopped",
                "stopping",
                "deactivated",
                "revoked",
                "aborted",
                "deleted",
                "removed",
                "suspended",
                "user",
            ),
            *(
                r"(?:terminated|ended) (?:by|due to)",
                r"admin\w*",
                "operator",
                "owner",
                "idle",
                r"signal (?:1|2|9|15)",
                "sig(?:hup|int|kill|term)",
            ),
        ),
    ),
)
_TABLE = tuple((why, re.compile(rf"(?<![\w.])(?:{'|'.join(words)})(?!\w)")) for why, words in _CAUSES)
# "evicted due to the stopped queue", "killed because its lease expired"
_REASON = re.compile(r"\b(?:due to|because(?: of)?) ")
_RUN_TOGETHER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+")


def spelled(text: str) -> str:
    """The words of a text, in small letters, as a sentence has them: ``DeadlineExceeded`` is ``deadline exceeded``."""
    return _RUN_TOGETHER.sub(" ", text).lower()


def cause(words: str) -> Why | None:
    """Why something ended, as far as these words (:func:`spelled`) tell: where they name a reason it is that."""
    reason = _REASON.search(words)
    told = None if reason is None else _known(words[reason.end() :])
    return told or _known(words)


def _known(words: str) -> Why | None:
    return next((why for why, known in _TABLE if known.search(words)), None)
