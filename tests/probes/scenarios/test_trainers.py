"""Trainers' own log-probabilities against transformers', as they are and with faults in their source: where
``RLDOCTOR_TRAINERS`` names interpreters that have them (``verl=/path/python openrlhf=/path/python``)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.live import CHILDREN

sys.path.insert(0, str(CHILDREN))

from asked import Asked, batch
from trainers import openrlhf_actor

PYTHONS = dict(one.split("=", 1) for one in os.environ.get("RLDOCTOR_TRAINERS", "").split())
TRAINERS = {"trl": "trl_grpo", "verl": "verl_actor", "openrlhf": "openrlhf_actor"}
MUTATED = Path(__file__).parents[1] / "faults" / "mutated_trainer.py"
# What rounding explains, and what no fault stays below.
EQUAL = 1e-4

VERL, ENGINE, PADDING = (
    "verl.workers.actor.dp_actor",
    "verl.workers.engine.fsdp.transformer_impl",
    "verl.workers.utils.padding",
)
ACTOR, PACKING = "openrlhf.models.actor", "openrlhf.models.ring_attn_utils"
TRL = "trl.trainer.grpo_trainer"
# Releases that have the actor use it, and have the engine beside it already.
FROM_THE_ENGINE_ON = (ENGINE, PADDING)
# A trainer, a module of it, its text and another one, and whether rows are packed.
FAULTS = {
    "verl, temperature not applied": ("verl", VERL, "logits_rmpad.div_(temperature)", "pass", True),
    "verl, a place late": (
        "verl",
        VERL,
        ".squeeze(-1)[:, -response_length - 1 : -1]",
        ".squeeze(-1)[:, -response_length:]",
        True,
    ),
    "verl, logits of the token itself": ("verl", VERL, "shifts=-1, dims=1", "shifts=0, dims=1", True),
    "verl, packed rows see each other": ("verl", VERL, "position_ids=position_ids_rmpad,", "position_ids=None,", True),
    # Without any mask transformers takes the rows apart by their positions.
    "verl, padding is seen": (
        "verl",
        VERL,
        "attention_mask=attention_mask,",
        "attention_mask=attention_mask * 0 + 1,",
        False,
    ),
    "verl engine, temperature not applied": (
        "verl",
        ENGINE,
        "return logits / temperature.clamp(min=1e-8).to(logits.dtype)",
        "return logits",
        True,
    ),
    "verl engine, a place late": (
        "verl",
        PADDING,
        "values[seq_offset - resp_len - 1 : seq_offset - 1]",
        "values[seq_offset - resp_len : seq_offset]",
        True,
    ),
    "verl engine, the last token dropped": (
        "verl",
        PADDING,
        "F.pad(values[seq_offset - resp_len - 1 : seq_offset - 1], (*skip_padding, 0, pad_size))",
        "F.pad(values[seq_offset - resp_len - 1 : seq_offset - 2], (*skip_padding, 0, pad_size + 1))",
        True,
    ),
    "verl engine, packed rows see each other": (
        "verl",
        ENGINE,
        '"position_ids": position_ids_rmpad,',
        '"position_ids": None,',
        True,
    ),
    "verl engine, logits of the token itself": ("verl", ENGINE, "shifts=-1, dims=0", "shifts=0, dims=0", False),
    "OpenRLHF, temperature not applied": (
        "openrlhf",
        ACTOR,
        "self.temperature = temperature",
        "self.temperature = 1.0",
        True,
    ),
    "OpenRLHF, a place late": (
        "openrlhf",
        ACTOR,
        "log_probs = log_probs[:, :-1]",
        "log_probs = log_probs[:, 1:]",
        True,
    ),
    "OpenRLHF, logits of the token itself": (
        "openrlhf",
        ACTOR,
        "torch.roll(sequences, shifts=-1",
        "torch.roll(sequences, shifts=0",
        False,
    ),
    "OpenRLHF, the mask a token late": (
        "openrlhf",
        ACTOR,
        "action_mask.float()",
        "action_mask.float().roll(1, 1)",
        True,
    ),
    "OpenRLHF, packed rows see each other": (
        "openrlhf",
        PACKING,
        "return sequences, position_ids, rolled",
        "return sequences, position_ids * 0 + torch.arange(position_ids.shape[1]), rolled",
        True,
    ),
    "TRL, temperature not applied": ("trl", TRL, "temperature=self.temperature", "temperature=1.0", False),
    "TRL, a place late": (
        "trl",
        TRL,
        "outputs.log_probs[:, -logits_to_keep:]",
        "outputs.log_probs.roll(-1, 1)[:, -logits_to_keep:]",
        False,
    ),
    "TRL, padding is seen": (
        "trl",
        TRL,
        '"attention_mask": attention_mask_batch}',
        '"attention_mask": attention_mask_batch * 0 + 1}',
        False,
    ),
}
DRAWN = random.Random(3)


def _tokens(lengths: tuple[int, ...]) -> list[list[int]]:
    return [[DRAWN.randrange(4, 250) for _ in range(length)] for length in lengths]


PROMPTS, COMPLETIONS = _tokens((16, 40, 77, 120)), _tokens((12, 11, 10, 9))
PLAIN = """
import json, sys, torch
from pathlib import Path
from transformers import AutoModelForCausalLM
sys.path.insert(0, sys.argv[1])
import miniature
miniature.make(Path(sys.argv[2]))
model = AutoModelForCausalLM.from_pretrained(sys.argv[2], torch_dtype=torch.float32).eval()
asked = json.load(sys.stdin)
rows = []
for prompt, completion in zip(asked["prompts"], asked["completions"]):
    with torch.no_grad():
        logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
    told = (logits / asked["temperature"]).log_softmax(-1)
    rows.append(told.gather(-1, torch.tensor(completion)[:, None]).flatten().tolist())
