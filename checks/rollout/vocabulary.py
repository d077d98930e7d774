"""Token ids beyond the model's embedding.

What it looks for
    In a model's files: added tokens and ends of sequence whose ids lie beyond the ``vocab_size`` of ``config.json``. In
    a running environment: the largest id of the whole vocabulary, as transformers loads it, and the embedding's rows.
    In a log: the engine's refusal of such an id, index errors of an embedding, and weights with another number of rows.

Why it hurts
    Embeddings are often padded beyond the tokenizer's vocabulary. Once the policy drifts it samples from the padding,
    and a dialogue that hands such an id back is refused: ``Token id 151708 is out of vocabulary``. A tokenizer that
    was extended without resizing the model indexes beyond the embedding: a device-side assert on the GPU. An end of
    sequence that has no row is never sampled, so every completion runs to its limit, and ``min_tokens``, which forbids
    it for a while, indexes beyond the logits (seen with vLLM 0.32).

How sure it is
    The ids stand in the tokenizer's files. Padding alone is the rule (Qwen2.5 has 152064 rows for 151665 tokens) and no
    finding.

The fix and its cost
    Resize and save the embedding together with config.json before training. Keep sampling inside the tokenizer's
    vocabulary where the engine lets you (``allowed_token_ids``, a logits processor).

References
    https://github.com/vllm-project/vllm/issues/13175, https://github.com/NVIDIA-NeMo/RL/issues/237
    ``_validate_model_input``: https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/v1/engine/processor.py
    https://github.com/huggingface/trl/issues/3112
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rldoctor.api import (
    Case,
    Check,
    Evidence,
    Finding,
    Fix,
    Grade,
    LogEvent,
    NotApplicable,
    NotChecked,
    Reach,
    Severity,
)
from rldoctor.api.facts import ModelFiles
from rldoctor.api.models import cite_config, model_config, text_config

from ..observed.positions import indexes_positions
from ..observed.rollout import require, runs

check = Check("RLD216", "token-out-of-vocabulary", __doc__, before=("RLD305",))

_RESIZE = Fix(
    title="resize the embedding to the tokenizer (model.resize_token_embeddings(len(tokenizer), "
    "pad_to_multiple_of=64)) and save model and tokenizer together, before training and for the engine too",
)
_MASK = Fix(
    title="keep sampling inside the tokenizer's vocabulary: allowed_token_ids, a logit bias or a logits processor that "
    "masks ids from len(tokenizer) on; and drop rollouts that hold such ids",
)


@check.declared(needs=["model.config", "model.tokenizer_config"])
def added_beyond_the_embedding(case: Case) -> Iterator[Finding | Reach]:
    """The added tokens' ids against the embedding's rows."""
    model, config = case.model, model_config(case)
    rows = _rows(config)
    tokens = _added(model)
    ids = [int(key) for key in tokens if str(key).isdecimal()]
    if not isinstance(rows, int) or not ids or model is None:
        raise NotChecked("vocab_size or the added tokens are not known")
    if max(ids) < rows:
        yield Reach(f"added tokens up to {max(ids)}, {rows} rows")
        return
    last = tokens.get(str(max(ids)))
    text = last.get("content", "") if isinstance(last, dict) else ""
    yield check.finding(
        f"the tokenizer has a token {max(ids)} {text!r}, the embedding {rows} rows (vocab_size): the tokenizer was "
        "extended without the model",
        evidence=(
            *cite_config(case, f"vocab_size: {rows}", config.defaulted),
            Evidence(text=f"added token {max(ids)}", source=f"{model.path}/tokenizer_config.json"),
        ),
        fixes=(_RESIZE,),
    )


@check.declared(needs=["model.config"])
def ends_beyond_the_embedding(case: Case) -> Iterator[Finding | Reach]:
    """What ends a sequence, as generation_config.json or else config.json tells, against the embedding's rows."""
    model, shape = case.model, model_config(case)
    assert model is not None
    file, reported = next(
        (
            (file, config["eos_token_id"])
            for file, config in (
                ("generation_config.json", model.generation_config or {}),
                ("config.json", text_config(model.config)),
                ("config.json", model.config),
            )
            if config.get("eos_token_id") is not None
        ),
        ("config.json", None),
    )
    rows = _rows(shape)
    ids = [token for token in (reported if isinstance(reported, list) else [reported]) if isinstance(token, int)]
    if not isinstance(rows, int) or not ids:
        raise NotChecked("vocab_size or eos_token_id is not known")
    beyond = [token for token in ids if token >= rows]
    if not beyond:
        yield Reach(f"ends of sequence {', '.join(map(str, ids))}, {rows} rows")
        return
    never = "" if len(beyond) < len(ids) else ": no completion ends on its own"
    yield check.finding(
        f"{file} names eos_token_id {', '.join(map(str, beyond))}, and the embedding has {rows} rows (vocab_size)"
        f"{never}; min_tokens makes vLLM index beyond the logits",
        severity=Severity.ERROR if never else Severity.WARNING,
        evidence=(
            Evidence(text=f"eos_token_id: {reported}", source=f"{model.path}/{file}"),
            *cite_config(case, f"vocab_size: {rows}", shape.defaulted),
        ),
        fixes=(Fix(title=f"name the tokenizer's end of sequence in {file}"), _RESIZE),
    )


