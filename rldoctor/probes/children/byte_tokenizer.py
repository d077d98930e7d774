"""Writes a tokenizer that needs no training: its tokens are the 256 bytes, one of several characters, and the
special ones of a chat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BYTES = 256
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# What byte-level BPE makes a token of several characters of, step by step; a stop string may lie within it.
MERGES = (("Q", "X"), ("QX", "Z"))
# Special tokens come behind all others: that is where they are loaded, whatever ids they were given.
FIRST_SPECIAL = BYTES + len(MERGES)
END = FIRST_SPECIAL + 2
SIZE = FIRST_SPECIAL + len(SPECIAL_TOKENS)
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write(directory: Path, max_length: int) -> None:
    """A tokenizer whose tokens are the 256 bytes, in the printable alphabet of byte-level BPE, what the merges make,
    and a few special ones."""
    vocabulary = {letter: number for number, letter in enumerate(_byte_alphabet())}
    merged = {first + second: BYTES + number for number, (first, second) in enumerate(MERGES)}
    added = [
        {
            "id": FIRST_SPECIAL + number,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, token in enumerate(SPECIAL_TOKENS)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {**vocabulary, **merged}, "merges": [list(pair) for pair in MERGES]},
    }
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    reported = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": SPECIAL_TOKENS[END - FIRST_SPECIAL],
        "pad_token": SPECIAL_TOKENS[0],
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(reported))


def _byte_alphabet() -> list[str]:
    """One printable character for each byte, as GPT-2's byte-level BPE assigns them: printable Latin-1 stands for
    itself, the others follow from U+0100 on (https://github.com/openai/gpt-2/blob/master/src/encoder.py)."""
    themselves = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = iter(range(BYTES, 2 * BYTES))
    return [chr(byte) if byte in themselves else chr(next(others)) for byte in range(BYTES)]
