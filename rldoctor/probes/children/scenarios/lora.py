"""Adapters on an engine that serves them: applied with their scale, replaced by the next ones under the same name and
under another, refused above the limit, kept from requests that ask for none.

Arguments: ``rank`` and ``alpha`` of the adapters, ``targets`` (names of modules, or None for all linear layers of
attention and feed-forward), ``limit`` (the engine's ``max_lora_rank``), ``response`` (tokens). Records: ``trainer`` (or
``unread`` says why there is none), ``adapters`` (``modules``, ``rank``, ``alpha``, ``strength``), ``rows`` (by ``case``
- ``none``, ``first`` adapter, ``renewed``, one of half the rank under its name, number and path, ``second`` under
others, several completions of each request,
``none again`` after them and, off the CPU, ``beside``, without one in a batch with the second; those of the second
once more as prompts, those of the last two once more in a batch of both - ``token_ids``,
``engine``, and from the trainer ``base``, ``first``, ``renewed``, ``second``, and ``unscaled`` for the first without
its scale), ``refused`` (``rank``, ``exceptions`` or None), ``reach``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from report import chain
from running_engine import RunningEngine, rows, scored
from traffic import Arrival, can_preempt, drive
from trainer import Trainer, TrainerError

ALL = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
REQUESTS = 3
# Of each request with the last adapter: a trainer asks for groups.
COMPLETIONS = 2
# Blocks that each prompt fills: what one adapter has left in the prefix cache no other may take. The last one fills
# more of them: kernels of adapters differ by the tokens of a step.
BLOCKS, LONG = 2, 512
# By how many tokens each answer is longer than the one before: who ends may take its adapter with it.
LONGER = 6
# How far the adapters have to move the trainer's log-probabilities on average, well beyond noise.
MOVED, MOST_DOUBLINGS = 0.5, 6
STRENGTH = 0.05
SAMPLED = {"temperature": 1.0, "logprobs": 1, "ignore_eos": True}
# The adapters after the first one, in the order in which they are served, with the seeds of their numbers. One has a
# scale of its own, which is not the one before's, and seldom a whole number.
OTHERS = {"renewed": 4, "second": 2}
OWN_SCALE = {"renewed": 0.75}
Adapter = dict[str, tuple[Any, Any]]  # module -> A (rank, in), B (out, rank)


def play(running: RunningEngine, arguments: dict[str, Any]) -> None:
    from vllm.platforms import current_platform

    try:
        trainer = Trainer(running)
    except TrainerError as why:
        running.record("unread", {"trainer": str(why)})
        return
    running.record("trainer", trainer.facts())
    base = trainer.weights()
    modules = modules_of(trainer, arguments["targets"])
    rank, alpha = arguments["rank"], arguments["alpha"]
    plain = _sampled(running, arguments, None)
    first, strength = _moving(trainer, base, modules, rank, alpha / rank, plain)
    # What a larger adapter has left in its place is not the next one's.
    ranks = {"first": rank, "renewed": max(rank // 2, 1), "second": rank}
    others = {name: make_adapter(base, modules, ranks[name], strength, seed=seed) for name, seed in OTHERS.items()}
    made = {"first": first, **others}
    reported = {"modules": len(modules), "rank": rank, "alpha": alpha, "strength": strength}
    running.record("adapters", reported)
    scales = {name: alpha / rank * OWN_SCALE.get(name, 1.0) for name in made}
    found, requests = {"none": plain}, {}
    for name, adapter in made.items():
        served = "first" if name == "renewed" else name
        number = list(made).index(served) + 1
        if name == "renewed":
            # As trainers do that keep one name for all their updates.
            running.engine.llm_engine.remove_lora(number)
            running.engine.reset_prefix_cache()
        own = ranks[name]
        folder = write_adapter(Path(f"adapter-{served}"), adapter, own, scales[name] * own)
        request = lora_request(served, number, folder)
        found[name] = _sampled(running, arguments, request, COMPLETIONS if name == "second" else 1)
        requests[name] = request
    both = list(OTHERS) * REQUESTS
    for name, row in zip(both, _sampled(running, arguments, [requests[name] for name in both])):  # noqa: B905
        found[name].append(row)
    found["second"] += _read(running, found["second"], request)
    found["second"] += _preempted(running, arguments, request)
    found["none again"] = _sampled(running, arguments, None)
    # On the CPU vLLM takes "no adapter", -1, as an index of adapters, which is the last one (0.32,
    # vllm/lora/ops/torch_ops/lora_ops.py): no judge of other devices.
    if not current_platform.is_cpu():
        found["beside"] = _sampled(running, arguments, [None, request, None])
        # One that is served with the adapter is told by the others' case.
        found["second"].append(found["beside"].pop(1))
    for name, adapter, scale in (
        ("base", {}, 0.0),
        *((name, adapter, scales[name]) for name, adapter in made.items()),
        ("unscaled", first, 1.0),
    ):
        trainer.load(_merged(base, adapter, scale))
        for sampled in found.values():
            for row in sampled:
                row[name] = trainer.log_probabilities(row["prompt"], row["token_ids"])[0]
    running.record("rows", [{"case": name, **row} for name, sampled in found.items() for row in sampled])
    running.record("refused", _above(running, base, modules, arguments["limit"]))
    tokens = sum(len(row["token_ids"]) for sampled in found.values() for row in sampled)
    running.record(
        "reach",
        {
            "requests": sum(map(len, found.values())),
            "compared_tokens": tokens,
            "longest": _prompts(running, arguments)[-1] + _lengths(arguments)[-1],
            "ranks": 1,
        },
    )


def modules_of(trainer: Trainer, targets: list[str] | None) -> list[str]:
    names = tuple(targets) if targets else ALL
    linear = [n for n, module in trainer.model.named_modules() if isinstance(module, torch.nn.Linear)]
    wanted = [name for name in linear if name.rpartition(".")[2] in names]
    return wanted or [name for name in linear if name.rpartition(".")[2] in ALL]


def make_adapter(base: dict[str, Any], modules: list[str], rank: int, strength: float, seed: int) -> Adapter:
    chance = torch.Generator().manual_seed(seed)
    made = {}
    for module in modules:
        weight = base[f"{module}.weight"]
        rows_, columns = weight.shape
        down = torch.randn(rank, columns, generator=chance) / columns**0.5
        # In parts of what the matrix itself puts out.
        up = torch.randn(rows_, rank, generator=chance) * strength * float(weight.float().std()) * columns**0.5
        made[module] = (down.to(weight.dtype), up.to(weight.dtype))
    return made


def _merged(base: dict[str, Any], adapter: Adapter, scale: float) -> dict[str, Any]:
    """The base weights with ``W + scale * B A`` where there is an adapter."""
    merged = dict(base)
    for module, (down, up) in adapter.items():
        weight = base[f"{module}.weight"]
        added = scale * (up.float() @ down.float()).to(weight.device)
        merged[f"{module}.weight"] = (weight.float() + added).to(weight.dtype)
    return merged


def _moving(
    trainer: Trainer, base: dict[str, Any], modules: list[str], rank: int, scale: float, plain: list[dict[str, Any]]
) -> tuple[Adapter, float]:
    """An adapter that moves the log-probabilities of these completions, and its strength."""
    strength = STRENGTH
    for _ in range(MOST_DOUBLINGS):
        adapter = make_adapter(base, modules, rank, strength, seed=1)
        trainer.load(_merged(base, adapter, scale))
        reported = [trainer.log_probabilities(row["prompt"], row["token_ids"])[0] for row in plain]
        steps = [abs(a - b) for row, now in zip(plain, reported) for a, b in zip(row["engine"], now)]  # noqa: B905
        if sum(steps) / len(steps) >= MOVED:
            break
        strength *= 2
    return adapter, strength


def write_adapter(directory: Path, adapter: Adapter, rank: int, alpha: float) -> str:
    """As PEFT saves an adapter (https://huggingface.co/docs/peft/developer_guides/checkpoint)."""
    from safetensors.torch import save_file

    directory.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for module, (down, up) in adapter.items():
        tensors[f"base_model.model.{module}.lora_A.weight"] = down.contiguous()
        tensors[f"base_model.model.{module}.lora_B.weight"] = up.contiguous()
    save_file(tensors, str(directory / "adapter_model.safetensors"))
    reported = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": sorted({module.rpartition(".")[2] for module in adapter}),
        "bias": "none",
        "lora_dropout": 0.0,
    }
    (directory / "adapter_config.json").write_text(json.dumps(reported))
    return str(directory.resolve())


