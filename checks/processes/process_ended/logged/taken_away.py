"""A job, a pod or a machine that was taken away, in words that schedulers and clouds share (RLD603).

Each has events of its own, and new ones come with every release; the sentence behind them is nearly one: what it was
about, and that it was preempted, evicted, reclaimed, interrupted; of a machine also that it is gone."""

from __future__ import annotations

import re

from rldoctor.api import Case, Fix, LogEvent

from ....observed.endings import cut_short
from .. import check
from ..fixes import RESUME

_MACHINE = r"(?:node|host|machine|instance|vm|server|agent|droplet|slave)"
_JOB = rf"(?:job|jobset|pod|podgroup|workload|task|trial|experiment|allocation|replica|container|run|step|{_MACHINE})"
# Whose it is may stand between: "Node gpu-7 (a3-high) was preempted".
_NAME = r"(?:'?s)?(?: [\w./:@()'\"-]{1,80}){0,4}?"
_BE = r"(?: (?:was|were|is|are|has been|have been|got|gets|being|is being|will be|had been))?(?: \w+ly)?"
_SENTENCES = (
    rf"\b{_JOB}{_NAME}{_BE} (?:preempted|evicted|reclaimed|interrupted)\b",
    rf"\b{_MACHINE}{_NAME}{_BE} (?:terminated|lost|disconnected|drained|deallocated|decommissioned|cordoned|rebooted|"
    r"unreachable|failed health checks?)\b",
    r"\b(?:preempted|evicted) (?:to|by|because|due|for|in order|from) |\bevicted pod\b|\bdeleting pod for node\b",
    r"\bdue to (?:\w+ )?(?:preemption|eviction|interruption|maintenance)\b|\boutbid\b",
    r"\bthe system (?:is going down for|will (?:power off|reboot|halt)) ",
    r"\b(?:spot|preemptible)(?: \w+)? (?:interruption|termination|preemption|eviction)\b",
)
_SAYS_SO = re.compile("|".join(_SENTENCES), re.IGNORECASE)
# Advice, a policy, a count of none, what the engine does to its own requests, and what a process says of itself.
_OTHERWISE = re.compile(
    r"\b(?:if|when|whenever|unless|until|in case|may|might|can|could|would|should|not|no|never|without|0)\b"
    r"|\b(?:requests?|sequence|seq_?group|cache|block|prefix|kv|lora|adapter|swap|thread|user|keyboard)\b"
    r"|\b(?:config|policy|enabled?|disabled?|support\w*|handler|--\w+)\b",
    re.IGNORECASE,
)


def _taken_away(case: Case, event: LogEvent) -> bool:
    said = _SAYS_SO.search(event.line, 0, 1000) if event.exception is None else None
    if said is None or _OTHERWISE.search(event.line, max(0, said.start() - 80), said.end() + 20) is not None:
        return False
    return cut_short(case, event)


check.signature(
    "preempted",
    "Preempted",
    "evicted",
    "Evicted",
    "reclaimed",
    "interrupted",
    "Interrupted",
    "interruption",
    " terminated",
    " disconnected",
    " drained",
    "deallocated",
    "decommissioned",
    " cordoned",
    " rebooted",
    " unreachable",
    "failed health check",
    " preemption",
    " eviction",
    " maintenance",
    " outbid ",
    "deleting pod for node",
    "The system is going down for ",
    "The system will ",
    when=_taken_away,
    says="whoever runs the job took it, or a machine of it, away: {line}",
    fixes=(RESUME, Fix(title="see what the scheduler or the cloud recorded of the job and its machines")),
    silent=True,
    general=True,
    url="https://docs.ray.io/en/latest/ray-core/fault_tolerance/nodes.html",
)
