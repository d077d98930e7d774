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
    ``ray.init`` without them, only a release that does it, or ``RAY_ADDRESS`` in the environment, helps.

References
    https://docs.ray.io/en/latest/ray-core/namespaces.html
    https://github.com/verl-project/verl/issues/1365, https://github.com/rllm-org/rllm/issues/166
    ``verl/workers/rollout/vllm_rollout/vllm_async_server.py`` 0.4.0 and 0.4.1 line 53, 0.5.0 line 55; gone in 0.6.0
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Finding,
    Fix,
    LogEvent,
    NotApplicable,
    Reach,
    RolloutPlan,
    cite,
    plan_of,
    version_within,
)

check = Check("RLD601", "ray-actors-invisible", __doc__, before=("RLD603",))

ADDRESS = "env.RAY_ADDRESS"
# The executor of these releases runs in the engine's own process, and joins Ray there with a namespace alone.
ALWAYS, WITH_RAY_EXECUTOR = ">=0.4,<0.5", ">=0.5,<0.6"
EXECUTOR = "env.VERL_VLLM_DISTRIBUTED_BACKEND"

_JOIN = Fix.unsafe(
    "join the running Ray instance: start every process with RAY_ADDRESS=auto (or the head's address)",
    {"env.RAY_ADDRESS": "auto"},
    side_effects="fails at once where no Ray instance runs on the node",
)


@check.declared(needs=["plan.rollout.async_engine"])
def engine_joins_without_address(case: Case) -> Iterator[Finding | Reach]:
    """verl's ExternalRayDistributedExecutor on a machine where nobody ran ``ray start``."""
    plan = plan_of(case)
    asynchronous = plan.value("rollout.async_engine") and plan.value("rollout.backend", "vllm") == "vllm"
    if plan.framework != "verl" or plan.version is None or not asynchronous:
        raise NotApplicable("a matter of verl's asynchronous rollouts with vLLM")
    by_ray = version_within(plan.version, ALWAYS) or (
        version_within(plan.version, WITH_RAY_EXECUTOR) and plan.value(EXECUTOR) == "ray"
    )
    if not by_ray:
        yield Reach(f"the engine of verl {plan.version} does not join Ray by itself")
        return
    if _names_a_cluster(plan):
        yield Reach("the launch joins a running Ray cluster, whose address the engine's process finds")
        return
    yield check.finding(
        f"verl {plan.version} calls ray.init in the engine's process without an address, and the launch names no Ray "
        "cluster: the engine starts an instance of its own, which has 0 of the rollout actors",
        evidence=cite(plan, "rollout.async_engine", "rollout.backend", EXECUTOR, "placement.gpus_per_node"),
        fixes=(
            Fix(
                title="run Ray as a cluster of its own, so that every process on the machine finds it",
                commands=("ray start --head", "export RAY_ADDRESS=auto"),
            ),
            Fix.unsafe(
                "or sample synchronously",
                {"rollout.async_engine": False},
                side_effects="no tools or dialogues of several turns",
            ),
            Fix(title="verl 0.6 and later talk to the engine over HTTP", commands=('pip install "verl>=0.6"',)),
        ),
        url="https://github.com/verl-project/verl/issues/1365",
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


@check.logged("actors, but vllm_dp_size: ")
def no_actors_for_the_engine(case: Case, event: LogEvent) -> Iterator[Finding]:
    """verl's ExternalRayDistributedExecutor lists the WorkerDict actors of its namespace."""
    counts = event.search(r"has (\d+) actors, but vllm_dp_size: \d+ \* vllm_tp_size: \d+ = (\d+) is expected")
    if counts is None or int(counts[1]) >= int(counts[2]):
        return
    yield check.finding(
        f"the engine's process sees {counts[1]} of {counts[2]} rollout actors: it is in another Ray instance or "
        f"namespace",
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


@check.logged("Failed to look up actor with name '")
def named_actor_not_found(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``ray.get_actor(NAME)`` in a namespace without that name."""
    name = event.search(r"Failed to look up actor with name '([^']+)'")
    if name is None:
        return
    yield check.finding(
        f"no actor named {name[1]!r} in this process's Ray namespace",
        fixes=(
            Fix(
                title="use one namespace: ray.init(namespace=NAMESPACE) in every process, or "
                f"ray.get_actor({name[1]!r}, namespace=NAMESPACE of the actor)",
            ),
            _JOIN,
        ),
        url="https://docs.ray.io/en/latest/ray-core/namespaces.html",
    )
