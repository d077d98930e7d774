"""Rollout replicas that must differ share a seed, or tensor parallel peers that must agree do not.

What it looks for
    The seed of every rank of every engine replica, derived for the whole plan as the framework derives it, and the
    seeds of the requests: peers of one replica with different seeds; replicas with one seed that get the same prompts
    in the same order; requests with one seed where every completion of a group is a request of its own; ms-swift's
    colocated engines before 3.5 and its rollout servers before 3.12.3. In a real rollout: two engines with the seeds of
    the first two replicas draw a group for the same prompt; a group is drawn with the seeds of the launch's requests;
    two tensor parallel ranks that torchrun starts, each with an engine object of its own, answer the same requests.

Why it hurts
    Peers that draw different tokens fall out of step and hang, or garble the output. Replicas with one seed and one
    prompt draw the same completions: the group has no variance, the advantages are 0, nothing is learned, and the run
    looks healthy.

How sure it is
    The formulas are the frameworks' own, by release. Replicas with one seed are an error only where the batch shows
    that they get equal parts of one group. Where each request goes to the next replica in turn, or they are spread by
    load, it is a note: how far the batches of two replicas are alike is a matter of time. verl through 0.7.0 gives all
    its engines one seed and lets each worker draw from a random state of its own: there is nothing to report but where
    that state is not put in place (servers of 0.5.0 to 0.6.1 that never sleep).

The fix and its cost
    A seed for each replica, none for the requests. It costs nothing; reproducibility comes from the same seeds at the
    next run, not from equal ones.

References
    https://github.com/modelscope/ms-swift/issues/3780, https://github.com/modelscope/ms-swift/pull/4209 (3.5.0),
    https://github.com/modelscope/ms-swift/pull/4712 (3.5.3), https://github.com/modelscope/ms-swift/issues/7219,
    https://github.com/modelscope/ms-swift/pull/7859 (3.12.3), https://github.com/NVIDIA-NeMo/RL/issues/53,
    https://github.com/NovaSky-AI/SkyRL/pull/1015; verl ``vllm_async_server.py`` 0.9.0 line 580 (full_determinism)
"""

from __future__ import annotations

from collections.abc import Iterator

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    NotApplicable,
    NotChecked,
    Reach,
    RolloutPlan,
    Severity,
    cite,
    plan_of,
)
from rldoctor.api.seeds import (
    SeedTopology,
    completions_per_request,
    in_turn,
    replicas_per_prompt,
    requests_alike,
    seed_topology,
)

from . import live as sampled
from .fixes import SERVER_SEEDS, SWIFT_SERVER, no_request_seed, own_seeds, swift

check = Check("RLD310", "seed-shared-across-replicas", __doc__, before=("RLD311",))

RULE, REQUESTS = "seed.per_replica", "seed.per_request"
PEERS = "peers probe"
# What is known where nothing was drawn.
_NOTHING = sampled.Drawn(same=0, total=0, chance=0.0, apart=False, reported=())
# grpo_trainer.py 3.2.2 to 3.4: engine seed 0, request seed = rank of the inference worker + index, at every step alike.
SWIFT_FIXED = ">=3.2.2,<3.5"


@check.declared(needs=["plan"])
def peers_and_replicas(case: Case) -> Iterator[Finding | Reach]:
    """The engines' own seeds."""
    plan = plan_of(case)
    found = seed_topology(plan)
    if found is None and (plan.server or plan).value("placement.engines") == 1:
        raise NotApplicable("one engine, which no other can share a seed with")
    if found is None:
        raise NotChecked("which seed each engine gets is not known for this framework and release")
    if found.disagreeing:
        yield _disagreeing(case, plan, found)
    elif _seed_shared(plan, found):
        if plan.role == "server" and replicas_per_prompt(plan, found.replicas) is None:
            raise NotChecked(
                "whether the completions of one prompt come from several replicas is not known: no trainer"
            )
        yield _shared(case, plan, found)
    else:
        yield Reach(found.summary())


@check.observed(needs=["plan", "observations.seeds"])
def replicas_draw_the_same(case: Case) -> Iterator[Finding | Reach]:
    """Two engines with the launch's seeds, asked for a group of the same prompt."""
    plan = plan_of(case)
    found, drawn = seed_topology(plan), sampled.replicas(case)
    if drawn.equal and found is not None and _seed_shared(plan, found):
        yield _shared(case, plan, found)
    elif drawn.equal and drawn.apart:
        raise NotApplicable("the seeds have no effect (RLD311)")
    else:
        planned = f"{found.replicas} replicas" if found is not None else "the replicas"
        yield Reach(f"{drawn.summary()} between two engines with the seeds of two of {planned}")


