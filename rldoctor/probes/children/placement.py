"""Runs the trainer's model under the placements that a launch may give it, on devices that are pretended, and records
the first operation that mixes two.

Arguments: ``config`` and ``files`` of the model to stand in for (or None), ``placements`` (names of ``PLACEMENTS``),
``tokens`` and ``rows`` of the batch. Records: ``stage``, ``seconds``, ``versions``, ``miniature``, ``placements`` (a
row each: ``ended`` is ``done``, ``mixed``, ``failed`` or ``unavailable``)."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import miniature
from report import describe, elapsed, emit, run, stage

MIB = 1 << 20


def main(arguments: dict[str, Any]) -> None:
    stage("import")
    import torch
    import transformers

    emit("versions", {"torch": torch.__version__, "transformers": transformers.__version__})
    stage("miniature")
    made = miniature.make(Path("miniature"), arguments["config"], arguments["files"])
    emit("miniature", made)
    if made["weights"] == "dummy":
        return
    import virtual_devices

    torch.manual_seed(miniature.SEED)
    models = {name: load(made["path"]) for name in arguments["placements"]}
    virtual_devices.install()
    rows: list[dict[str, Any]] = []
    for name, model in models.items():
        stage(name)
        rows.append(tried(name, model, batch(model, arguments["rows"], arguments["tokens"])))
        emit("placements", rows)
    emit("seconds", elapsed())


def load(path: str) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(path).eval()


def batch(model: Any, rows: int, tokens: int) -> dict[str, Any]:
    """Token ids and the mask of a batch that is padded on the left, in host memory."""
    import torch

    vocabulary = model.get_input_embeddings().weight.shape[0]
    ids = torch.arange(rows * tokens).reshape(rows, tokens) * 37 % min(vocabulary, 50_000)
    mask = torch.ones_like(ids)
    mask[0, : tokens // 4] = 0
    return {"input_ids": ids, "attention_mask": mask}


def tried(name: str, model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """One placement: what became of it, the operators that were executed, and the first that mixed devices."""
    import torch

    with torch.no_grad():
        row = watched(name, lambda modules: PLACEMENTS[name](model, inputs, modules))
    return {**row, "architecture": type(model).__name__}


def watched(name: str, step: Callable[[Modules], list[str]]) -> dict[str, Any]:
    """What became of something that is done on pretended devices; ``step`` returns which it was meant for."""
    from virtual_devices import MixedDevicesError, Watch

    row: dict[str, Any] = {"placement": name, "ended": "done"}
    began, watch, modules = time.monotonic(), Watch(), Modules()
    try:
        with watch, modules:
            row["devices"] = step(modules)
    except MixedDevicesError as error:
        mixed = {"operator": error.operator, "operands": error.operands, "origins": error.origins}
        row.update(ended="mixed", mixed={**mixed, "module": modules.current(), "frames": describe(error)["frames"]})
    except UnavailableError as reason:
        row.update(ended="unavailable", reason=str(reason))
    except Exception as error:
        row.update(ended="failed", error=describe(error), module=modules.current())
    return {**row, "operators": watch.count, "seconds": round(time.monotonic() - began, 3)}


class UnavailableError(Exception):
    """A placement that cannot be had here, and why."""


class Modules:
    """Knows which module of a model is running, by its name in there."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.running: list[Any] = []

    def __enter__(self) -> None:
        from torch.nn.modules import module

        self.hooks = [
            module.register_module_forward_pre_hook(lambda entered, _: self.running.append(entered)),
            module.register_module_forward_hook(lambda *_: self._left()),
        ]

    def __exit__(self, *_: object) -> None:
        for hook in self.hooks:
            hook.remove()

    def of(self, model: Any) -> Any:
        """Learns a model's names."""
        self.names = {id(module): name for name, module in model.named_modules()}
        return model

    def current(self) -> dict[str, str] | None:
        """Name and class of the innermost module that was running when an exception came."""
        if not self.running:
            return None
        module = self.running[-1]
        return {"name": self.names.get(id(module), ""), "class": type(module).__name__}

    def _left(self) -> None:
        self.running.pop()


