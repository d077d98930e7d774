"""How new weights get into a running engine, the way that frameworks have for this vLLM and platform.

Frameworks hand names and tensors to the model's own ``load_weights`` in the worker, one by one
or many at a time. CPU builds keep packed copies of the matrices, which that does not reach; from 0.17 on
``reload_weights`` of the workers packs anew. Read against 0.8.5 to 0.32."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from engine_facts import WORKERS, first
from running_engine import RunningEngine

MODELS = ("model_runner.model", "model_runner.model_runner.model")
# What a layer of experts calls their first matrices. In 0.32 a reload leaves the CPU's kernel with garbage.
EXPERTS = "w13_weight"
# Where the layers keep which of their tensors they are waiting for (vLLM 0.17 on, model_loader/reload/layerwise.py).
LAYERWISE = "vllm.model_executor.model_loader.reload.layerwise"

Weights = Iterable[tuple[str, Any]]


class SyncError(Exception):
    """There is no way to give this engine new weights; the message says why."""


class Sync:
    """One way of giving the engine new weights: ``name``, ``why`` it was chosen, and :meth:`send`.

    Raises :class:`SyncError`."""

    def __init__(self, running: RunningEngine, one_by_one: bool) -> None:
        worker = first(running.engine, WORKERS)
        model = first(worker, MODELS) if worker is not None else None
        if model is None:
            raise SyncError("the engine does not let its model be seen (it runs in processes of its own)")
        self.model = model
        if not any(map(_packed, model.modules())):
            self.name = "model.load_weights, " + ("one by one" if one_by_one else "all at once")
            self.why = "frameworks call it in the engine's worker"
            self._send: Callable[[Weights], Any] = _singly(model) if one_by_one else model.load_weights
            return
        if any(hasattr(module, EXPERTS) for module in model.modules()):
            raise SyncError("this CPU build computes experts wrongly once they were loaded again, unchanged ones too")
        reload = getattr(first(worker, ("model_runner",)), "reload_weights", None)
        if reload is None or "weights_iterator" not in inspect.signature(reload).parameters:
            raise SyncError("this CPU build keeps packed copies of the weights and takes no others while it runs")
        self.name = "reload_weights(weights_iterator)"
        self.why = "this CPU build keeps packed copies of the weights, which load_weights does not reach"
        self._send = lambda weights: _reload(running, model, weights)

    def send(self, weights: Weights) -> None:
        """Raises whatever the engine raises."""
        self._send(list(weights))


def _packed(module: Any) -> bool:
    return callable(vars(module).get("cpu_linear"))


def _reload(running: RunningEngine, model: Any, weights: Weights) -> None:
    """A head that is tied to the embeddings gets the new tensor with them and keeps its packed copy of the old one
    (0.27 to 0.32 log that it failed to load); no framework's way leads here, so that is put right, not reported."""
    running.engine.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights)})
    owners: dict[int, list[Any]] = {}
    for module in model.modules():
        if isinstance(getattr(module, "weight", None), torch.Tensor):
            owners.setdefault(id(module.weight), []).append(module)
    for module in [one for tied in owners.values() if len(tied) > 1 for one in tied if _packed(one)]:
        module.quant_method.process_weights_after_loading(module)


def _singly(model: Any) -> Callable[[Weights], Any]:
    def send(weights: Weights) -> None:
        for pair in weights:
            model.load_weights([pair])

    return send


class Snapshot:
    """What the modules of a model hold, to be put back: a refused update may leave some of them emptied."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._held = [
            (module, dict(module._parameters), dict(module._buffers), set(module._non_persistent_buffers_set))
            for module in model.modules()
        ]

    def put_back(self) -> None:
        for module, parameters, buffers, passing in self._held:
            module._parameters.clear()
            module._parameters.update(parameters)
            module._buffers.clear()
            module._buffers.update(buffers)
            module._non_persistent_buffers_set = passing
        try:
            layerwise = __import__(LAYERWISE, fromlist=["get_layerwise_info"])
        except ImportError:
            return
        for module in self._model.modules():
            layerwise.get_layerwise_info(module).reset()
