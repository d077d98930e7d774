"""The engine's process looks for the trainer's Ray actors and finds none.

What it looks for
    verl's asynchronous rollouts of 0.4 (and 0.5 with its Ray executor), whose engine process calls ``ray.init`` without
    an address, in a launch that neither starts nor names a Ray cluster. In a log: verl's external executor that
    counts ``has 0 actors``, and ``ray.get_actor`` for a name that does not exist in the caller's namespace.

Why it hurts
    Named actors belong to one Ray instance and one namespace. A process that calls ``ray.init()`` without an address
    may start an instance of its own, and every ``ray.init()`` without a namespace gets a fresh anonymous one: the
    actors live, and cannot be seen. The engine never starts.

How sure it is
    The releases were read in verl's source; a launch that is submitted to a cluster, or names one, is left alone. The
    message says that the look-up found nothing. That the actor died earlier is the other possibility: an earlier
    failure in the log goes before this one.

The fix and its cost
    Join the running cluster with its address and the driver's namespace. Where the framework's own source calls
    ``ray.init`` without them, only a release that does it, or ``RAY_ADDRESS`` in the environment, helps. Where a token
    is asked for (Ray 2.60 does by itself once there is one), ``RAY_ADDRESS=auto`` finds it in ``~/.ray``; the head's
    address needs ``RAY_AUTH_MODE=token`` too. From level ``devices`` on, rldoctor starts a Ray of its own and looks its
    actors up from another process, as the engine does: that reproduces the fault on the Ray at hand, and proves the
    address.

References
    https://docs.ray.io/en/latest/ray-core/namespaces.html
    https://github.com/verl-project/verl/issues/1365, https://github.com/rllm-org/rllm/issues/166
    ``verl/workers/rollout/vllm_rollout/vllm_async_server.py`` 0.4.0 and 0.4.1 line 53, 0.5.0 line 55; gone in 0.6.0
    ``ray.init``: https://docs.ray.io/en/latest/ray-core/api/doc/ray.init.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    cite,
    plan_of,
)

from ..observed.servers import STOPS_ALL_OF_RAY

check = Check("RLD601", "ray-actors-invisible", __doc__, before=("RLD603",))

ADDRESS = "env.RAY_ADDRESS"
JOINS = "ray.engine_joins"
PROBE = "ray_lookup"
_ISSUE = "https://github.com/verl-project/verl/issues/1365"

_JOIN = Fix.unsafe(
    "join the running Ray instance: start every process with RAY_ADDRESS=auto (or the head's address)",
    {"env.RAY_ADDRESS": "auto"},
    side_effects="fails at once where no Ray instance runs on the node",
)


@check.declared(needs=["plan.rollout.async_engine"])
def engine_joins_without_address(case: Case) -> Iterator[Finding | Reach]:
    """An executor that joins Ray in the engine's own process, on a machine where nobody ran ``ray start``."""
    plan = plan_of(case)
    if not plan.value(JOINS) and plan.version is not None:
        yield Reach(f"the engine of {plan.framework} {plan.version} does not connect to Ray on its own")
        return
    plan = _joining(case)
    if PROBE in case.observations:
        yield Reach("actors were looked up on a Ray of our own")
        return
    yield check.finding(
        f"{plan.framework} {plan.version} calls ray.init in the engine's process without an address, and the launch "
        "names no Ray cluster: the engine starts an instance of its own, which knows none of the rollout actors",
        evidence=_cited(plan),
        fixes=_fixes(proven=None),
        url=_ISSUE,
    )


@check.observed(needs=["plan.rollout.async_engine", f"observations.{PROBE}"])
def looked_up_without_address(case: Case) -> Iterator[Finding | Reach]:
    """The same look-up from another process, with the Ray at hand."""
    plan = _joining(case)
    for job in case.observations[PROBE].values():
        records = job["records"]
        ways, made = records.get("ways", {}), records.get("made", {})
        if "no address" not in ways or "address" not in ways:
            raise NotChecked(f"a Ray of our own did not come up or did not answer ({job['ended']})")
        alone, joined = ways["no address"], ways["address"]
        if alone.get("found") == made["actors"]:
            yield Reach(f"without an address a process finds all {made['actors']} actors of Ray {records['version']}")
            continue
        proof = f"looked up again with RAY_ADDRESS: {made['actors']} of {made['actors']} actors found"
        yield check.finding(
            f"{plan.framework} {plan.version} calls ray.init in the engine's process without an address; with Ray "
            f"{records['version']} such a process {_came_to(alone, made)}",
            grade=Grade.REPRODUCED,
            evidence=(
                *_cited(plan),
                *(Evidence(text=f"{way}: {_came_to(one, made)}", source=PROBE) for way, one in ways.items()),
            ),
            fixes=_fixes(proven=proof if joined.get("found") == made["actors"] else None),
            url=_ISSUE,
        )


