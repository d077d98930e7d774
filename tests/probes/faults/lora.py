"""Engines that take adapters in a wrong way."""

from __future__ import annotations

from typing import Any


def one_late(llm: Any) -> None:
    """Every adapter takes effect with the next request only."""
    generate = llm.generate
    before: list[Any] = [None]

    def late(*given: Any, lora_request: Any = None, **named: Any) -> Any:
        if lora_request is not None:
            before.append(lora_request)
            lora_request = before[-2]
        return generate(*given, lora_request=lora_request, **named)

    llm.generate = late


def anything_fits(llm: Any) -> None:
    """No rank is too large."""
    llm.llm_engine.add_lora = lambda request: True
