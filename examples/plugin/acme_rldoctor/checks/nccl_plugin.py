"""The nodes of the acme cluster need their own NCCL network plugin.

What it looks for
    A launch with several nodes whose environment does not name ``NCCL_NET_PLUGIN``.

Why it hurts
    NCCL falls back to sockets: the run works, and weight sync takes minutes.

How sure it is
    The variable is not there. A container may still bring the plugin under NCCL's default name.

The fix and its cost
    The variable. It costs nothing.

References
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import Case, Check, Finding, Fix, NotApplicable, Reach, Severity, cite, plan_of

check = Check("ACME01", "acme-nccl-plugin-missing", __doc__)

VARIABLE = "NCCL_NET_PLUGIN"


@check.declared(needs=["plan.placement.nodes", "environment"])
def not_named(case: Case) -> Iterator[Finding | Reach]:
    """The variable, in the launch or around it."""
    plan = plan_of(case)
    if plan.value("placement.nodes") < 2:
        raise NotApplicable("one node")
    named = plan.value(f"env.{VARIABLE}") or (case.environment or {}).get(VARIABLE)
    if named:
        yield Reach(f"{VARIABLE} is {named}")
        return
    yield check.finding(
        f"{VARIABLE} is not set for a launch with several nodes: NCCL falls back to sockets",
        severity=Severity.WARNING,
        evidence=cite(plan, "placement.nodes"),
        fixes=(Fix.safe("name the cluster's plugin", {f"env.{VARIABLE}": "acme"}),),
    )
