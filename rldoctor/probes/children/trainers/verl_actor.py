"""verl's log-probabilities of completions, as its loss takes them.

Run with 0.4.1, 0.5.0, 0.6.1, 0.7.1, 0.8.0 and 0.9.1: up to 0.7 the actor (``verl/workers/actor/dp_actor.py``), from
0.8 on the engine (``verl/workers/engine/fsdp/transformer_impl.py``) between the two functions that take padding off a
batch and put it back (``verl/workers/utils/padding.py``). Both get the model as transformers makes it, in place of its
shards."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Any

from asked import (
    Asked,
    Told,
    batch,
    keeps_rows_apart,
    model_of,
    pad_of,
    plain_flash_attention,
    without_autocast,
)


class Settings(dict[str, Any]):
    """A configuration in which everything that is not given is None."""

    __getattr__ = dict.get


def own(asked: Asked) -> Told:
    plain_flash_attention()
    without_autocast()
    _one_process()
    from verl.models.transformers.monkey_patch import apply_monkey_patch

    model = model_of(asked)
    # verl removes padding unless it is told not to, and leaves the kernels out unless it is told to.
    packing, fused = asked.packing is not False and keeps_rows_apart(model, asked), bool(asked.fused)
    apply_monkey_patch(
        model=model,
        use_remove_padding=packing,
        use_fused_kernels=fused,
        fused_kernels_backend="torch" if fused else None,
    )
    data = _data(asked)
    try:
        module = importlib.import_module("verl.workers.actor.dp_actor")
    except ModuleNotFoundError:
        what, rows = _engine(model, data, packing, fused)
    else:
        what, rows = _actor(module, model, data, packing, fused)
    flags = f"use_remove_padding={packing}, use_fused_kernels={fused}"
    return Told(f"verl {importlib.metadata.version('verl')}, {what} with {flags}", rows)


def _data(asked: Asked) -> Any:
    """The batch as the trainer makes it from prompts and completions."""
    import torch
    from verl import DataProto
    from verl.utils.model import compute_position_id_with_mask

    ids, mask = (torch.tensor(one) for one in batch(asked.prompts, asked.completions, pad_of(asked)))
    width = max(map(len, asked.completions))
    tensors = {
        "prompts": ids[:, :-width],
        "responses": ids[:, -width:],
        "input_ids": ids,
        "attention_mask": mask,
        "response_mask": mask[:, -width:],
        "position_ids": compute_position_id_with_mask(mask),
    }
    told = {"temperature": asked.temperature, "micro_batch_size": len(ids), "use_dynamic_bsz": False}
    return DataProto.from_dict(tensors=tensors, meta_info=told)


def _actor(module: Any, model: Any, data: Any, packing: bool, fused: bool) -> tuple[str, Any]:
    import torch

    # Without a GPU releases up to 0.6 have nothing that packs rows, and up to 0.5 they fail where they log its memory.
    packs = vars(importlib.import_module("flash_attn.bert_padding"))
    vars(module).update({name: value for name, value in packs.items() if not name.startswith("_")})
    torch.cpu.memory_allocated = torch.cpu.memory_reserved = lambda: 0
    torch.cpu.mem_get_info = lambda: (0, 0)
    actor = module.DataParallelPPOActor
    config = Settings(
        use_remove_padding=packing,
        use_fused_kernels=fused,
        use_torch_compile=False,
        ulysses_sequence_parallel_size=1,
        fsdp_config=Settings(dtype="float32"),
    )
    told = actor(config, model).compute_log_prob(data)
    told = told["log_probs"] if isinstance(told, dict) else told[0] if isinstance(told, tuple) else told
    return f"{actor.__name__}.compute_log_prob", told


def _engine(model: Any, data: Any, packing: bool, fused: bool) -> tuple[str, Any]:
    import torch
    from verl.utils import tensordict_utils
    from verl.workers.engine.fsdp import transformer_impl
    from verl.workers.utils.padding import left_right_2_no_padding, no_padding_2_padding

    class Engine(transformer_impl.FSDPEngineWithLMHead):  # type: ignore[misc]  # verl is not installed beside the doctor
        """One that is given its model: verl's own shards it over GPUs."""

        def __init__(self) -> None:
            self.module = model
            self.engine_config = Settings()
            self.use_ulysses_sp, self.ulysses_sequence_parallel_size = False, 1
            self.pad_to_length = False
            self._autocast_dtype = torch.float32

    # It knows no platform without a GPU.
    vars(transformer_impl).update(get_device_id=lambda: "cpu", get_device_name=lambda: "cpu")
    rows = left_right_2_no_padding(data.to_tensordict())
    tensordict_utils.assign_non_tensor(
        rows, use_remove_padding=packing, use_fused_kernels=fused, calculate_entropy=False, compute_loss=False
    )
    with torch.no_grad():
        _, told = Engine().forward_step(rows, loss_function=None, forward_only=True)
    return "FSDPEngineWithLMHead.forward_step", no_padding_2_padding(told["model_output"]["log_probs"], rows)


def _one_process() -> None:
    """The group that verl's workers are in, of one."""
    import tempfile

    import torch.distributed

    store = f"file://{tempfile.mkdtemp()}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
