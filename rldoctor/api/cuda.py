"""What a CUDA toolkit, a driver and a wheel can do for a GPU."""

from __future__ import annotations

from rldoctor.knowledge.cuda import architectures_of, driver_for, nccl_of, runs_on, toolkit_knows, toolkit_of

__all__ = [
    "architectures_of",
    "driver_for",
    "nccl_of",
    "runs_on",
    "toolkit_knows",
    "toolkit_of",
]
