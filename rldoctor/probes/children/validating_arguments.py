"""A trainer's own argument class, made of the launch's settings as its parser makes it.

Arguments: ``modules`` (of which the first that exists holds it) and ``name`` (of the class, in any case); ``calls``
(how the settings are given: ``keyword``, or a form that ``argparse`` reads), ``settings`` (by field), ``open`` (fields
whose values nobody can read), ``processes`` (how many the launch starts, or those to try). No device is used."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import re
import sys
from typing import Any

from report import emit

# Fields that speak of the device, of optional packages and of files: the launch's are left out, and the class is told
# that the CPU is meant.
LEFT_OUT = frozenset(
    {
        "tf32", "use_cpu", "no_cuda", "use_mps_device", "fp16", "fp16_full_eval", "bf16_full_eval", "deepspeed", "fsdp",
        "fsdp_config", "accelerator_config", "parallelism_config", "resume_from_checkpoint", "report_to", "push_to_hub",
        "hub_token", "optim", "torch_compile", "use_liger_kernel", "ddp_backend", "local_rank",
        "dataloader_prefetch_factor",
    }
)  # fmt: skip
_CPU = ("use_cpu", "no_cuda")  # by release
_MACHINE = re.compile(r"(?i)use_cpu|no_cuda|gpu|cuda|npu|not installed|pip install|is required|not available|No module")
UNREAD = "unread"


def ways(arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    """One for each number of processes."""
    module = next(name for name in arguments["modules"] if importlib.util.find_spec(name) is not None)
    holder = importlib.import_module(module)
    top = sys.modules[module.partition(".")[0]]
    emit("package", {"name": top.__name__, "version": getattr(top, "__version__", None)})
    kind = next(
        value for name, value in vars(holder).items() if name.lower() == arguments["name"] and isinstance(value, type)
    )
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    taken = {name: value for name, value in arguments["settings"].items() if name in fields and name not in LEFT_OUT}
    for name in arguments["open"]:
        if name in fields and name not in LEFT_OUT:
            if "str" not in str(fields[name].type):
                raise UnreadError(f"the value of {name} cannot be read from the launch")
            taken[name] = UNREAD
    emit("taken", sorted(taken))
    emit("left_out", sorted(name for name in arguments["settings"] if name not in taken))
    taken.setdefault("output_dir", UNREAD)
    cpu = next(name for name in _CPU if name in fields)
    make = _called if arguments["calls"] == "keyword" else _parsed
    return [
        (f"{count} processes", lambda count=count: _effective(make(_of_processes(kind, count), {**taken, cpu: True})))
        for count in arguments["processes"]
    ]


def of_the_machine(error: BaseException) -> bool:
    """Whether a refusal is about the device or the packages here, and not about the settings."""
    return isinstance(error, UnreadError) or _MACHINE.search(str(error)) is not None


class UnreadError(Exception):
    """A setting whose value decides, and that nobody can read."""


def _of_processes(kind: type, count: int) -> type:
    """The class as it is among so many processes; by itself it asks torch.distributed."""
    return type(kind.__name__, (kind,), {"world_size": property(lambda self: count)})


def _called(kind: type, settings: dict[str, Any]) -> Any:
    return kind(**settings)


def _parsed(kind: type, settings: dict[str, Any]) -> Any:
    from transformers import HfArgumentParser

    parser = HfArgumentParser([kind])
    for action in parser._actions:
        if action.dest in settings:
            action.required = False
    parser.set_defaults(**settings)  # argparse reads a text among them as it would on the command line
    return parser.parse_args_into_dataclasses(args=[])[0]


def _effective(made: Any) -> dict[str, Any]:
    plain = (bool, int, float, str)
    values = {field.name: getattr(made, field.name, None) for field in dataclasses.fields(made)}
    return {name: value for name, value in values.items() if isinstance(value, plain)}
