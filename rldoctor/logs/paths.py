"""What the path of a log file says about the process that wrote it."""

from __future__ import annotations

import re

from rldoctor.logs.model import Origin

# Tried in order on the path relative to the folder that was named.
_PATTERNS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(p, re.IGNORECASE)
    for p in (
        # torchrun --log-dir: <run>/attempt_<n>/<local rank>/stderr.log
        r"attempt_\d+/(?P<rank>\d+)/(?:std(?:out|err)\.log|error\.json)$",
        r"(?:^|[^a-z])(?:global_?)?rank[_=.-]?(?P<rank>\d+)(?!\d)",
        # Ray session: logs/worker-<worker id>-<job id>-<pid>.err, logs/python-core-worker-<id>_<pid>.log
        r"(?P<actor>worker)-[0-9a-f]{20,}-[0-9a-f]+-(?P<pid>\d+)\.(?:out|err)$",
        r"python-core-(?P<actor>worker|driver)-[0-9a-f]+_(?P<pid>\d+)\.log",
        r"(?:^|/)(?P<actor>raylet|gcs_server|monitor|dashboard|log_monitor|job-driver)(?:[._-]|$)",
        # Slurm's %j_%t, job%j-%2t and %j_%N_%t; slurm-%A_%a, its default for arrays, counts jobs and no ranks.
        r"(?:^|/)(?!20\d{6}_)(?:job[_-]?)?\d{3,}(?:[_-][a-z][\w.]*)?[_-](?P<rank>\d{1,3})\.(?:log|out|err|txt)$",
        # A bare number of four digits and more is the job's (%j.out).
        r"(?:^|/)(?P<rank>\d{1,3})\.(?:log|out|err|txt)(?:\.\w+)?$",
        r"(?:^|/)(?:log|stdout|stderr|worker|proc|process|gpu|task)[_.-]?(?P<rank>\d{1,4})\.(?:log|out|err|txt)(?:\.\w+)?$",
        r"(?:^|/)(?P<rank>\d{1,4})/(?:std(?:out|err)|log|output)[^/]*$",
    )
)
_NODE = re.compile(r"(?:^|[/_.-])(?P<node>(?:node|host)[_-]?\d+)(?=[/_.-]|$)", re.IGNORECASE)


def origin_of(path: str) -> Origin:
    """Rank, actor, process and node as the file's name tells; an empty :class:`Origin` where it does not."""
    node = _NODE.search(path)
    for pattern in _PATTERNS:
        if (match := pattern.search(path)) is not None:
            parts = match.groupdict()
            rank = parts.get("rank")
            return Origin(
                rank=str(int(rank)) if rank else None,
                actor=parts.get("actor"),
                pid=parts.get("pid"),
                node=node["node"] if node else None,
            )
    return Origin(node=node["node"] if node else None)
