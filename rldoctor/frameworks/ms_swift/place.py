"""How ms-swift starts its processes, and where trainer and engines run, release by release."""

from __future__ import annotations

from dataclasses import replace

from rldoctor.counted import counted
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.processes import processes
from rldoctor.frameworks.releases import between
from rldoctor.plan.model import Source

# Commands that swift/cli/main.py starts with torchrun, where NPROC_PER_NODE or NNODES is set.
_DISTRIBUTED = ("swift rlhf", "swift sft", "swift pt", "swift infer", "megatron ")
_SAMPLING = ("grpo", "gkd")


def serves(draft: Draft) -> bool:
    """Whether the launch is a rollout server's."""
    return draft.launch.entry.startswith(("swift rollout", "swift deploy")) or draft.launch.entry.endswith("rollout.py")


def megatron(draft: Draft) -> bool:
    """Whether Megatron trains."""
    return "megatron" in draft.launch.entry or on_ray(draft) or draft.value("parallel.tensor") is not None


def on_ray(draft: Draft) -> bool:
    """Whether the run is Ray's: ``megatron rlhf --use_ray true``, its YAML giving devices by role."""
    return "train.gpus" in draft.natives or "rollout.gpus" in draft.natives


def start(draft: Draft) -> None:
    """Processes: torchrun only where NPROC_PER_NODE or NNODES is set, else one process of Python."""
    entry = draft.launch.entry
    if on_ray(draft):
        draft.override("process.launcher", "ray", "--use_ray true: its workers are Ray's", "placement.trainer_gpus")
        return
    asked = [name for name in ("NPROC_PER_NODE", "NNODES") if name in draft.launch.variables]
    command = entry.startswith(("swift ", "megatron "))
    if asked and (entry.startswith(_DISTRIBUTED) or not entry):
        how = f"{entry or 'the command'} starts torchrun: {asked[0]} is set"
        draft.override("process.launcher", "torchrun", how, "process.nproc", "process.nnodes")
        draft.derive("process.nproc", 1, "torchrun starts one process unless told otherwise", "process.nnodes")
    elif command:
        draft.derive("process.launcher", "none", f"{entry} starts torchrun only where NPROC_PER_NODE or NNODES is set")
    if draft.value("process.launcher") == "none" and not serves(draft) and draft.launch.python is None:
        draft.override("process.nproc", 1, "NPROC_PER_NODE is not set: one process")
        draft.settings.pop("process.total", None)
    processes(draft)


def world(draft: Draft) -> int | None:
    """Training processes in all, None where it is open: one process may see several devices, and then refuses."""
    seen = draft.value("placement.trainer_devices")
    alone = draft.value("process.launcher") == "none" and (seen is None or len(seen) > 1)
    return None if alone else draft.value("process.total")


def _nodes(draft: Draft) -> int | None:
    found: int | None = draft.value("process.nnodes", 1 if draft.is_open("process.nnodes") else None)
    return found


def placement(draft: Draft) -> None:
    """Colocated engines, a server, devices of their own (3.2 to 3.4), or none."""
    if serves(draft):
        _server(draft)
    elif draft.value("rollout.backend") == "lmdeploy":
        _workers(draft)
    elif not _samples(draft):
        draft.override(
            "placement.mode", "none", "nothing is sampled by an engine", "trainer.algorithm", "rollout.backend"
        )
        draft.derive("rollout.enabled", False, "nothing is sampled by an engine")
        draft.settings.pop("placement.engines", None)
    elif on_ray(draft):
        _ray(draft)
    elif between(draft, "ms-swift", "3.2", "3.5") or (
        draft.launch.version_of("ms-swift") is None and "num_infer_workers" in draft.natives
    ):
        _workers(draft)
    else:
        _mode(draft)
    mode = draft.value("placement.mode")
    other = draft.value("rollout.backend", "vllm") != "vllm"
    if other or (mode in ("server", "none") and not serves(draft)):
        # What the trainer is told of a vLLM engine reaches none: a server has its own launch.
        for name in [name for name in draft.settings if name.startswith("engine.")]:
            del draft.settings[name]
    if mode not in (None, "server"):
        # Defaults of options that matter with a server only.
        for name in [name for name in draft.settings if name.startswith("placement.server_")]:
            if draft.settings[name].source is Source.DEFAULT:
                del draft.settings[name]
    if mode in ("server", "none") and not serves(draft):
        draft.override("sleep.enabled", False, "no engine on the trainer's devices", "placement.mode")
        draft.override("sleep.level", 0, "no engine on the trainer's devices", "placement.mode")
    if not on_ray(draft):
        _devices(draft, mode)


def _samples(draft: Draft) -> bool:
    algorithm = draft.value("trainer.algorithm")
    return draft.value("rollout.backend", "vllm") == "vllm" and (algorithm is None or algorithm in _SAMPLING)


def _server(draft: Draft) -> None:
    draft.derive("placement.mode", "server", "a server of its own")
    if "rollout" in draft.launch.entry:
        draft.override("rollout.backend", "vllm", "swift rollout serves with vLLM, whatever infer_backend says")
    ranks, replicas = (draft.value("engine.tensor_parallel_size") or 1), (draft.value("engine.data_parallel_size") or 1)
    draft.derive("placement.engines", replicas, "data parallel size", "engine.data_parallel_size")
    how = f"{ranks} tensor x {replicas} data parallel"
    draft.derive(
        "placement.engine_gpus", ranks * replicas, how, "engine.tensor_parallel_size", "engine.data_parallel_size"
    )
    if between(draft, "ms-swift", "3.6") and "rollout" in draft.launch.entry:
        # arguments/deploy_args.py, _set_default_engine_type
        draft.derive(
            "rollout.async_engine",
            bool(draft.value("rollout.multi_turn")),
            "multi_turn_scheduler",
            "rollout.multi_turn",
        )