@check.observed(needs=["plan", "observations.peers"])
def ranks_draw_other_tokens(case: Case) -> Iterator[Finding | Reach]:
    """Two tensor parallel ranks with the launch's seeds, each with an engine object of its own."""
    plan = plan_of(case)
    found, drawn = seed_topology(plan), sampled.ranks(case)
    if found is not None and found.disagreeing:
        yield _disagreeing(case, plan, found)
    elif drawn is None:
        raise NotChecked("two ranks with an engine object each do not come to an end here")
    elif drawn.same == drawn.total:
        yield Reach(f"two tensor parallel ranks agree in {drawn.total} completions")
    else:
        yield check.finding(
            f"two tensor parallel ranks with the same seed draw different tokens: {drawn.summary()}",
            grade=Grade.OBSERVED,
            evidence=(*cite(plan.server or plan, RULE, "engine.tensor_parallel_size"), *drawn.evidence),
            fixes=(
                Fix(title="one engine that drives all of its ranks (executor mp or ray) keeps them in step"),
                Fix(title="another release of vLLM: its ranks do not seed themselves alike"),
            ),
        )


def _disagreeing(case: Case, plan: RolloutPlan, found: SeedTopology) -> Finding:
    launch = plan.server or plan
    try:
        drawn = sampled.ranks(case) if "peers" in case.observations else _NOTHING
    except (NotApplicable, NotChecked):
        drawn = _NOTHING
    if drawn is None:
        seen: tuple[Evidence, ...] = (Evidence(text="the two ranks wait for each other for ever", source=PEERS),)
    else:
        seen = drawn.evidence if drawn.same < drawn.total else ()
    return check.finding(
        f"the peers of {len(found.disagreeing)} tensor parallel engines have different seeds: {found.formula}",
        grade=Grade.REPRODUCED if seen else Grade.DECLARED,
        evidence=(
            *cite(launch, RULE, "engine.tensor_parallel_size"),
            Evidence(text=found.by_replica(), source="derived seeds"),
            *seen,
        ),
        fixes=(Fix(title="derive the seed from the replica: rank // tensor parallel size"),),
        url="https://github.com/modelscope/ms-swift/pull/4209",
    )


def _seed_shared(plan: RolloutPlan, found: SeedTopology) -> bool:
    """Whether replicas have one seed where a prompt's group may be divided between them. A hash deals out other prompts
    to each: the same one has another place in every batch, and other random numbers there."""
    divided = replicas_per_prompt(plan, found.replicas) != 1 and plan.value("rollout.spread") != "session"
    return found.rule == "same" and found.replicas > 1 and divided and not _request_seeds_differ(found)


def _shared(case: Case, plan: RolloutPlan, found: SeedTopology) -> Finding:
    launch, together = plan.server or plan, replicas_per_prompt(plan, found.replicas)
    try:
        drawn = sampled.replicas(case) if "seeds" in case.observations else _NOTHING
    except (NotApplicable, NotChecked):
        drawn = _NOTHING
    # What two replicas draw is the same as long as their batches are; how long that is, is a matter of time.
    severity = Severity.NOTE
    if together and in_turn(plan):
        shared = f", and the completions of a prompt go to {together} of them in turn: they can draw the same ones"
    elif together:
        shared, severity = (
            f", and {together} of them get the same prompts: they draw the same completions",
            Severity.ERROR,
        )
    elif plan.value("rollout.spread") == "load":
        shared = "; requests are spread over them by load"
    else:
        shared = "; whether completions of one prompt reach several of them is not known"
    return check.finding(
        f"{found.replicas} engine replicas have the same seed ({found.formula}){shared}",
        severity=severity,
        grade=Grade.REPRODUCED if drawn.equal else Grade.DECLARED,
        evidence=(
            *cite(launch, RULE, "placement.engines"),
            *cite(plan, "batch.generation", "batch.generations", "rollout.spread"),
            Evidence(text=found.by_replica(), source="derived seeds"),
            *drawn.evidence,
        ),
        fixes=tuple(own_seeds(plan, found)),
        url="https://github.com/modelscope/ms-swift/issues/7219",
    )