Path(asked["answer"]).write_text(json.dumps(rows))
"""
Apart = Callable[..., float]


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Apart:
    """How far a trainer's log-probabilities are from those of transformers at most."""
    folder = tmp_path_factory.mktemp("trainers")
    truth: list[list[float]] = []

    def ask(python: str, arguments: list[str], **more: Any) -> Any:
        answer = folder / "answer.json"
        answer.unlink(missing_ok=True)
        given = {"prompts": PROMPTS, "completions": COMPLETIONS, "temperature": 0.7, "answer": str(answer), **more}
        hidden = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "WANDB_DISABLED": "true"}
        run = subprocess.run(
            [python, *arguments],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, **hidden},
            check=False,
        )
        assert run.returncode == 0, run.stderr[-2000:]
        return json.loads(answer.read_text())

    def largest(trainer: str, mutation: tuple[str, ...] = (), **flags: bool | None) -> float:
        if trainer not in PYTHONS:
            pytest.skip(f"RLDOCTOR_TRAINERS names no interpreter with {trainer}")
        python, model = PYTHONS[trainer], str(folder / "model")
        if not truth:
            truth.extend(ask(python, ["-c", PLAIN, str(CHILDREN), model]))
        asked: Mapping[str, Any] = {"packing": None, "fused": None, **flags}
        told = ask(python, [str(MUTATED), TRAINERS[trainer], *mutation], model=model, **asked)["log_probabilities"]
        assert [len(row) for row in told] == [len(row) for row in COMPLETIONS]
        pairs = zip(chain(*truth), chain(*told), strict=True)
        return float(max(abs(one - other) for one, other in pairs))

    return largest


@pytest.mark.long
@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_trainer_agrees_with_transformers(apart: Apart, trainer: str, packing: bool) -> None:
    assert apart(trainer, packing=packing) < EQUAL


@pytest.mark.long
@pytest.mark.parametrize("packing", [True, False])
def test_fused_kernels_agree_with_transformers(apart: Apart, packing: bool) -> None:
    assert apart("verl", packing=packing, fused=True) < EQUAL


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_trainer_shows(apart: Apart, fault: str) -> None:
    trainer, module, old, new, packing = FAULTS[fault]
    if trainer in PYTHONS and not _uses(PYTHONS[trainer], module):
        pytest.skip(f"this release does not use {module}")
    assert apart(trainer, (module, old, new), packing=packing) > 20 * EQUAL


def _uses(python: str, module: str) -> bool:
    return _has(python, module) and not (module in FROM_THE_ENGINE_ON and _has(python, VERL))


@cache
def _has(python: str, module: str) -> bool:
    path = module.replace(".", "/") + ".py"
    top = module.partition(".")[0]
    source = f"import importlib.util, os; print(os.path.dirname(importlib.util.find_spec({top!r}).origin))"
    found = subprocess.run([python, "-c", source], capture_output=True, text=True, check=True)
    return (Path(found.stdout.strip()).parent / path).is_file()


def test_prompts_are_padded_on_the_left_and_completions_on_the_right() -> None:
    ids, mask = batch([[1, 2, 3], [4]], [[5], [6, 7]], pad=0)
    assert ids == [[1, 2, 3, 5, 0], [0, 0, 4, 6, 7]]
    assert mask == [[1, 1, 1, 1, 0], [0, 0, 1, 1, 1]]


def test_openrlhf_pads_on_the_right_and_marks_what_follows_the_first_token() -> None:
    asked = Asked("model", [[1, 2, 3], [4]], [[5], [6, 7]], 1.0, packing=None, fused=None)
    ids, mask, actions = openrlhf_actor._batch(asked, pad=0)
    assert ids == [[1, 2, 3, 5], [4, 6, 7, 0]]
    assert mask == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert actions == [[0, 0, 1], [1, 1, 0]]
