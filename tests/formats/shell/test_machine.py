"""What a script asks the machine that runs it, and what stays unknown where the machine is."""

from __future__ import annotations

import pytest

from rldoctor.formats.shell.machine import Device, Machine
from rldoctor.formats.shell.reader import read_shell
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved

NODE = Machine([Device("NVIDIA H100 80GB HBM3", 81559, "9.0")] * 4, {"torch_npu": False, "vllm": True}.get)


def printed(command: str, machine: Machine | None = NODE) -> str | Unresolved:
    """What a script makes of a command's output."""
    script = read_shell(Source(f'run "$({command})"\n', "run.sh"), machine=machine)
    return script.commands[-1].words[1].value


# nvidia-smi 550 on four devices; the pipes as bash runs them
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("nvidia-smi -L | wc -l", "4"),
        ("nvidia-smi --list-gpus 2>/dev/null | wc -l | tr -d ' '", "4"),
        ("nvidia-smi -L | grep -c '^GPU'", "4"),
        ("nvidia-smi --query-gpu=name --format=csv,noheader | wc -l", "4"),
        ("nvidia-smi --query-gpu=name --format=csv,noheader,nounits | head -n 1", "NVIDIA H100 80GB HBM3"),
        ("nvidia-smi --query-gpu=compute_cap,memory.total --format=csv,noheader | head -1", "9.0, 81559 MiB"),
        ("python -c 'import torch; print(torch.cuda.device_count())'", "4"),
        ("python3 -c 'import torch_npu' 2>/dev/null && echo npu || echo gpu", "gpu"),
        ("python3 -c 'import vllm' 2>/dev/null && echo vllm || echo sglang", "vllm"),
        ("[ -n '' ] && echo full || echo empty", "empty"),
        ("command -v nvidia-smi >/dev/null 2>&1 && echo devices || echo none", "devices"),
    ],
)
def test_what_the_machine_answers(command: str, output: str) -> None:
    assert printed(command) == output


@pytest.mark.parametrize(
    "command",
    [
        "nvidia-smi -L | wc -l",
        "python -c 'import torch; print(torch.cuda.device_count())'",
        "python3 -c 'import torch_npu' 2>/dev/null && echo npu || echo gpu",
        "which nvidia-smi && echo devices || echo none",
    ],
)
def test_a_machine_that_is_not_known_answers_nothing(command: str) -> None:
    assert isinstance(printed(command, None), Unresolved)


@pytest.mark.parametrize(
    "command",
    [
        "nvidia-smi -i 0 --query-gpu=name --format=csv,noheader",
        "nvidia-smi --query-gpu=memory.used --format=csv,noheader",
        "nvidia-smi topo -m",
        "python3 -c 'import somewhere' && echo yes || echo no",
        "python3 -c 'import os; print(os.cpu_count())'",
    ],
)
def test_other_questions_stay_open(command: str) -> None:
    assert isinstance(printed(command), Unresolved)


def test_a_branch_that_the_machine_decides() -> None:
    text = "if python3 -c 'import torch_npu' 2>/dev/null; then D=npu; else D=gpu; fi\nrun $D\n"
    script = read_shell(Source(text, "run.sh"), machine=NODE)
    assert script.commands[-1].words[1].value == "gpu"