@check.declared(needs=[f"plan.{REQUESTS}", "plan.batch.generations"])
def requests_of_a_group(case: Case) -> Iterator[Finding | Reach]:
    """One seed in every request makes every completion of a group the same, unless one request draws them all."""
    plan = plan_of(case)
    n, each = plan.value("batch.generations"), completions_per_request(plan)
    if n < 2:
        raise NotApplicable("one completion for each prompt")
    if not requests_alike(plan):
        yield Reach(f"request seeds: {plan.value(REQUESTS)}")
        return
    if each is None:
        raise NotChecked("how many completions one request draws is not known")
    if each >= n:
        yield Reach(f"one request draws all {n} completions")
        return
    yield _alike(case, plan, n)


@check.observed(needs=["plan", "observations.seeds"])
def requests_draw_the_same(case: Case) -> Iterator[Finding | Reach]:
    """A group drawn with the seeds of the launch's requests."""
    plan, group = plan_of(case), sampled.requests(case)
    drawn = sampled.repeated(group)
    if drawn.equal and drawn.apart:
        raise NotApplicable("the seeds have no effect (RLD311)")
    if drawn.equal and requests_alike(plan):
        yield _alike(case, plan, plan.value("batch.generations"))
    else:
        yield Reach(f"a group by {len(group)} requests with the launch's seeds: {drawn.summary()} from the first")


def _alike(case: Case, plan: RolloutPlan, n: int) -> Finding:
    try:
        drawn = sampled.repeated(sampled.requests(case)) if "seeds" in case.observations else _NOTHING
    except (NotApplicable, NotChecked):
        drawn = _NOTHING
    return check.finding(
        f"every request carries the same seed, and the {n} completions of a prompt are requests of their own: they are "
        "all alike" + ("" if plan.value("sampling.seed") is not None else " on each engine"),
        grade=Grade.REPRODUCED if drawn.equal else Grade.DECLARED,
        evidence=(
            *cite(plan, REQUESTS, "batch.generations", "seed.deterministic", "seed.engine", "sampling.seed"),
            *drawn.evidence,
        ),
        fixes=tuple(no_request_seed(plan)),
        url="https://github.com/NovaSky-AI/SkyRL/pull/1015",
    )


@check.declared(needs=["plan.placement.mode", f"plan.{REQUESTS}"])
def fixed_seeds_of_workers(case: Case) -> Iterator[Finding | Reach]:
    """ms-swift 3.2.2 to 3.4 colocated: the requests' seeds follow the inference rank and never change."""
    plan = plan_of(case)
    if not swift(plan, SWIFT_FIXED) or plan.value("placement.mode") != "colocate" or plan.value(REQUESTS) != "rank":
        raise NotApplicable("no fixed seed for each inference rank")
    several = plan.value("placement.nodes", 1) > 1
    yield check.finding(
        f"ms-swift {plan.version} gives every inference rank one fixed request seed, the same at each step"
        + (": over several nodes the completions of a group repeat" if several else ""),
        severity=Severity.ERROR if several else Severity.NOTE,
        evidence=cite(plan, REQUESTS, RULE, "placement.engines", "process.nnodes"),
        fixes=(
            Fix(
                title="ms-swift 3.6 and later give each engine its own seed and the requests none "
                "(num_infer_workers becomes vllm_mode colocate)",
                commands=('pip install "ms-swift>=3.6,<4"',),
            ),
        ),
        url="https://github.com/modelscope/ms-swift/issues/3780",
    )


@check.declared(needs=["plan.placement.server_host", "plan.batch.generation", "plan.batch.generations"])
def servers_of_one_seed(case: Case) -> Iterator[Finding | Reach]:
    """Several ms-swift rollout servers, which are started elsewhere: each takes vLLM's own seed."""
    plan = plan_of(case)
    hosts = plan.value("placement.server_host")
    if not swift(plan, SWIFT_SERVER) or not isinstance(hosts, list) or len(hosts) < 2:
        raise NotApplicable("not several rollout servers of a release without seeds")
    together = replicas_per_prompt(plan, len(hosts))
    if not together or together == 1:
        yield Reach(f"{len(hosts)} servers, every group on one of them")
        return
    yield check.finding(
        f"the servers of ms-swift {plan.version} all have vLLM's own seed, and {together} of them get the same "
        "prompts: they draw the same completions",
        evidence=cite(plan, "placement.server_host", "batch.generation", "batch.generations"),
        fixes=(SERVER_SEEDS,),
        url="https://github.com/modelscope/ms-swift/issues/7219",
    )


def _request_seeds_differ(found: SeedTopology) -> bool:
    """Whether the requests carry seeds of their own, so that the engine's does not decide."""
    return found.requests in ("rank", "counter")
