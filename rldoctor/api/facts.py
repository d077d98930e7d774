"""The facts of a case: what collectors found of packages, host, GPUs, model files and metrics."""

from __future__ import annotations

from rldoctor.case import Disk, Distribution, Gpu, GpuProcess, Gpus, Host, MigInstance, ModelFiles, Packages, Series
from rldoctor.reads import aside

__all__ = [
    "Disk",
    "Distribution",
    "Gpu",
    "GpuProcess",
    "Gpus",
    "Host",
    "MigInstance",
    "ModelFiles",
    "Packages",
    "Series",
    "aside",
]