def _ray(draft: Draft) -> None:
    """swift/ray/megatron/pipeline.py: ``colocate_groups`` share a pool, every other role has its own."""
    together = draft.value("placement.colocated_roles", [])
    colocated = "train" in together and "rollout" in together
    draft.derive(
        "placement.mode", "colocate" if colocated else "separate", "colocate_groups", "placement.colocated_roles"
    )
    sizes = {role: draft.native(f"{role}.gpus") for role in ("train", "rollout", "teacher")}
    roles = {role: size for role, size in sizes.items() if isinstance(size, int)}
    draft.derive("placement.roles", roles, "gpus of the roles", "placement.trainer_gpus")
    alone = sum(size for role, size in roles.items() if role not in together)
    groups = draft.native("colocate_groups")
    listed = [group for group in groups if isinstance(group, list) and group] if isinstance(groups, list) else []
    shared = {tuple(map(str, group)): roles.get(str(group[0]), 0) for group in listed}
    draft.derive(
        "ray.gpus_needed", alone + sum(shared.values()), "gpus of the roles, shared ones once", "placement.trainer_gpus"
    )
    draft.derive(
        "process.total", draft.value("placement.trainer_gpus"), "one worker for each device", "placement.trainer_gpus"
    )
    devices = draft.value("placement.engine_gpus")
    size = (draft.value("engine.tensor_parallel_size") or 1) * (draft.value("engine.data_parallel_size") or 1)
    if devices and size and devices % size == 0:
        draft.derive("placement.engines", devices // size, f"{devices} devices / {size}", "engine.tensor_parallel_size")


def _workers(draft: Draft) -> None:
    """3.2 to 3.4: as many inference workers as devices are colocated, else they have the last devices of each node
    (llm/argument/rlhf_args.py, _check_grpo). ``num_infer_workers`` counts the workers of one node."""
    each, workers, nodes = draft.value("process.nproc"), draft.value("placement.engines"), _nodes(draft)
    seen = draft.value("placement.trainer_devices")
    if draft.value("placement.server_host") is not None:
        draft.derive("placement.mode", "server", "vllm_server_host is given", "placement.server_host")
    elif each and workers == each and (each > 1 or (seen is not None and len(seen) == 1)):
        how = f"{workers} inference workers = {each} processes"
        draft.derive("placement.mode", "colocate", how, "placement.engines", "process.nproc")
    elif each and workers:
        how = f"{workers} inference workers beside {each} processes"
        mode = "async" if draft.value("rollout.async") else "separate"
        draft.derive("placement.mode", mode, how, "placement.engines", "process.nproc")
        draft.derive("placement.gpus_per_node", each + workers, how, "process.nproc")
        if seen is not None and len(seen) == each + workers:
            draft.override("placement.trainer_devices", seen[:each], "the first devices", "env.CUDA_VISIBLE_DEVICES")
            draft.derive("placement.engine_devices", seen[each:], "the last devices", "env.CUDA_VISIBLE_DEVICES")
        if nodes:
            how = f"{workers} inference workers on each of {counted(nodes, 'node')}"
            draft.derive("placement.engine_gpus", workers * nodes, how, "placement.engines", "process.nnodes")
            draft.override("placement.engines", workers * nodes, how, "process.nnodes")
            return
    draft.settings.pop("placement.engines", None)


_ADDRESSES = ("placement.server_host", "placement.server_url")


def _mode(draft: Draft) -> None:
    """3.5 on: ``vllm_mode``; through 3.11.0 the server's address decides, whatever the mode says."""
    address = next((name for name in _ADDRESSES if draft.value(name) is not None), None)
    given = draft.settings.get("placement.mode")
    switching = between(draft, "ms-swift", "3.5", "3.11.1")
    if address == "placement.server_url" and between(draft, "ms-swift", "3.5", "3.7.1"):
        address = None  # only the host counted
    hidden = [draft.settings[name].unknown for name in _ADDRESSES if name in draft.settings]
    if switching and address is None and any(hidden) and given is not None and given.value == "server":
        return  # an address that is not known makes the mode that was asked for
    if switching:
        mode = "colocate" if address is None else "server"
        why = "no server is named" if address is None else "a server is named"
        if given is None or given.value != mode:
            draft.override("placement.mode", mode, f"{why}: ms-swift takes mode {mode}", address or "placement.mode")
            if given is not None and given.line:
                # It still stands where it was given, and is mended there.
                draft.put(
                    "placement.mode",
                    replace(given, value=mode, source=Source.DERIVED, how=f"{why}: ms-swift takes mode {mode}"),
                )
    elif draft.launch.version_of("ms-swift") is None and address is not None:
        draft.derive("placement.mode", "server", "a server is named", address)


def _devices(draft: Draft, mode: str | None) -> None:
    """One device for each process."""
    if serves(draft):
        return
    total, each, nodes = world(draft), draft.value("process.nproc"), _nodes(draft)
    if total is None:
        return
    draft.derive("placement.trainer_gpus", total, "one device for each process", "process.nproc", "process.nnodes")
    draft.derive("placement.nodes", nodes, "nodes of the launch", "process.nnodes")
    draft.derive("placement.gpus_per_node", each, "one device for each process", "process.nproc")
    if mode == "colocate":
        draft.derive("placement.engine_gpus", total, "on the trainer's devices", "process.nproc")
        ranks = draft.value("engine.tensor_parallel_size") or 1
        if ranks and total % ranks == 0:
            draft.derive(
                "placement.engines", total // ranks, f"{total} processes / {ranks}", "engine.tensor_parallel_size"
            )
