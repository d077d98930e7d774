"""What the laboratory lacks of vLLM 0.9.1 on a CPU: asynchronous output processing, which V0 has on GPUs.

Nothing is broken by this: vLLM's own post-processing then runs a step late, as it does there."""

from __future__ import annotations

from dataclasses import field, make_dataclass
from typing import Any


def supported() -> None:
    """Lets the platform say so, and the runner call back as ``vllm/worker/model_runner.py`` does; before the boot."""
    from vllm.platforms.cpu import CpuPlatform
    from vllm.worker import cpu_model_runner

    inputs: Any = cpu_model_runner.ModelInputForCPUWithSamplingMetadata
    runner: Any = cpu_model_runner.CPUModelRunner

    callback = ("async_callback", Any, field(default=None))
    execute = runner.execute_model

    def called_back(self: Any, model_input: Any, *reported: Any, **named: Any) -> Any:
        if model_input.async_callback is not None:
            model_input.async_callback()
        return execute(self, model_input, *reported, **named)

    CpuPlatform.is_async_output_supported = classmethod(lambda cls, enforce_eager: True)
    runner._model_input_cls = make_dataclass("WithCallback", [callback], bases=(inputs,), frozen=True)
    runner.execute_model = called_back


supported.before_boot = True  # type: ignore[attr-defined]