def lora_request(name: str, number: int, directory: str) -> Any:
    from vllm.lora.request import LoRARequest

    return LoRARequest(name, number, directory)


def _prompts(running: RunningEngine, arguments: dict[str, Any]) -> list[int]:
    """Tokens of the prompts."""
    most = running.limit - _lengths(arguments)[-1] - 1
    return [min(count, most) for count in (*[BLOCKS * running.block + 8] * (REQUESTS - 1), LONG)]


def _lengths(arguments: dict[str, Any]) -> list[int]:
    """Tokens of the answers."""
    return [int(arguments["response"]) + LONGER * number for number in range(REQUESTS)]


def _sampled(
    running: RunningEngine, arguments: dict[str, Any], adapter: Any, completions: int = 1
) -> list[dict[str, Any]]:
    """Answers with one adapter for all prompts, or with as many as there are in a list."""
    from vllm import SamplingParams

    counts, lengths = _prompts(running, arguments), _lengths(arguments)
    many = len(adapter) if isinstance(adapter, list) else len(counts)
    prompts = [running.prompt(counts[i % len(counts)], salt=i) for i in range(many)]
    given = [{**SAMPLED, "n": completions, "max_tokens": lengths[i % len(lengths)]} for i in range(many)]
    asked, parameters = [{"prompt_token_ids": one} for one in prompts], [SamplingParams(**one) for one in given]
    outputs = running.engine.generate(asked, parameters, use_tqdm=False, lora_request=adapter)
    return [
        {"prompt": prompt, "token_ids": row["token_ids"], "engine": row["logprobs"]}
        for prompt, own, output in zip(prompts, given, outputs)  # noqa: B905 - Python 3.9
        for row in rows("lora", own, output)
    ]


