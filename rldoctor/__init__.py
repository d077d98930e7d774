"""rldoctor: a command-line doctor for reinforcement learning of language models with vLLM rollouts."""

from __future__ import annotations

__version__ = "0.1.0"
