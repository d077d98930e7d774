"""The processes of a launch: what its launcher was given, the counts that follow from each other, and the devices."""

from __future__ import annotations

from typing import Any

from rldoctor.counted import counted
from rldoctor.formats.native import Native
from rldoctor.formats.values import Unresolved, convert, scalar, whole
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import at
from rldoctor.plan.model import Setting
from rldoctor.plan.vocabulary import term

# The first that is set decides; the names of other vendors' runtimes stand beside CUDA's.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_PRECISIONS = {"bf16": "bfloat16", "fp16": "float16", "no": "float32", "fp8": "fp8"}


def launcher_setting(option: str, native: Native) -> Setting:
    """A launcher's native setting as a canonical one; a value that cannot be is unknown, with the reason."""
    kind = term(option)
    value: Any = native.value
    if option == "trainer.dtype" and isinstance(value, str | bool):
        value = _PRECISIONS.get("no" if value is False else str(value), value)
    elif option.startswith("trainer.offload_") and isinstance(value, str):
        value = value.lower() not in ("none", "false", "no")
    elif option == "process.nnodes" and isinstance(value, str) and ":" in value:
        value = Unresolved(value, "an elastic number of nodes")
    elif option == "process.nproc" and value in ("gpu", "auto"):
        value = Unresolved(str(value), "all devices that are visible")
    try:
        value = whole(convert(value, kind.kind if kind is not None else "any"))
    except ValueError as error:
        value = Unresolved(native.raw, f"{native.spelled}: {error}")
    if isinstance(value, Unresolved):
        return Setting(unknown=value.why, **at(native))
    return Setting(value=value, **at(native))


def processes(draft: Draft) -> None:
    """Processes per node from the total and the nodes, and the total from the other two."""
    total, nodes, each = (draft.value(name) for name in ("process.total", "process.nnodes", "process.nproc"))
    if total and total % (nodes or 1) == 0:
        how = f"{total} processes on {counted(nodes or 1, 'node')}"
        draft.derive("process.nproc", total // (nodes or 1), how, "process.total", "process.nnodes")
    elif each:
        how = f"{each} processes on each of {counted(nodes or 1, 'node')}"
        draft.derive("process.total", each * (nodes or 1), how, "process.nproc", "process.nnodes")


def devices(draft: Draft, role: str) -> None:
    """The device ids that the launch's processes see, from the environment."""
    name = next((f"env.{name}" for name in _VISIBLE if f"env.{name}" in draft.settings), None)
    text = draft.value(name) if name is not None else None
    if not isinstance(text, str) or name is None:
        return
    listed = [scalar(part.strip()) for part in text.split(",") if part.strip()]
    option = "placement.engine_devices" if role == "server" else "placement.trainer_devices"
    draft.derive(option, listed, f"{name[4:]}={text}", name)