def _preempted(running: RunningEngine, arguments: dict[str, Any], adapter: Any) -> list[dict[str, Any]]:
    """Answers that lose their place in the KV cache halfway, where the engine does that when it is told to."""
    if not can_preempt(running):
        return []
    given = {**SAMPLED, "max_tokens": arguments["response"]}
    prompts = [running.prompt(count, salt=10 + i) for i, count in enumerate(_prompts(running, arguments))]
    arrivals = [Arrival(f"preempted {i}", prompt, given, adapter=adapter) for i, prompt in enumerate(prompts)]
    answers = drive(running, arrivals, preempt_at=int(arguments["response"]) // 2).answers
    told = [(one.prompt, answers[one.name]) for one in arrivals]
    return [{"prompt": prompt, "token_ids": a["token_ids"], "engine": a["logprobs"]} for prompt, a in told]


def _read(running: RunningEngine, rows_: list[dict[str, Any]], adapter: Any) -> list[dict[str, Any]]:
    """The same tokens where they are prompts, which trainers ask for that score with the engine."""
    told = scored(running, [[*row["prompt"], *row["token_ids"]] for row in rows_], adapter)
    return [{**row, "engine": values[len(row["prompt"]) :]} for row, values in zip(rows_, told)]  # noqa: B905


def _above(running: RunningEngine, base: dict[str, Any], modules: list[str], limit: int) -> dict[str, Any]:
    """What becomes of an adapter of a larger rank than the engine has room for."""
    rank = 2 * limit
    directory = write_adapter(Path("adapter-above"), make_adapter(base, modules, rank, STRENGTH, seed=3), rank, rank)
    try:
        running.engine.llm_engine.add_lora(lora_request("above", len(OTHERS) + 2, directory))
    except Exception as error:
        return {"rank": rank, "exceptions": chain(error)}
    return {"rank": rank, "exceptions": None}
