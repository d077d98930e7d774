"""On which node a run ended, and in which attempt, in the words of those who ended or started it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rldoctor.expressions import expression
from rldoctor.logs.reveals import Reveal, reveal
from rldoctor.logs.runs import Slice
from rldoctor.records import dataclass

NODE, ATTEMPT, RUN = "node", "attempt", "run"
CANCELLED = " CANCELLED AT "


def _node(literal: str, pattern: str) -> Reveal:
    return reveal(literal, pattern, NODE)


def _attempt(literal: str, pattern: str) -> Reveal:
    return reveal(literal, pattern, ATTEMPT)


def _run(literal: str, pattern: str) -> Reveal:
    """Of what counts the runs of a job: the first is 1, and started again it has been once less."""
    return reveal(literal, pattern, RUN)


_TASKS_END = (
    "Exited with exit code",
    "Killed",
    "Segmentation fault",
    "Bus error",
    "Aborted",
    "Illegal instruction",
    "Floating point exception",
)

# Slurm: slurmstepd's, srun's and slurmctld's own lines, scontrol; torch/distributed/elastic; Ray's GCS; reports of LSF
# and Grid Engine; `kubectl describe` and the scheduler's events; Volcano, JobSet, Determined, AWS Batch. What says most
# of who failed comes first.
PLACES: tuple[Reveal, ...] = (
    # Several nodes are one list.
    _node("Node failure on ", r"Node failure on ([\w.-]+(?:\[[\d,-]+\])?)"),
    _node("node failure on ", r"\bnode failure on ([\w.-]+)"),
    _node(" failure of node ", r"\bdue to failure of node ([\w.-]+)"),
    _node(" not responding", r"\b[Nn]odes? ([\w.-]+) (?:(?:is|are) )?not responding\b"),
    _node(
        "has been marked dead because", r"(?:\band node name|\band address|\band ip): ([\w.-]+) has been marked dead"
    ),
    _node("Memory on the node (IP: ", r"Memory on the node \(IP: ([\d.]+), ID: "),
    _node(" failed on node ", r" failed on node ([\w.-]+):"),
    _node(": Out Of Memory", r"srun: error: ([\w.-]+): tasks? [\d,-]+: Out Of Memory"),
    _node("requested job terminate", r"job killed: node \d+ \(([\w.-]+)\) requested job terminate"),
    _node("Preempted by ", r"\bPreempted by .{1,200}? on node ([\w.-]+)"),
    _node(CANCELLED, r"\*\*\* (?:JOB|STEP) \S+(?: \(\d+\))? ON ([\w.-]+) CANCELLED AT "),
    _node(" *** on ", r" CANCELLED AT .{10,80}\*\*\* on ([\w.-]+)"),
    _node(" FAILED (non-zero exit", r"\*\*\* (?:JOB|STEP) \S+ ON ([\w.-]+) FAILED \("),
    _node(" on host ", r"\brank \d+ on host ([\w.-]+) (?:failed|exited|terminated)\b"),
    _node(" on host: ", r"\bContainer \S+ on host: ([\w.-]+)\. Exit status"),
    _node("noticed that process rank ", r" with PID \d+ on node ([\w.-]+) exited on"),
    _node(" RUNNING AT ", r"\bPID \d+ RUNNING AT ([\w.-]+)"),
    _node("Remote daemon: ", r"Remote daemon: \S+ on node ([\w.-]+)"),
    _node("Error from slot", r"Error from slot\w+@([\w.-]+): "),
    _node("reconnect to slot", r"reconnect to slot\w+@([\w.-]+)"),
    _node("The replica ", r"The replica ([\w-]+) (?:exited|ran out-of-memory and exited) with a non-zero status of "),
    _node(" Host   ", r"^ Host {2,}= ([\w.-]+)$"),
    _node("executed on host(s) <", r"executed on host\(s\) <(?:\d+\*)?([\w.-]+)>"),
    _node("ssh: connect to host ", r"\bssh: connect to host ([\w.-]+) port \d"),
    _node("node name = ", r"\bnode name = ([\w.-]+)"),
    _node('"nodes": "', r"\"nodes\": \"([\w.-]+)\""),
    _node(" execution point slot", r" at execution point slot\w*@([\w.-]+)\. "),
    _node(" on Host(s) <", r"\bon Host\(s\) <(?:\d+\*)?([\w.-]+)>"),
    _node(": Started on <", r": Started on <(?:\d+\*)?([\w.-]+)>"),
    _node("Node:  ", r"^Node: {2,}([\w.-]+)(?:/|$)"),
    _node("Successfully assigned ", r"Successfully assigned \S+ to ([\w.-]+)"),
    _node("host      : ", r"^\s*host {6}: ([\w.-]+)"),
    _node("Evicted ", r"\bkubelet, ([\w.-]+) +(?:The node|Pod|Container|Usage of) "),
    _node(" Evicted ", r"\bEvicted +([\w.-]+) +(?:Pod )?The node (?:was low|had condition)"),
    _node("Exec host:", r"^Exec host: +([\w.-]+)"),
    _node("exec_host = ", r"^\s*exec_host = ([\w.-]+)/"),
    *(_node(name, rf"(?<!\w){name}[\"']?: [\"']?([\w.-]+)[\"']?(?:[,}}]|$)") for name in ("nodeName", "node_name")),
    _node("ip: ", r"^\s+ip: ([\d.]*\d)$"),
    _node(" reason set to: ", r"\bnode ([\w.-]+) reason set to: (?:Prolog|Epilog|Not responding|Kill task failed)"),
    _node(": this job is ", r"Caught signal SIG\w+ on ([\w.-]+): this job is "),
    _node("slurmstepd-", r"^slurmstepd-([\w.-]+): error: "),
    _node("Broadcast message from ", r"^Broadcast message from \S+@([\w.-]+)"),
    _node("] started on <", r"\] started on <(?:\d+\*)?([\w.-]+)>"),
    _node("hostname   ", r"^hostname {2,}([\w.-]+)$"),
    _node("|execd|", r"\|execd\|([\w.-]+)\|[A-Z]\|"),
    *(
        _node(
            f" {name} ",
            rf"\b(?:execution|compute|worker) {name} ([\w.-]+) (?:is |went |has )?(?:down|failed|lost|dead)\b",
        )
        for name in ("node", "host")
    ),
    # Slurm, Airflow and Jenkins, as a job begins. A run says of itself that it is running on cuda0.
    _node("sched: Allocate ", r"\bAllocate JobId=\S+ NodeList=([\w.-]+) "),
    _node("Running ", r"\bRunning (?:<.{1,300}> on host |on (?=\S{1,250} in /))([A-Za-z][\w.-]*\d[\w.-]*)"),
    # The first task that srun tells of was the first to end.
    *(_node(f": {end}", rf"^srun: error: ([\w.-]+): tasks? [\d,-]+: {end}") for end in _TASKS_END),
    _attempt("restart_count", r"\brestart_count[\"']?(?:=|: )(\d{1,6})\b"),
    _attempt("SLURM_RESTART_COUNT=", r"\bSLURM_RESTART_COUNT=(\d{1,6})\b"),
    _attempt("restartCount", r"^\s*(?:- )?\"?restartCount\"?: (\d{1,6}),?$"),
    _attempt("Restart Count:", r"^\s*Restart Count: +(\d{1,6})\b"),
    _attempt("Restarts:  ", r"^\s*Restarts: +(\d{1,6})$"),
    _attempt(" Restarts=", r"\bRequeue=\d Restarts=(\d{1,6})\b"),
    _attempt("Retry Count:", r"^\s*Retry Count: +(\d{1,6})$"),
    _attempt("Exceeded allowed attempts ", r"\bExceeded allowed attempts (\d{1,6}) in interval "),
    _attempt("restarting: ", r"\brestarting: (\d{1,6})/\d{1,6}$"),
    _run("AWS_BATCH_JOB_ATTEMPT=", r"\bAWS_BATCH_JOB_ATTEMPT=([1-9]\d{0,5})\b"),
    # OpenPBS and HTCondor.
    _run("run_count = ", r"^\s*run_count = ([1-9]\d{0,5})$"),
    *(_run(name, rf"^\s*{name} = ([1-9]\d{{0,5}})$") for name in ("NumJobStarts", "NumShadowStarts")),
    # The agent says so before it counts down: the first time all of them are left.
    _attempt(" attempts left; will restart", r"Worker group \w+\. (\d{1,6}/\d{1,6}) attempts left; will restart"),
)
# What stands for a node's name: a word with letters and digits, or of several parts.
NAME = r"(?P<node>(?=\w*[\d.-])[A-Za-z][\w.-]{0,250}\w\b|\d{1,3}(?:\.\d{1,3}){3})"
_OF_A_MACHINE = (
    r"(?:node|host|client|machine|instance|server|broker|agent|vm|exec(?:ution)?[ _]host)(?:_?name|s|\(s\))?"
)
# What else something happens on: rank-0, epoch-3, cuda-12.4, A100-SXM4-80GB.
_NO_NODE = r"(?!(?:rank|epoch|step|cuda|device)[-_.]?\d|[a-z]\d{2,3}-(?:sxm|pcie|\d+gb))"
# Where a line that tells of an end names the node, and the attempt: what says most comes first.
_NODES = tuple(
    expression(pattern)
    for pattern in (
        r"^\w{3} +\d+ [\d:]{8} (?P<node>[\w.-]{2,250}) [\w.-]+(?:\[\d+\])?: ",
        r"(?i:\binstance(?:[-_ ]?id)?\b)[\"'\s:=(]{1,4}(?P<node>i-[0-9a-f]{6,17})\b",
        rf"(?<!pulling from )(?i:\b{_OF_A_MACHINE})(?:[\"']?[:=]\s?|\s)[\[<(\"']{{0,2}}{NAME}"
        r"(?![\w.-]| (?:phase|message)\b)",
        # Not the pod of a namespace, nor a folder or an image; behind a zone it is Google's name of a machine.
        rf"(?:(?<=\w-[a-z]/)instances|(?i:(?<![\w./-]){_OF_A_MACHINE}))/{NAME}(?![\w./-])",
        rf"\brunner:? {NAME} ",
        rf"(?i:\bresources?[\"']?:\s?\[[\"']){NAME}",
        rf"(?i:\bip)(?:[:=] ?){NAME}",
        rf"\bslot\w*@{NAME}",
        # Grid Engine's daemons.
        rf"^[\d/]{{8,10}} [\d:]{{8}}\|[ \w]{{1,20}}\|{NAME}\|[CEWNI]\|",
        rf"\bqueue \W?[\w.-]+@{NAME}",
        rf"^\s*[\w.-]+\s+\d+/\d+\s+[A-Z]\w+\s+\d+(?: \(\S+ ago\))?\s+\w+\s+[\d.]+\s+{NAME}",
        rf"\b[Cc]onnection to {NAME} closed\b",
        rf"^\S{{1,80}}@\S{{1,80}}: {NAME}: ",
        rf"\b[Nn]ode is not ready: {NAME}",
        rf"(?i:\b(?:contact|connection|communication|heartbeat) (?:with|to|from) ){NAME}",
        rf"^(?:\[\w+\] )?{NAME}:? (?:has |was |is |had )?(?:lost|went|crashed|rebooted|died|shut(?:ting)? down)\b",
        rf"{NAME} \(rank \d+\)",
        # PALS, Jenkins.
        rf"^{NAME}: rank \d+ (?:died|exited)",
        rf"\b[Cc](?:annot|ould not) (?:contact|connect to) {NAME}(?::|$| )",
        rf"^{NAME} was (?:marked|taken) offline\b",
        rf"(?i:\bon {_NO_NODE}){NAME}(?![\w.-])",
    )
)
# Who only tells of others: "the node 'a' has observed that the node(s) 'b' have been removed".
_TELLS = expression(r"^.{0,200}? (?:has |have )?(?:observed|noticed|detected|found|reported) that ")
# torchrun's agents are called after their host, a process and a number.
_HOST_OF_AN_AGENT = expression(r"_\d{1,9}_\d{1,4}$")
_ATTEMPT = expression(
    # The first attempt is no restart.
    r"\b(?i:attempt|try)[ :=#]{1,3}(?P<run>[1-9]\d{0,3})(?:/| of )\d"
    r"|\b(?i:attempt|restart|retry|try)(?:[ :=#]{1,3}(?=\d+(?:/| of )\d)|[ _](?:count|number)[ :=#]{1,3})"
    r"(?P<again>\d{1,4})\b"
    # In a list of pods.
    r"|^\s*[\w.-]+\s+\d+/\d+\s+[A-Z]\w+\s+(?P<listed>\d{1,4})(?: \(\S+ ago\))?\s+\d+[smhd]\b"
)
_OF_TASKS = frozenset(reveal.pattern for reveal in PLACES if reveal.literal.removeprefix(": ") in _TASKS_END)
_ENDED = next(number for number, reveal in enumerate(PLACES) if reveal.literal == CANCELLED)
# Slurm cancels the step of a task that ended, on a node of its choice; and what it cancels ends then.
_BEFORE_CANCELLED, _AFTER = _ENDED - 0.5, float(len(PLACES))
_ORDER = {reveal.pattern: number for number, reveal in enumerate(PLACES)}


@dataclass(frozen=True)
class Place:
    """A node that was named, and where."""

    node: str
    source: str
    line: int


def node_and_attempt(pieces: Sequence[Slice]) -> tuple[Place | None, int | None]:
    """The node on which a run ended, None where nobody names it, and how often it had been started again before."""
    nodes: list[tuple[float, Place]] = []
    tasks = _BEFORE_CANCELLED
    attempt: int | None = None
    for piece in pieces:
        for number, matched, value in piece.record.places:
            if number > piece.last:
                break
            if matched.what == RUN:
                attempt = int(value) - 1
            elif matched.what == ATTEMPT:
                left, _, most = value.partition("/")
                attempt = int(most) - int(left) + 1 if most else int(value)
            elif number >= piece.first:
                order = _ORDER[matched.pattern]
                tasks = _AFTER if order == _ENDED else tasks
                named = Place(value, piece.record.name, number)
                nodes.append((tasks if matched.pattern in _OF_TASKS else order, named))
    first = min((order for order, _ in nodes), default=None)
    places = {named.node: named for order, named in reversed(nodes) if order == first}
    # Several may be named by one summary: whose failure was the first, its end says.
    in_order = list(reversed(places.values()))
    return (in_order[0 if first in (_BEFORE_CANCELLED, _AFTER) else -1] if in_order else None), attempt


def told_of(lines: Iterable[str]) -> tuple[str | None, int | None]:
    """The node and the attempt that lines name which tell of an end."""
    texts = [_TELLS.sub("", line[:1000]) for line in lines]
    nodes = (found["node"] for text in texts for pattern in _NODES if (found := pattern.search(text)) is not None)
    told = (found for text in texts if (found := _ATTEMPT.search(text)) is not None)
    attempts = (int(found["run"]) - 1 if found["run"] else int(found["again"] or found["listed"]) for found in told)
    return _HOST_OF_AN_AGENT.sub("", next(nodes, "")) or None, next(attempts, None)
