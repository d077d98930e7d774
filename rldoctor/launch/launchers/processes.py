"""What every launch derives alike: process counts from each other, and the devices that its processes see."""

from __future__ import annotations

from rldoctor.formats.values import scalar
from rldoctor.frameworks.draft import Draft

# The first that is set decides; the names of other vendors' runtimes stand beside CUDA's.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def processes(draft: Draft) -> None:
    """Processes per node from the total and the nodes, and the total from the other two."""
    total, nodes, each = (draft.value(name) for name in ("process.total", "process.nnodes", "process.nproc"))
    if nodes is None and not draft.is_open("process.nnodes"):
        return  # told by a variable that is not known here
    if total and total % (nodes or 1) == 0:
        how = f"{total} processes on {nodes or 1} node(s)"
        draft.derive("process.nproc", total // (nodes or 1), how, "process.total", "process.nnodes")
    elif each:
        how = f"{each} processes on each of {nodes or 1} node(s)"
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