def one_device(model: Any, inputs: dict[str, Any], modules: Modules) -> list[str]:
    """A process for each device, as launchers start them: everything on it."""
    step(placed(modules.of(model), "cuda:0"), inputs, "cuda:0")
    return ["cuda:0"]


def second_device(model: Any, inputs: dict[str, Any], modules: Modules) -> list[str]:
    """The second process of a launcher, whose device is the current one."""
    from virtual_devices import current

    with current(1):
        step(placed(modules.of(model), "cuda:1"), inputs, "cuda:1")
    return ["cuda:1"]


def data_parallel(model: Any, inputs: dict[str, Any], modules: Modules) -> list[str]:
    """``nn.DataParallel`` over two devices: torch's own replicas, each run on its device with its part of the batch."""
    from virtual_devices import current, moved

    replicate: Any = importlib.import_module("torch.nn.parallel.replicate")  # a function hides the module
    # How parameters and buffers reach the replicas; NCCL does it on real devices.
    replicate._broadcast_coalesced_reshape = lambda tensors, devices, detach=False: [
        [moved(tensor, f"cuda:{device}") for tensor in tensors] for device in devices
    ]
    replicas = replicate.replicate(placed(model, "cuda:0"), [0, 1], detach=True)
    half = len(inputs["input_ids"]) // 2
    for index, replica in enumerate(replicas):
        part = {name: tensor[index * half : (index + 1) * half] for name, tensor in inputs.items()}
        with current(index):
            step(modules.of(replica), part, f"cuda:{index}")
    return ["cuda:0", "cuda:1"]


def device_map(model: Any, inputs: dict[str, Any], modules: Modules) -> list[str]:
    """``device_map="auto"`` over two devices: accelerate's own split and hooks."""
    try:
        accelerate: Any = importlib.import_module("accelerate")
    except ImportError as error:
        raise UnavailableError(f"accelerate cannot be imported: {error}") from None
    from virtual_devices import put

    whole = list(getattr(model, "_no_split_modules", None) or ())
    if not whole:
        raise UnavailableError(f"{type(model).__name__} does not say which of its modules must stay whole")
    size = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    # How much fits on the first device decides where the split falls.
    for share in (0.5, 0.6, 0.7, 0.4, 0.8, 0.3):
        limits = {0: int(size * share), 1: 2 * size + MIB}
        numbered = accelerate.infer_auto_device_map(model, max_memory=limits, no_split_module_classes=whole)
        if set(numbered.values()) == {0, 1}:
            break
    else:
        raise UnavailableError("the miniature cannot be split over two devices")
    places = {module: f"cuda:{index}" for module, index in numbered.items()}
    # Loading puts each tensor where its module goes; accelerate's hooks move what stands in the modules of the map.
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        owner = next((m for m in sorted(places, key=len, reverse=True) if f"{name}.".startswith(f"{m}.")), None)
        put(tensor, places.get(owner or "", "cuda:0"))
    skipped = getattr(model, "_skip_keys_device_placement", None)
    split = accelerate.dispatch_model(modules.of(model), device_map=places, main_device="cuda:0", skip_keys=skipped)
    step(split, inputs, "cuda:0")
    return ["cuda:0", "cuda:1"]


def placed(model: Any, device: str) -> Any:
    """The model with all that ``Module.to`` would move."""
    from virtual_devices import put

    for tensor in (*model.parameters(), *model.buffers()):
        put(tensor, device)
    return model


def step(model: Any, inputs: dict[str, Any], device: str) -> None:
    """The log-probabilities of the batch's tokens, as a trainer computes them."""
    from virtual_devices import device_of, moved, resolve

    given = {name: moved(tensor, device) for name, tensor in inputs.items()}
    logits = model(**given, use_cache=False).logits[:, :-1]
    reported = logits.float().log_softmax(-1).gather(-1, given["input_ids"][:, 1:].unsqueeze(-1))
    if device_of(reported) != resolve(device):  # then what was seen before proves nothing either
        raise RuntimeError(f"the log-probabilities are on {device_of(reported)}, the batch on {device}")


PLACEMENTS: dict[str, Callable[[Any, dict[str, Any], Modules], list[str]]] = {
    "one device": one_device,
    "second device": second_device,
    "data parallel": data_parallel,
    "device map": device_map,
}


if __name__ == "__main__":
    run(main)
