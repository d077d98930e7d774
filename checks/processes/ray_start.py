"""Ray itself does not start on a node.

What it looks for
    In a log: a raylet that did not come up within the time limit, a socket path that is too long, an instance that
    runs already at the address, processes of Ray that ended while it started.

Why it hurts
    Nothing of the training has begun. The driver's traceback ends in Ray's own code and names no reason.

How sure it is
    That Ray did not start is its own word. Why stands in ``raylet.out`` and ``gcs_server.out`` of the session.

The fix and its cost
    Stop what an earlier run left, and put Ray's folder on a local disk under a short path.

References
    https://docs.ray.io/en/latest/ray-core/starting-ray.html
    https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html
    ``ray/_private/services.py``, ``ray/_private/node.py``, ``ray/scripts/scripts.py``
"""

from __future__ import annotations

from rldoctor.api import Check, Fix

check = Check("RLD611", "ray-start-failed", __doc__, before=("RLD603",))

_URL = "https://docs.ray.io/en/latest/ray-core/starting-ray.html"
_READ = Fix(
    title="read why on that node",
    commands=("tail -50 /tmp/ray/session_latest/logs/raylet.out /tmp/ray/session_latest/logs/gcs_server.out",),
)
_LOCAL = Fix(
    title="put Ray's folder on a local disk with space, under a short path",
    commands=("ray start --head --temp-dir=/tmp/ray",),
)
_STOP = Fix(title="stop what an earlier run left on this node", commands=("ray stop --force",))

check.signature(
    "while waiting for node to startup",
    "The current node timed out during startup",
    "The current node has not been updated within",
    details=(r"Did not find socket name (?P<socket>\S{1,300})",),
    says="Ray's raylet did not come up on this node within the time limit[[ (socket {socket})]]",
    fixes=(_READ, _STOP, _LOCAL),
    url=_URL,
)
check.signature(
    "AF_UNIX path length cannot exceed ",
    pattern=r"cannot exceed (?P<most>\d+) bytes: (?P<path>\S{1,400})",
    says="the path of Ray's socket is longer than {most} bytes: {path}",
    fixes=(_LOCAL,),
    url=_URL,
)
check.signature(
    "but is already running at",
    pattern=r"(?s)Ray is trying to start at (?P<wanted>\S+),?\s+but is already running at (?P<running>[\w.:-]*\w)",
    says="a Ray instance runs already at {running}, and another is to start at {wanted}",
    fixes=(_STOP, Fix(title="or start this one at a port of its own: ray start --head --port=6380")),
    url=_URL,
)
check.signature(
    "Some Ray subprocesses exited unexpectedly:",
    details=(r"unexpectedly:\s+(?P<which>\w+) \[exit code=(?P<code>-?\d+)\]",),
    says="processes of Ray ended on this node[[: {which}, exit code {code}]]",
    fixes=(_READ, _STOP),
    url=_URL,
)
