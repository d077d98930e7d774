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

from rldoctor.api import Case, Check, Evidence, Finding, Fix, Grade, NotChecked, Reach, Severity, find
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


# The message lists Ray and Python of the cluster, then of this process.
check.signature(
    "Version mismatch: The cluster was started with:",
    details=(
        r"started with:\s+Ray: (?P<ray>\S+)\s+Python: (?P<python>\S+)\s+This process.{0,80}? was started with:\s+"
        r"Ray: (?P<own_ray>\S+)\s+Python: (?P<own_python>\S+)",
    ),
    says="[[the cluster runs Ray {ray} on Python {python}, this process Ray {own_ray} on Python {own_python}||the Ray "
    "cluster and this process run different versions]]",
    fixes=(
        Fix(
            title="use one environment on all nodes and restart the cluster from it",
            commands=("ray stop", "pip install ray=={ray|VERSION_OF_THE_CLUSTER}"),
        ),
    ),
)


# Ray's client compares itself with the server; a runtime environment may not bring another Ray.
_CLIENT = r"client is (?P<own>[\w.-]+), server is (?P<other>[\w.-]+)"
_BROUGHT = r"current version: (?P<own>[\w.]+), expect version: (?P<other>[\w.]+)"
for _literal, _what, _sides in (
    ("Python minor versions differ between client", "Python", _CLIENT),
    ("Client Ray installation incompatible with server", "Ray", _CLIENT),
    ("Changing the ray version is not allowed", "Ray", _BROUGHT),
):
    check.signature(
        _literal,
        details=(_sides,),
        says=f"{_what} of this process and of the cluster differ[[: {{own}} here, {{other}} there]]",
        fixes=(
            Fix(title=f"use the cluster's {_what} version on the machine that submits, or its container image"),
            Fix(title="or leave ray out of the runtime environment's packages"),
        ),
    )
