"""Accelerate's config file in canonical names: processes, machines, strategy, offload, precision."""

from __future__ import annotations

from rldoctor.errors import InputError
from rldoctor.formats.native import Native
from rldoctor.formats.source import Files
from rldoctor.formats.yaml.reader import YamlFile, read_yaml
from rldoctor.frameworks.processes import launcher_setting
from rldoctor.plan.model import Setting

# Options of `accelerate launch`, which its config files know too.
ACCELERATE_PROCESSES = {
    "num_processes": "process.total",
    "num_machines": "process.nnodes",
    "machine_rank": "process.node_rank",
    "main_process_ip": "process.master_addr",
    "main_process_port": "process.master_port",
    "rdzv_backend": "process.rdzv_backend",
    "gpu_ids": "process.devices",
    "mixed_precision": "trainer.dtype",
}
ACCELERATE_DEEPSPEED = {
    "zero_stage": "trainer.zero_stage",
    "offload_optimizer_device": "trainer.offload_optimizer",
    "offload_param_device": "trainer.offload_params",
    "deepspeed_config_file": "trainer.deepspeed",
    "gradient_accumulation_steps": "batch.accumulation",
}

# Keys of `accelerate config` files (accelerate/commands/config/config_args.py).
_TABLE = {
    **ACCELERATE_PROCESSES,
    **{f"deepspeed_config.{key}": option for key, option in ACCELERATE_DEEPSPEED.items()},
    "fsdp_config.fsdp_offload_params": "trainer.offload_params",
    "fsdp_config.fsdp_activation_checkpointing": "trainer.gradient_checkpointing",
}
_STRATEGIES = {"DEEPSPEED": "deepspeed", "FSDP": "fsdp", "MULTI_GPU": "ddp", "MEGATRON_LM": "megatron", "NO": "none"}


def settings(name: str, files: Files) -> tuple[dict[str, Setting], list[str]]:
    """The canonical settings of an accelerate config file, and notes where it is not found or not readable."""
    try:
        source = files.open(name)
        if source is None:
            why = f"{name}: named here, not found"
            return {"process.total": Setting(key="num_processes", unknown=why)}, [why]
        tree = read_yaml(source)
    except InputError as error:
        return {}, [str(error)]
    found: dict[str, Setting] = {}
    for native in _leaves(tree):
        if native.key in _TABLE:
            # "all" is no choice, and "auto" is left to the trainer.
            if native.value not in ("all", "auto"):
                found[_TABLE[native.key]] = launcher_setting(_TABLE[native.key], native)
        elif native.key == "distributed_type":
            # "NO" is plain text in these files; unquoted, YAML reads it as false.
            kind = "NO" if native.value is False else str(native.value).upper()
            fsdp2 = str(tree.get("fsdp_config.fsdp_version")) == "2"
            strategy = "fsdp2" if kind == "FSDP" and fsdp2 else _STRATEGIES.get(kind, kind.lower())
            place = launcher_setting("trainer.strategy", native)
            found["trainer.strategy"] = Setting(
                value=strategy, file=place.file, line=place.line, key=native.key, form=native.form
            )
    return found, []


def _leaves(tree: YamlFile) -> list[Native]:
    done: list[Native] = []
    for native in tree.natives():
        parts = list(native.parts())
        done += parts or [native]
    return done
