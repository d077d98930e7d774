"""What a model's ``config.json`` says of its shape, whatever the architecture calls it, and what it means by leaving a
key out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rldoctor.case import Case
from rldoctor.case.lookup import find
from rldoctor.catalogue.check import NotChecked
from rldoctor.model import Evidence
from rldoctor.records import dataclass
from rldoctor.tables.model_defaults import KEYS, SECTIONS, Table

# vLLM 0.10.2, vllm/config: `_get_and_verify_max_len`.
LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
# Rotary scalings whose max_position_embeddings is the scaled length already.
SCALED_ALREADY = ("su", "longrope", "llama3", "default")
HEADS = ("num_attention_heads", "n_head", "num_heads")
TIED = "tie_word_embeddings"
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "n_head_kv")


@dataclass(frozen=True)
class Context:
    """The longest sequence that vLLM accepts for a model, in tokens; ``key`` says which setting limits it."""

    tokens: int
    key: str


class ModelConfig(Mapping[str, Any]):
    """A ``config.json`` as transformers reads it: a key that it leaves out has the default of its configuration class.

    ``release`` gives the transformers there, None where it is not known; it is asked only where releases differ, and
    then an unknown one raises :class:`NotChecked`. A key that is null stays null, and a model with configuration code
    of its own has no defaults here. Iteration and ``in`` speak of what is stated."""

    def __init__(
        self,
        stated: Mapping[str, Any],
        release: Callable[[], str | None],
        *,
        outer: ModelConfig | None = None,
        kind: str | None = None,
    ) -> None:
        self.stated = stated
        self._read: dict[str, tuple[Any, str]] = outer._read if outer is not None else {}
        self._release = release
        self._inner = outer is not None
        named = stated.get("model_type", kind)
        self._kind = named if isinstance(named, str) and not isinstance(stated.get("auto_map"), Mapping) else None

    def __getitem__(self, key: str) -> Any:
        if key not in self.stated:
            return self._default(key)
        value = self.stated[key]
        if key not in SECTIONS or not isinstance(value, Mapping):
            return value
        return ModelConfig(value, self._release, outer=self, kind=self._section(key))

    def __contains__(self, key: object) -> bool:
        return key in self.stated

    def __iter__(self) -> Iterator[str]:
        return iter(self.stated)

    def __len__(self) -> int:
        return len(self.stated)

    @property
    def defaulted(self) -> str:
        """The defaults that were read, in words; empty where everything read is stated."""
        origins: dict[str, list[str]] = {}
        for key, (value, origin) in self._read.items():
            origins.setdefault(origin, []).append(f"{key} {value}")
        said = [f"{', '.join(values)} (default of {origin})" for origin, values in origins.items()]
        return f"not in the file: {'; '.join(said)}" if said else ""

    def _default(self, key: str) -> Any:
        if key == "model_type" and self._kind is not None:
            return self._kind
        # Whether the embeddings are tied is for the whole model to say.
        if key not in KEYS or self._kind is None or (self._inner and key == TIED):
            raise KeyError(key)
        # A language model's settings may stand flat in the configuration of a model that has a section for them.
        sections = () if key == TIED else SECTIONS
        for kind in (self._kind, *(k for section in sections if (k := self._section(section)))):
            value, where = self._value(kind, key)
            if value is not None:
                self._read[key] = (value, f"{kind} in {where}")
                return value
        raise KeyError(key)

    def _value(self, kind: str, key: str) -> tuple[Any, str]:
        table = Table.load("transformers")
        values = table.values(kind, key)
        if len(values) <= 1:
            return (values[0] if values else None), "transformers"
        release = self._release()
        if release is None:
            raise NotChecked(
                f"the model's config.json leaves out {key}, releases of transformers differ in the default of {kind}, "
                "and the release is not known"
            )
        return table.value(kind, key, release), f"transformers {release}"

    def _section(self, section: str) -> str | None:
        values = Table.load("transformers").values(self._kind, section) if self._kind is not None else ()
        return values[-1] if values else None


def model_config(case: Case) -> ModelConfig:
    """The model of a case with the defaults of the transformers there; empty where there is no model."""

    def release() -> str | None:
        found = find(case.packages, "transformers") if case.packages is not None else None
        return found.version if found is not None else None

    return ModelConfig(case.model.config if case.model is not None else {}, release)


def cite_config(case: Case, text: str, defaulted: str) -> tuple[Evidence, ...]:
    """What was read of a ``config.json``, and the defaults that stood in for what it leaves out
    (:attr:`ModelConfig.defaulted`)."""
    source = f"{case.model.path if case.model is not None else ''}/config.json"
    return tuple(Evidence(text=one, source=source) for one in (text, defaulted) if one)


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part that describes the language model."""
    for section in SECTIONS:
        inner = config.get(section)
        if isinstance(inner, Mapping):
            return text_config(inner)
    return config


def number(config: Mapping[str, Any], *keys: str) -> int | None:
    """The first of the keys that holds a positive whole number, stated ones before defaults."""
    for key in sorted(keys, key=lambda key: key not in config):
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def heads(config: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Attention heads and key-value heads; where the latter are not named they are as many."""
    text = text_config(config)
    query = number(text, *HEADS)
    return query, number(text, *KV_HEADS) or query


def feed_forward_width(config: Mapping[str, Any]) -> int | None:
    """The intermediate size of the dense layers."""
    return number(text_config(config), "intermediate_size", "ffn_hidden_size", "n_inner")


def rope_scaling(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The rotary scaling: ``rope_scaling``, in transformers 5 ``rope_parameters``; None where there is none."""
    text = text_config(config)
    for key in ("rope_scaling", "rope_parameters"):
        scaling = text.get(key)
        if isinstance(scaling, Mapping) and rope_type(scaling):
            return scaling
    return None


def rope_type(scaling: Mapping[str, Any]) -> str:
    """The kind of a rotary scaling; older configs say ``type``."""
    return str(scaling.get("rope_type") or scaling.get("type") or "")


def context(config: Mapping[str, Any]) -> Context | None:
    """The context that vLLM derives, or None where the config does not tell (rope scaling incomplete included)."""
    text = text_config(config)
    lengths = {key: value for key in LENGTH_KEYS if (value := number(text, key))}
    if not lengths:
        return None
    key = min(lengths, key=lambda k: lengths[k])
    if "model_max_length" in lengths:  # Cohere: the larger number is the usable one
        key = "model_max_length"
    tokens: float = lengths[key]
    scaling = rope_scaling(config)
    # Gemma 3's length is scaled already.
    if scaling is None or rope_type(scaling) in SCALED_ALREADY or "gemma3" in str(text.get("model_type", "")):
        return Context(int(tokens), key)
    factor = scaling.get("factor", 1.0)
    if rope_type(scaling) == "mrope" or not isinstance(factor, int | float):
        return Context(int(tokens), key)
    if rope_type(scaling) == "yarn":
        original = number(scaling, "original_max_position_embeddings")
        if original is None:
            return None
        tokens, key = original, "original_max_position_embeddings"
    return Context(int(tokens * factor), f"{key} with {rope_type(scaling)} factor {factor:g}")
