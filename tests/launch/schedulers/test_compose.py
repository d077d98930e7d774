"""Docker Compose files, and images that start a program by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.launch.recognise import read
from rldoctor.launch.schedulers import images

SERVED = {"engine.model": "Qwen/Qwen2.5-7B-Instruct", "engine.max_model_len": 16384}


def settings(folder: Path, text: str, name: str = "compose.yaml") -> dict[str, object]:
    (folder / name).write_text(text)
    (plan,) = read(folder / name)
    return {option: setting.value for option, setting in plan.settings.items()}


@pytest.mark.parametrize(
    "command",
    [
        "--model Qwen/Qwen2.5-7B-Instruct --max-model-len 16384",
        '["--model", "Qwen/Qwen2.5-7B-Instruct", "--max-model-len", "16384"]',
        ">\n      --model Qwen/Qwen2.5-7B-Instruct\n      --max-model-len ${LENGTH:-16384}",
    ],
)
def test_a_service_of_an_image_with_a_program_of_its_own(command: str, tmp_path: Path) -> None:
    text = f"services:\n  vllm:\n    image: vllm/vllm-openai:v0.8.5\n    command: {command}\n"
    assert settings(tmp_path, text).items() >= SERVED.items()


def test_an_entry_point_comes_before_the_images(tmp_path: Path) -> None:
    text = (
        "services:\n  train:\n    image: vllm/vllm-openai:latest\n    environment: [VLLM_USE_V1=0]\n"
        "    entrypoint: [bash, -c]\n    command: ['vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 16384']\n"
    )
    assert settings(tmp_path, text).items() >= {**SERVED, "env.VLLM_USE_V1": "0"}.items()


def test_a_service_without_a_command_starts_what_nobody_knows(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services:\n  db:\n    image: postgres:16\n")
    assert read(tmp_path / "compose.yaml") == []


@pytest.mark.parametrize(
    "image", ["vllm/vllm-openai", "docker.io/vllm/vllm-openai:v0.11.0", "h:5000/vllm/vllm-openai@sha256:a"]
)
def test_an_image_by_any_registry_and_tag(image: str) -> None:
    assert images.program(image) == ("vllm", "serve")


@pytest.mark.parametrize("image", ["me/vllm-openai-fork:1", "vllm/vllm-tpu", None, 7])
def test_other_images_are_not_known(image: object) -> None:
    assert images.program(image) == ()


def test_docker_run_hands_arguments_to_the_image(tmp_path: Path) -> None:
    arguments = "--model Qwen/Qwen2.5-7B-Instruct --max-model-len 16384"
    text = f"docker run --gpus all --ipc=host -p 8000:8000 vllm/vllm-openai:v0.8.5 {arguments}\n"
    assert settings(tmp_path, text, "run.sh").items() >= SERVED.items()
    (tmp_path / "run.sh").write_text(text.replace("--gpus all", "--entrypoint echo"))
    assert [plan.framework for plan in read(tmp_path / "run.sh")] == ["generic"]
