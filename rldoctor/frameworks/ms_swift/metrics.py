"""ms-swift logs under TRL's names, with its position in the run."""

from __future__ import annotations

from rldoctor.frameworks.metrics import Metrics

METRICS = Metrics(
    source="https://github.com/modelscope/ms-swift/blob/main/swift/rlhf_trainers/grpo_trainer.py",
    like="trl",
    literals=("global_step/max_steps",),
)
