"""Driver and cluster run different Ray or Python versions.

What it looks for
    Ray's own refusal (``Version mismatch: The cluster was started with``), with both sides' versions.

Why it hurts
    Objects are pickled between the two; Ray refuses to connect.

How sure it is
    Ray compared them. A difference in Python's patch release is a warning there and is not reported here.

The fix and its cost
    One environment on all nodes; restart the cluster from it.

References
    ``ray/_private/utils.py`` (``check_version_info``)
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Finding, Fix, LogEvent

check = Check("RLD608", "ray-version-mismatch", __doc__)


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
