"""Completions of a rollout and of an optimizer step, for frameworks that count prompts."""

from __future__ import annotations

from rldoctor.frameworks.draft import Draft


def count_completions(draft: Draft) -> None:
    """Every prompt gives a group of completions: prompts x n of a rollout step, mini batch x n of an optimizer step."""
    prompts, mini, n = (draft.value(f"batch.{name}") for name in ("prompts", "mini_prompts", "generations"))
    if prompts and n:
        draft.derive("batch.generation", prompts * n, f"{prompts} prompts x {n}", "batch.prompts", "batch.generations")
    if mini and n:
        draft.derive("batch.train", mini * n, f"{mini} prompts x {n}", "batch.mini_prompts", "batch.generations")
