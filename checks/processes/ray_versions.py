"""Driver and cluster run different Ray or Python versions.

What it looks for
    The Ray and the Python that a running cluster (``--ray ADDRESS``, or ``RAY_ADDRESS``) was started with, against
    those of the environment that joins it. In a log: Ray's own refusal (``Version mismatch: The cluster was started
    with``), with both sides' versions.

Why it hurts
    Objects are pickled between the two; Ray refuses to connect.

How sure it is
    The head wrote down what it was started with; Ray compares the whole of both versions before it joins, Python's
    patch release too unless ``RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL`` is ``minor``, so that one is a warning here.

The fix and its cost
    One environment on all nodes; restart the cluster from it.

References
    ``check_version_info``: https://github.com/ray-project/ray/blob/ray-2.40.0/python/ray/_private/utils.py
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Evidence, Finding, Fix, Grade, LogEvent, NotChecked, Reach, Severity, find
from rldoctor.api.hang import live_cluster

check = Check("RLD608", "ray-version-mismatch", __doc__)


@check.observed(needs=["packages.ray", "observations.ray_cluster"])
def cluster_differs(case: Case) -> Iterator[Finding | Reach]:
    """The head's releases against this environment's."""
    cluster, packages = live_cluster(case), case.packages
    assert packages is not None  # it is among the needs
    found = find(packages, "ray")
    here, python = found.version if found is not None else "", packages.python
    if not cluster.ray or not cluster.python:
        raise NotChecked("the cluster does not say what it was started with")
    minor = cluster.python.split(".")[:2] == python.split(".")[:2]
    if cluster.ray == here and cluster.python == python:
        yield Reach(f"Ray {here} on Python {python} here and there")
        return
    yield check.finding(
        f"the Ray cluster at {cluster.address} runs Ray {cluster.ray} on Python {cluster.python}, this environment has "
        f"Ray {here} on Python {python}: Ray refuses to join",
        severity=Severity.ERROR if cluster.ray != here or not minor else Severity.WARNING,
        grade=Grade.OBSERVED,
        evidence=(
            Evidence(
                text=f"started with Ray {cluster.ray}, Python {cluster.python}", source=f"Ray at {cluster.address}"
            ),
            Evidence(text=f"Ray {here}, Python {python}", source=packages.executable or "this environment"),
        ),
        fixes=(
            Fix(
                title="use the cluster's own environment on the machine that submits",
                commands=(f"pip install ray=={cluster.ray}",) if cluster.ray != here else (),
            ),
            Fix(title="or restart the cluster from this environment", commands=("ray stop", "ray start --head")),
        ),
    )


@check.logged("Version mismatch: The cluster was started with:")
def refused(case: Case, event: LogEvent) -> Iterator[Finding]:
    """The message lists Ray and Python of the cluster, then of this process."""
    versions = event.search(
        r"started with:\s+Ray: (\S+)\s+Python: (\S+)\s+This process.{0,80}? was started with:\s+Ray: "
        r"(\S+)\s+Python: (\S+)"
    )
    said = (
        f"the cluster runs Ray {versions[1]} on Python {versions[2]}, this process Ray {versions[3]} on Python "
        f"{versions[4]}"
        if versions
        else "the Ray cluster and this process run different versions"
    )
    restart = ("ray stop", f"pip install ray=={versions[1]}" if versions else "pip install ray==VERSION_OF_THE_CLUSTER")
    yield check.finding(
        said, fixes=(Fix(title="use one environment on all nodes and restart the cluster from it", commands=restart),)
    )


@check.logged(
    "Python minor versions differ between client",
    "Client Ray installation incompatible with server",
    "Changing the ray version is not allowed",
)
def client_differs(case: Case, event: LogEvent) -> Iterator[Finding]:
    """Ray's client compares itself with the server; a runtime environment may not bring another Ray."""
    sides = event.search(r"client is ([\w.-]+), server is ([\w.-]+)") or event.search(
        r"current version: ([\w.]+), expect version: ([\w.]+)"
    )
    reported = f": {sides[1]} here, {sides[2]} there" if sides else ""
    what = "Python" if event.literal.startswith("Python") else "Ray"
    yield check.finding(
        f"{what} of this process and of the cluster differ{reported}",
        fixes=(
            Fix(title=f"use the cluster's {what} version on the machine that submits, or its container image"),
            Fix(title="or leave ray out of the runtime environment's packages"),
        ),
    )
