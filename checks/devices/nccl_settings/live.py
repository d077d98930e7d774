"""What a small job of several ranks shows: failures and slow nodes, with the settings and without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rldoctor.api import Case, Evidence, Finding, Fix, Grade, NotApplicable, Reach, Severity

from ...observed.communication import (
    PROBE,
    Links,
    cured_without,
    evidence,
    for_elsewhere,
    node_named,
    origin,
    runs,
    settings,
    unset,
)
from . import INTERFACES, check, spelled_here
from .fixes import NAME_INTERFACE, NO_DIRECT_TRANSFERS

_LINKS = Fix(
    title="see how its device is connected, and whether its link has errors or runs at a lower width",
    commands=("nvidia-smi topo -m", "nvidia-smi nvlink --status", "nvidia-smi -q -d PCIE"),
)


@check.observed(needs=["observations.collectives"])
def job_fails_with_settings(case: Case) -> Iterator[Finding | Reach]:
    """The probe's job with the settings and without them."""
    found = runs(case)
    first, cure, given = found[0], cured_without(found), settings(case)
    if first.done and (apart := first.apart()) is not None:
        rank, fastest, slowest = apart
        yield check.finding(
            f"rank {rank} of {len(first.ranks)} {first.where}{first.at(rank)} exchanges at most {fastest:g} GB/s "
            f"with any other, and the others at least {slowest:g} GB/s with each other ({fastest / slowest:.0%})",
            severity=Severity.WARNING,
            grade=Grade.REPRODUCED,
            evidence=tuple(
                Evidence(text=f"ranks {pair}: {rate:g} GB/s", source=PROBE)
                for row in first.ranks
                for pair, rate in row["measured"]["pairs"].items()
            )[:8],
            fixes=(_LINKS,),
        )
    elif first.done and (links := first.links()) is not None and (at_fault := links.at_fault()):
        yield _slow_nodes(at_fault, links, first.hosts)
    elif first.done:
        yield Reach(f"{len(given)} communication settings {first.where}" if given else "no communication settings here")
    elif first.shared():
        raise NotApplicable("two ranks share a GPU: RLD302")
    elif cure:
        plan, elsewhere = case.plan, for_elsewhere(case, cure)
        safe = plan is not None and not elsewhere and all(spelled_here(plan, f"env.{name}") for name in cure)
        named = ", ".join(f"{name}={given[name]}" for name in cure)
        yield check.finding(
            f"ranks {first.where} cannot work together with {named}, and do so without",
            severity=Severity.WARNING if elsewhere else Severity.ERROR,
            grade=Grade.REPRODUCED,
            evidence=(*origin(case, cure), *evidence(first.failed)),
            fixes=(unset(case, cure, safe), *(NAME_INTERFACE for name in cure[:1] if name in INTERFACES)),
            url="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        )
    elif first.wrong():
        yield check.finding(
            f"collectives between the ranks of this host come out wrong: {first.wrong()[0]}",
            grade=Grade.REPRODUCED,
            evidence=tuple(Evidence(text=text, source=PROBE) for text in first.wrong()[:4]),
            fixes=(NO_DIRECT_TRANSFERS,),
            url="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        )
    else:
        raise NotApplicable("the job fails without these settings, too: RLD320, RLD321")


def _slow_nodes(at_fault: tuple[int, ...], links: Links, hosts: Mapping[str, str]) -> Finding:
    names = " and ".join(node_named(node, hosts) for node in at_fault)
    rate = max(links.rates[pair] for pair in links.slow)
    others = (
        f"with any other of {len(hosts)} nodes" if len(at_fault) == 1 else f"with each other, of {len(hosts)} nodes"
    )
    verb = "exchanges" if len(at_fault) == 1 else "exchange"
    return check.finding(
        f"{names} {verb} at most {rate:g} GB/s {others}, {rate / links.fastest:.0%} of what the fastest pair does "
        f"({links.fastest:g} GB/s)",
        severity=Severity.WARNING,
        grade=Grade.REPRODUCED,
        evidence=tuple(
            Evidence(text=f"nodes {first} and {second}: {one:g} GB/s", source=PROBE)
            for (first, second), one in sorted(links.rates.items(), key=lambda row: row[1])[:8]
        ),
        fixes=(_NODE_LINKS,),
    )


_NODE_LINKS = Fix(
    title="see which interface or adapter NCCL and gloo chose there, its speed and its errors",
    commands=("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET torchrun ...", "ip -brief address", "ibstat"),
)