def _rows(config: Mapping[str, Any]) -> object:
    """What the configuration gives for the embedding's rows."""
    return text_config(config).get("vocab_size") or config.get("vocab_size")


def _added(model: ModelFiles | None) -> dict[str, Any]:
    """The added tokens by their ids."""
    tokenizer = (model.tokenizer_config if model is not None else None) or {}
    added = tokenizer.get("added_tokens_decoder")
    return added if isinstance(added, dict) else {}


@check.observed(needs=["observations.tokens"])
def beyond_the_rows(case: Case) -> Iterator[Finding | Reach]:
    """The whole vocabulary against the embedding."""
    for job in runs(case, "tokens"):
        reported = require(job, "tokenizer")
        largest, rows = reported["largest"], reported["rows"]
        if any(str(key).isdecimal() and int(key) >= rows for key in _added(case.model)):
            raise NotApplicable("the tokenizer's files tell it")
        if largest < rows:
            spare = f", {rows - largest - 1} rows of padding" if largest + 1 < rows else ""
            yield Reach(f"token ids up to {largest}, {rows} rows{spare}")
            continue
        yield check.finding(
            f"the tokenizer ({reported['class']}) has token ids up to {largest}, "
            f"the embedding {rows} rows (vocab_size)",
            grade=Grade.OBSERVED,
            evidence=(Evidence(text=f"{reported['size']} tokens, largest id {largest}", source="tokens probe"),),
            fixes=(_RESIZE,),
        )


@check.logged(" is out of vocabulary")
def refused_by_the_engine(case: Case, event: LogEvent) -> Iterator[Finding]:
    """``Token id 151708 is out of vocabulary``."""
    number = event.search(r"Token id (\d+) is out of vocabulary")
    if number is None:
        return
    if int(number[1]) >= 1 << 31:
        yield check.finding(
            f"a prompt holds the token id {number[1]}, which is no id at all: the buffer was read in another dtype or "
            "never written",
            fixes=(
                Fix(
                    title="hand the ids on as a list of Python integers (tolist()), after the copy to the host is done"
                ),
            ),
            url="https://github.com/vllm-project/vllm/issues/26797",
        )
        return
    yield check.finding(
        f"a prompt holds token id {number[1]}, beyond the tokenizer's vocabulary: it was sampled from the padding of "
        "the embedding and handed back, or the tokenizers of trainer and engine differ",
        fixes=(_MASK, _RESIZE),
        url="https://github.com/vllm-project/vllm/issues/13175",
    )


# The trainer's embedding has other rows than the one that the engine loaded.
check.signature(
    "assert loaded_weight.shape[output_dim] == self.org_vocab_size",
    "assert loaded_weight.shape[parallel_dim] == self.num_embeddings",
    says=(
        "the trainer's embedding has another number of rows than config.json gives the engine (it was resized in "
        "memory only)"
    ),
    fixes=(_RESIZE,),
    url="https://github.com/huggingface/trl/issues/3112",
)


def _in_an_embedding(case: Case, event: LogEvent) -> bool:
    error = event.exception
    return error is not None and any("embedding" in f"{f.function} {f.code}" for f in error.frames[-3:])


def _of_any_table(case: Case, event: LogEvent) -> bool:
    """Whether the gather that asserts may be an embedding's: where code of positions fails it is their table's."""
    return not indexes_positions(event.run.root)


# On the CPU other lookups say the same; a profiler's table names the kernel, which only asserts where it fails.
for _literals, _pattern, _when in (
    (("index out of range in self",), None, _in_an_embedding),
    (("Assertion `srcIndex < srcSelectDimSize` failed", "vectorized_gather_kernel"), "Assertion `", _of_any_table),
):
    check.signature(
        *_literals,
        pattern=_pattern,
        when=_when,
        says="an embedding is indexed beyond its rows: token ids of a tokenizer that was extended, or a placeholder id "
        "(-1, -200) that no one replaced",
        fixes=(_RESIZE, Fix(title="find the id: CUDA_LAUNCH_BLOCKING=1, and print the largest and smallest input id")),
    )
