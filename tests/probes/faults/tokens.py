"""Tokenizers that do not fit, and an engine that keeps the end of a completion to itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import running_engine
import transformers


def _loaded(change: Callable[[Any], None]) -> None:
    """Every tokenizer that is loaded from now on is changed."""
    load = transformers.AutoTokenizer.from_pretrained

    def changed(*given: Any, **named: Any) -> Any:
        tokenizer = load(*given, **named)
        change(tokenizer)
        return tokenizer

    transformers.AutoTokenizer.from_pretrained = changed


def raising_template(llm: Any) -> None:
    """A template that takes no roles but its own."""
    words = "{{ raise_exception('Conversation roles must alternate user/assistant') }}"
    _loaded(lambda tokenizer: setattr(tokenizer, "chat_template", words))


def begun_twice(llm: Any) -> None:
    """A template that writes the beginning of a sequence twice."""

    def change(tokenizer: Any) -> None:
        tokenizer.bos_token = "<|endoftext|>"
        tokenizer.chat_template = "{{ bos_token }}{{ bos_token }}" + tokenizer.chat_template

    _loaded(change)


def grown(llm: Any) -> None:
    """A tokenizer with tokens that the model has no embedding for."""
    _loaded(lambda tokenizer: tokenizer.add_tokens(["<think>", "</think>"]))


def another_end_of_turn(llm: Any) -> None:
    """A template that ends turns with a token at which nothing stops."""
    # The model's generation_config.json names the two others.
    words = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}<|im_start|>\n{% endfor %}"
    _loaded(lambda tokenizer: setattr(tokenizer, "chat_template", words))


def end_left_out(llm: Any) -> None:
    """Completions without the token that ended them."""
    generate = running_engine.RunningEngine.generate

    def cut(*given: Any) -> list[dict[str, Any]]:
        rows = generate(*given)
        for row in rows:
            if row["finish_reason"] == "stop":
                row["token_ids"] = row["token_ids"][:-1]
        return rows

    vars(running_engine)["RunningEngine"].generate = cut
