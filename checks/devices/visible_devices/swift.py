"""What ms-swift's trainers make of the devices that their processes see, from release to release."""

from __future__ import annotations

from rldoctor.api import Evidence, Fix, NotApplicable, NotChecked, RolloutPlan, cite, dataclass, version_within

from ...declared.devices import Visible, a_process_each, processes_fix

# `_check_grpo` counts devices; before it nobody did.
INFERENCE_WORKERS = ">=3.2.2,<3.5"
UNCHECKED = "<3.2.2"
# `is_mp() and use_vllm`
REFUSES_DEVICE_MAP = ">=3.6"


@dataclass(frozen=True)
class Misfit:
    """Why ms-swift does not start so, and what helps."""

    said: str
    evidence: tuple[Evidence, ...]
    fixes: tuple[Fix, ...]
    url: str | None = None


def spread_misfit(plan: RolloutPlan, seen: Visible, processes: int) -> Misfit | None:
    """More visible devices than processes: the model of each is spread over its share by ``device_map``."""
    refused = _refuses_device_map(plan)
    uneven = processes > 1 and len(seen) % processes != 0 and len(seen) > processes
    if not uneven and (len(seen) < 2 * processes or not refused):
        return None
    why = "it refuses an uneven share" if uneven else f"{refused} is refused together with device_map"
    return Misfit(
        f"{len(seen)} devices are visible to {processes} process{'es' if processes > 1 else ''}: ms-swift would "
        f"spread the model over them, and {why}",
        evidence=(*seen.evidence, *cite(plan, "process.nproc", "placement.mode")),
        fixes=tuple(a_process_each(plan, seen)),
        url="https://github.com/modelscope/ms-swift/issues/5592",
    )


def _refuses_device_map(plan: RolloutPlan) -> str | None:
    """What this ms-swift does not take together with a model that is spread over devices, or None."""
    if plan.value("trainer.deepspeed") is not None:
        return "DeepSpeed"
    sampling = plan.value("placement.mode") in ("colocate", "server")
    recent = plan.version is None or version_within(plan.version, REFUSES_DEVICE_MAP)
    return "GRPO with vLLM" if sampling and recent else None


def workers_misfit(plan: RolloutPlan, seen: Visible, processes: int) -> Misfit | None:
    """As many devices as processes, or as processes and inference workers. Raises :class:`NotApplicable` where there
    are none of these."""
    engines, nodes = plan.value("placement.engines"), plan.value("process.nnodes", 1)
    mode = plan.value("placement.mode")
    if not engines or mode not in ("colocate", "separate", "async"):
        raise NotApplicable("no inference workers")
    size = plan.usual("engine.tensor_parallel_size", 1)
    if size is None:
        raise NotChecked("how many devices an inference worker takes is not known")
    workers = engines * size // nodes
    wanted = processes if mode == "colocate" else processes + workers
    if len(seen) == wanted:
        return None
    text = f"{wanted} for {processes} training processes" + (f" and {workers} inference workers" * (mode != "colocate"))
    return Misfit(
        f"ms-swift asserts {text}, and sees {len(seen)} devices",
        evidence=(*seen.evidence, *cite(plan, "process.nproc", "placement.engines")),
        fixes=(processes_fix(plan, len(seen) - workers),) if mode != "colocate" and len(seen) > workers else (),
    )
