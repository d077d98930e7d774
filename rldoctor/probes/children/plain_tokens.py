"""Tokens whose text can be foretold: ASCII, each for itself, whatever stands around them. Parts of a character are
shown late, or as a sign of their own, and not by all in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from running_engine import RunningEngine

# Tokens that are looked at for plain ones.
LOOKED_AT = 2000
# The most that vLLM takes of both: of a few allowed tokens each comes again and again, whatever the model thinks.
EVEN = {"temperature": 2.0, "frequency_penalty": 2.0}


def tokenizer_of(running: RunningEngine) -> Any:
    """The model's tokenizer as transformers has it, or None."""
    if not running.made["tokenizer"]:
        return None
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(running.made["path"])
    except Exception:  # what is wrong with it the tokens scenario says
        return None


def special_tokens(tokenizer: Any) -> set[int]:
    """Those that are named as special, and those that were added: not every release names all of the latter."""
    return set(tokenizer.all_special_ids) | set(getattr(tokenizer, "added_tokens_decoder", {}))


def plain_tokens(running: RunningEngine, tokenizer: Any) -> list[int]:
    """The first plain tokens of the vocabulary; none without a tokenizer."""
    if tokenizer is None:
        return []
    special = special_tokens(tokenizer)  # the engine leaves them out of its text
    looked_at = range(min(running.vocabulary, len(tokenizer), LOOKED_AT))
    return [token for token in looked_at if token not in special and _is_plain(tokenizer, token)]


def space_tokens(tokenizer: Any, plain: int) -> list[int]:
    """Tokens of white space that stay what they are beside a plain one, and at the ends of a text."""
    found = []
    for space in ("\n", "\t", " "):
        ids = list(tokenizer(space, add_special_tokens=False)["input_ids"])
        word = str(tokenizer.decode([plain]))
        around = {(*ids, plain, *ids): space + word + space, (plain, *ids, *ids, plain): word + 2 * space + word}
        if len(ids) == 1 and all(tokenizer.decode(list(given)) == text for given, text in around.items()):
            found += ids
    return found


def joined(tokenizer: Any, tokens: Sequence[int]) -> str | None:
    """The text of a sequence, where the tokenizer makes the same sequence of it."""
    text = str(tokenizer.decode(list(tokens)))
    return text if list(tokenizer(text, add_special_tokens=False)["input_ids"]) == list(tokens) else None


def _is_plain(tokenizer: Any, token: int) -> bool:
    text = tokenizer.decode([token])
    plain = bool(text) and text.isascii() and text.isprintable() and text == text.strip()
    # One that begins a word shows its space only behind others.
    return plain and tokenizer.decode([token, token]) == 2 * text