def _joining(case: Case) -> RolloutPlan:
    """The launch, where its engine joins Ray by itself and finds no address.

    Raises :class:`NotApplicable` elsewhere."""
    plan = plan_of(case)
    if not plan.value(JOINS):
        raise NotApplicable("the engine does not connect to Ray on its own")
    if _names_a_cluster(plan):
        raise NotApplicable("the launch joins a running Ray cluster, whose address the engine's process finds")
    return plan


def _came_to(way: Mapping[str, Any], made: Mapping[str, Any]) -> str:
    if "error" in way:
        return f"gets no answer: {way['error']}"
    where = "joins the trainer's Ray" if way["address"] == made["address"] else "starts a Ray of its own"
    return f"{where} and finds {way['found']} of {made['actors']} actors"


def _cited(plan: RolloutPlan) -> tuple[Evidence, ...]:
    return cite(plan, "rollout.async_engine", "rollout.backend", "placement.gpus_per_node")


def _fixes(*, proven: str | None) -> tuple[Fix, ...]:
    return (
        Fix(
            title="run Ray as a cluster of its own, which every process finds",
            commands=("ray start --head", "export RAY_ADDRESS=auto"),
            proven=proven,
        ),
        Fix.unsafe(
            "or sample synchronously",
            {"rollout.async_engine": False},
            side_effects="no tools or dialogues of several turns",
        ),
        Fix(title="verl 0.6 and later talk to the engine over HTTP", commands=('pip install "verl>=0.6"',)),
    )


def _names_a_cluster(plan: RolloutPlan) -> bool:
    """Whether a Ray cluster is started, joined or submitted to, or may be by what cannot be read."""
    nodes = plan.get("placement.nodes")
    several = nodes is not None and (nodes.unknown is not None or plan.value("placement.nodes", 1) > 1)
    named = any(plan.get(option) is not None and not _null(plan, option) for option in (ADDRESS, "ray.address"))
    return bool(plan.value("ray.started")) or named or several


def _null(plan: RolloutPlan, option: str) -> bool:
    setting = plan.get(option)
    return setting is not None and setting.value is None and setting.unknown is None


def _too_few(case: Case, event: LogEvent) -> Mapping[str, str] | None:
    """verl's ExternalRayDistributedExecutor lists the WorkerDict actors of its namespace."""
    counts = event.search(
        r"has (?P<seen>\d+) actors, but vllm_dp_size: \d+ \* vllm_tp_size: \d+ = (?P<wanted>\d+) is expected"
    )
    return counts.groupdict() if counts is not None and int(counts["seen"]) < int(counts["wanted"]) else None


check.signature(
    "actors, but vllm_dp_size: ",
    when=_too_few,
    says="the engine's process sees {seen} of {wanted} rollout actors: it is in another Ray instance or namespace",
    fixes=(
        _JOIN,
        Fix(
            title="use the vLLM release that this verl was written for; newer ones start the engine in a process "
            "that does not inherit the driver's Ray connection",
        ),
        Fix(
            title="in the framework's executor: ray.init(address='auto', namespace=NAMESPACE) instead of "
            "ray.init(namespace=NAMESPACE)",
        ),
    ),
    url="https://github.com/rllm-org/rllm/issues/166",
)


# ``ray.get_actor(NAME)`` in a namespace without that name.
check.signature(
    "Failed to look up actor with name '",
    pattern=r"Failed to look up actor with name '(?P<name>[^']+)'",
    says="no actor named '{name}' in this process's Ray namespace",
    fixes=(
        Fix(
            title="use one namespace: ray.init(namespace=NAMESPACE) in every process, or "
            "ray.get_actor('{name}', namespace=NAMESPACE of the actor)",
        ),
        _JOIN,
    ),
    url="https://docs.ray.io/en/latest/ray-core/namespaces.html",
)


# verl and its forks: the first worker leaves its address with an actor, which the driver looks up by name.
check.signature(
    "failed to get register_center_actor",
    "Failed to get register_center_actor",
    pattern=r"(?i)failed to get register_center_actor:? (?P<name>\w+)(?: in \[[^\n]*?\] for (?P<seconds>\d+) seconds)?",
    says="the first worker had not put its actor {name} into the driver's Ray namespace[[ within {seconds} s]]: it "
    "starts too slowly, ended before, or an earlier run still holds its place",
    fixes=(
        Fix(
            title="where no other run uses Ray on these nodes, end what earlier ones left, and start it again with the "
            "job's CPUs and GPUs",
            commands=("ray stop --force", "ray start --head"),
            side_effects=STOPS_ALL_OF_RAY,
        ),
        Fix(
            title="see what the first worker did meanwhile: its own output has imports that fail or take long",
            commands=("rldoctor triage /tmp/ray/session_latest/logs",),
        ),
        Fix(
            title="where it only starts slowly, wait longer (verl 0.4 and later)",
            commands=("trainer.ray_wait_register_center_timeout=900",),
        ),
    ),
    url="https://github.com/Jiayi-Pan/TinyZero/issues/78",
)
