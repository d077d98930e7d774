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
check.signature(
    "No available agent to submit job",
    says="Ray's head has no agent that could take the job: the dashboard's agent on its node did not start, or ended",
    fixes=(
        Fix(
            title="read why on the head node; a port that is taken and a missing ray[default] are the usual reasons",
            commands=("tail -50 /tmp/ray/session_latest/logs/dashboard_agent.log", 'pip install "ray[default]"'),
        ),
        Fix(title="start Ray again, and give its dashboard time before the job is submitted", commands=_STOP.commands),
        Fix(title="or run the script on the head node itself, without ray job submit"),
    ),
    url="https://docs.ray.io/en/latest/cluster/running-applications/job-submission/index.html",
)
check.signature(
    "does not match persisted value",
    pattern=r"Session name (?P<new>\S+) does not match persisted value b?'?(?P<old>[\w.-]+)",
    says="another Ray instance answers at this address: it belongs to {old}, and {new} is to start",
    fixes=(_STOP, Fix(title="or start this one at a port of its own: ray start --head --port=6380")),
    url=_URL,
)
check.signature(
    "Failed to connect to Ray at address: ",
    pattern=r"Failed to connect to Ray at address: (?P<address>\S*\w)",
    says="no Ray dashboard answers at {address}, where the job is to be submitted",
    fixes=(
        Fix(title="start the cluster first", commands=("ray start --head --dashboard-host=0.0.0.0", "ray status")),
        Fix(title="or name the head node's own address and its dashboard's port (8265): ray job submit --address=..."),
    ),
    url="https://docs.ray.io/en/latest/cluster/running-applications/job-submission/index.html",
)
check.signature(
    "have not registered within the timeout",
    pattern=r"worker process\((?P<pid>\d+)\) have not registered within the timeout",
    says="worker processes that Ray starts do not come up in time (pid {pid}): they hang in their start",
    fixes=(
        Fix(
            title="see where one hangs, on its node; an environment on slow shared storage and too many workers at "
            "once are the usual reasons",
            commands=("py-spy dump --pid {pid}",),
        ),
        Fix.safe("give them more time", {"env.RAY_worker_register_timeout_seconds": "600"}),
        Fix(title="or put the environment on a local disk (uv, pip and conda in runtime_env are copied for each job)"),
    ),
    url=_URL,
)
check.signature(
    "Failed to register worker to Raylet",
    "Unable to register worker with raylet",
    details=(r"Failed to (?P<what>read data from the socket|connect to socket[^:.]*)",),
    says="a process of Ray cannot register with the raylet of its node[[: failed to {what}]]: the raylet has ended or "
    "does not answer",
    fixes=(
        _READ,
        Fix(
            title="in a container or a Slurm job that has fewer CPUs than the node: tell Ray how many, so that it "
            "starts no more workers than they can serve (ray start --num-cpus=N, ray.init(num_cpus=N))"
        ),
        _STOP,
    ),
    url="https://github.com/verl-project/verl/issues/3972",
)
