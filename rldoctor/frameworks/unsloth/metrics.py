"""unsloth logs under TRL's names."""

from __future__ import annotations

from rldoctor.frameworks.metrics import Metrics

METRICS = Metrics(
    source="https://github.com/unslothai/unsloth/blob/main/unsloth/models/rl_replacements.py",
    like="trl",
)
