"""A rollout server and the trainer that one file starts are one run."""

from __future__ import annotations

from pathlib import Path

from rldoctor.launch.recognise import read

SERVER = "CUDA_VISIBLE_DEVICES=0 trl vllm-serve --model m --port 8000 --max_model_len 4096 &\n"
TRAINER = """CUDA_VISIBLE_DEVICES=1 accelerate launch --num_processes 1 train.py
"""
SCRIPT = """from trl import GRPOConfig
config = GRPOConfig(use_vllm=True, vllm_mode="server", vllm_server_port={port}{host})
"""


def plans(folder: Path, port: int, host: str = "", server: str = SERVER) -> list[str]:
    (folder / "launch.sh").write_text(server + TRAINER)
    (folder / "train.py").write_text(SCRIPT.format(port=port, host=host))
    found = read(folder / "launch.sh", version_of={"trl": "0.19.1", "vllm": "0.9.1"})
    return [f"{plan.role}{'+server' if plan.server else ''}" for plan in found]


def test_the_port_joins_them_and_the_server_tells_the_engine(tmp_path: Path) -> None:
    assert plans(tmp_path, 8000) == ["trainer+server"]
    (plan,) = read(tmp_path / "launch.sh", version_of={"trl": "0.19.1", "vllm": "0.9.1"})
    assert plan.value("engine.max_model_len") == 4096
    assert plan.value("placement.listen_port") == 8000


def test_one_background_server_is_meant_even_at_another_port(tmp_path: Path) -> None:
    assert plans(tmp_path, 8602) == ["trainer+server"]


def test_a_server_elsewhere_or_another_of_two_is_not(tmp_path: Path) -> None:
    assert plans(tmp_path, 8602, host=', vllm_server_host="10.0.0.7"') == ["server", "trainer"]
    assert plans(tmp_path, 8602, server=SERVER + SERVER.replace("8000", "8001")) == ["server", "server", "trainer"]
