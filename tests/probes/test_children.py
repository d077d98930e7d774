"""What holds for every child: it runs wherever the patient does, and its helpers say what they saw."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rldoctor.frameworks import frameworks
from tests.live import CHILDREN
from tests.probes.test_runner import gone

sys.path.insert(0, str(CHILDREN))

import byte_tokenizer
import engine
import miniature
import programs
import ray_bundles
import report
import running_async_engine
import running_engine
from engine_facts import Reader, same_device, tensors

FILES = sorted(CHILDREN.rglob("*.py"))
PATIENT = {
    "torch",
    "vllm",
    "transformers",
    "safetensors",
    "pydantic",
    "accelerate",
    "ray",
    "prometheus_client",
    "hydra",
    "omegaconf",
}

QWEN = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "num_hidden_layers": 28,
    "max_window_layers": 28,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "eos_token_id": 151645,
}


HEADS = {"num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "hidden_size": 1152}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_children_are_python_3_9_and_import_nothing_of_rldoctor(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 9))
    allowed = set(sys.stdlib_module_names) | {other.stem for other in FILES} | PATIENT
    if file.parent.name == "trainers":
        allowed |= {"datasets", *(module for framework in frameworks() for module in framework.modules)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert {alias.name.partition(".")[0] for alias in node.names} <= allowed
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0 and str(node.module).partition(".")[0] in allowed


MIXTRAL = {
    **{key: value for key, value in QWEN.items() if key not in ("max_window_layers", "eos_token_id")},
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "num_local_experts": 4,
    "vocab_size": 512,
}
GEMMA = {
    "model_type": "gemma3_text",
    "num_hidden_layers": 26,
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 4 + ["sliding_attention"] * 2,
}
ASKED = """
import json, sys
from pathlib import Path
import miniature, trainer
told = json.load(sys.stdin)
groups = {}
for name, config in told["configs"].items():
    Path(name).mkdir()
    (Path(name) / "config.json").write_text(json.dumps(config))
    groups[name] = miniature.cache_groups(name)
made = miniature.make(Path("made"), told["experts"])
from safetensors import safe_open
from transformers import AutoModelForCausalLM
one = trainer.Trainer.__new__(trainer.Trainer)
one.model = AutoModelForCausalLM.from_pretrained("made")
with safe_open("made/model.safetensors", "pt") as saved:
    print(json.dumps([groups, sorted(one.as_saved(one.weights())), sorted(saved.keys())]))
"""
CHOSEN = """
import json, sys
from pathlib import Path
import miniature, torch
from transformers import AutoModelForCausalLM
miniature.make(Path("made"), json.load(sys.stdin))
chosen = []
for dtype in (torch.float32, torch.bfloat16):
    model = AutoModelForCausalLM.from_pretrained("made", torch_dtype=dtype).eval()
    with torch.no_grad():
        layers = model(input_ids=torch.arange(512).unsqueeze(0), output_router_logits=True).router_logits
    chosen.append([layer.topk(2).indices.sort().values.tolist() for layer in layers])
print(json.dumps(chosen))
"""


@pytest.mark.engine
def test_what_transformers_makes_of_a_model(patient: Path, tmp_path: Path) -> None:
    configs = {"gemma": GEMMA, "small": miniature.shrink({**GEMMA, **HEADS}), "alike": QWEN, "broken": {"x": 1}}
    groups, sent, saved = told_by(patient, ASKED, {"configs": configs, "experts": MIXTRAL}, tmp_path)
    # 22 sliding layers and 4 full ones share blocks in groups of four; a miniature has one of each.
    assert groups == {"gemma": 7, "small": 2, "alike": 1, "broken": 1}
    # transformers 5 holds the experts of a layer in one tensor, a checkpoint each by itself.
    assert sent == saved and any("experts.3" in name for name in sent)


@pytest.mark.engine
def test_rounding_exchanges_no_experts_of_a_miniature(patient: Path, tmp_path: Path) -> None:
    whole, rounded = told_by(patient, CHOSEN, MIXTRAL, tmp_path)
    assert whole == rounded and len(whole) == 2
    for layer in whole:  # none is idle, so that a fault in any of them shows
        uses = Counter(expert for token in layer for expert in token)
        assert len(uses) == 4 and min(uses.values()) > 128


def told_by(patient: Path, program: str, asked: object, folder: Path) -> Any:
    """The last line that a program in the patient prints, which finds the children's modules; JSON both ways."""
    printed = subprocess.run(
        [patient, "-c", program], cwd=folder, input=json.dumps(asked),
        env={**os.environ, "PYTHONPATH": str(CHILDREN), "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True,
        timeout=120, check=True,
    ).stdout  # fmt: skip
    return json.loads(printed.splitlines()[-1])


@pytest.mark.engine
def test_no_child_shadows_a_module_of_the_patient(patient: Path) -> None:
    site = next((patient.parent.parent / "lib").glob("python3.*")) / "site-packages"
    assert not {file.stem for file in FILES} - {"__init__"} & {entry.name.partition(".")[0] for entry in site.iterdir()}


class TestShrink:
    """The same architecture in small."""

    def test_heads_keep_their_ratio_and_vocabulary_and_positions_stay(self) -> None:
        small = miniature.shrink(QWEN)
        assert (small["num_attention_heads"], small["num_key_value_heads"], small["hidden_size"]) == (7, 1, 7 * 64)
        assert small["num_hidden_layers"] == small["max_window_layers"] == 2
        for key in ("architectures", "vocab_size", "max_position_embeddings", "eos_token_id"):
            assert small[key] == QWEN[key]

    def test_few_query_heads_share_each_of_two_kv_heads(self) -> None:
        small = miniature.shrink({**QWEN, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096})
        assert (small["num_attention_heads"], small["num_key_value_heads"], small["hidden_size"]) == (8, 2, 8 * 64)

    def test_every_head_its_own_kv_head_stays_so(self) -> None:
        small = miniature.shrink({**QWEN, "num_attention_heads": 32, "num_key_value_heads": 32, "hidden_size": 4096})
        assert (small["num_attention_heads"], small["num_key_value_heads"]) == (2, 2)

    def test_rope_settings_that_count_parts_of_a_head_keep_it(self) -> None:
        rope = {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
        small = miniature.shrink({**QWEN, "rope_scaling": rope, "head_dim": 96})
        assert small["rope_scaling"] == rope and small["head_dim"] == 96

    def test_layers_of_every_kind_are_kept(self) -> None:
        kinds = ["sliding_attention"] * 5 + ["full_attention"]
        small = miniature.shrink({**QWEN, "layer_types": kinds * 4})
        assert small["layer_types"] == ["sliding_attention", "full_attention"] and small["num_hidden_layers"] == 2
        counted = miniature.shrink({**QWEN, "sliding_window_pattern": 6})
        assert counted["sliding_window_pattern"] == counted["num_hidden_layers"] == 2
        alike = miniature.shrink({**QWEN, "layer_types": ["full_attention"] * 24})
        assert alike["layer_types"] == ["full_attention"] * 2

    def test_windows_are_shorter_than_the_traffic(self) -> None:
        assert miniature.shrink({**QWEN, "sliding_window": 4096})["sliding_window"] == 128
        assert miniature.shrink({**QWEN, "sliding_window": 64})["sliding_window"] == 64
        assert miniature.shrink({**QWEN, "sliding_window": None})["sliding_window"] is None
        assert miniature.shrink({**QWEN, "attention_chunk_size": 8192})["attention_chunk_size"] == 128
        some = {**QWEN, "use_sliding_window": True, "sliding_window": 4096, "num_hidden_layers": 28}
        assert miniature.shrink({**some, "max_window_layers": 21})["max_window_layers"] == 1
        assert miniature.shrink({**some, "max_window_layers": 28})["max_window_layers"] == 2

    def test_experts_become_few(self) -> None:
        small = miniature.shrink({**QWEN, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768})
        assert (small["num_experts"], small["num_experts_per_tok"], small["moe_intermediate_size"]) == (8, 2, 256)

    def test_what_would_need_the_real_weights_or_code_is_dropped(self) -> None:
        small = miniature.shrink({**QWEN, "quantization_config": {"quant_method": "fp8"}, "auto_map": {"x": "y"}})
        assert not {"quantization_config", "auto_map"} & small.keys()


def test_the_tokenizer_has_a_letter_for_every_byte(tmp_path: Path) -> None:
    byte_tokenizer.write(tmp_path, 2048)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(258)) and vocabulary["QXZ"] == 257
    assert (vocabulary["A"], vocabulary["Ġ"], vocabulary["Ċ"]) == (65, 32, 10)
    assert [token["id"] for token in tokenizer["added_tokens"]] == [258, 259, 260]


def test_exceptions_are_reported_outermost_first_with_how_they_hang_together() -> None:
    def fail() -> None:
        try:
            int("x")
        except ValueError:
            raise KeyError("hidden") from None

    try:
        try:
            fail()
        except KeyError as error:
            raise RuntimeError("outer") from error
    except RuntimeError as error:
        links = report.chain(error)
    assert [(link["type"], link["link"]) for link in links] == [
        ("RuntimeError", None),
        ("KeyError", "cause"),
        ("ValueError", "suppressed"),
    ]
    assert links[1]["frames"][-1]["function"] == "fail"


def test_a_chain_without_end_has_one() -> None:
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert len(report.chain(first)) == 2


def test_files_belong_to_the_package_they_were_installed_as(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/venv/lib/site-packages", *sys.path])
    assert report.package_of("/venv/lib/site-packages/vllm/v1/engine/core.py") == "vllm"
    assert (
        report.package_of("/venv/lib/site-packages/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so")
        == "flash_attn_2_cuda"
    )
    assert report.package_of(json.__file__) == "python"
    assert report.package_of("/elsewhere/train.py") is None


@pytest.mark.parametrize(("value", "plain"), [(float("nan"), "nan"), (float("-inf"), "-inf"), ({1: (2,)}, {"1": [2]})])
def test_records_are_what_json_can_carry(value: object, plain: object) -> None:
    assert report._plain(value) == plain


class Tensor:
    shape = (2, 2)

    def __init__(self, device: str) -> None:
        self.device = device


def test_tensors_are_found_in_nested_caches() -> None:
    nested = [[Tensor("cpu")], {"layer": (Tensor("meta"), None)}]
    assert [name for name, _ in tensors(nested, "cache")] == ["cache[0][0]", "cache[1].layer[0]"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("cuda", "cuda:0", True), ("cuda:0", "cuda:1", False), ("cpu", "cuda", False), ("cpu", "cpu", True)],
)
def test_an_open_index_matches_any(one: str, other: str, same: bool) -> None:
    assert same_device(one, other) is same


def test_an_engine_whose_attributes_are_elsewhere_is_unread_not_absent() -> None:
    class Llm:
        llm_engine: Any = type("LLMEngine", (), {"__module__": "vllm.v1.engine.llm_engine"})()

    reader = Reader(Llm())
    assert reader.configuration() == {"engine": "V1", "attention_backend": None}
    assert reader.devices() == {"expected": None, "kv_cache": {"count": {}, "elsewhere": {}}}
    assert reader.rotary() == []
    assert {"max_model_len", "vllm_config", "devices.expected", "attention_backend"} <= reader.unread.keys()


@pytest.mark.parametrize("vocabulary", [40, 259, 152064])
def test_prompts_are_ordinary_tokens_of_the_vocabulary(vocabulary: int) -> None:
    prompt = running_engine.RunningEngine(None, {}, {"config": {"vocab_size": vocabulary}}).prompt(24)
    assert len(prompt) == 24 and min(prompt) >= 0 and max(prompt) < vocabulary


class TestOnAGpu:
    """What the children ask of vLLM where a GPU is, which this machine need not have."""

    def test_the_driver_is_asked_for_the_device_and_cuda_is_not_started(self, monkeypatch: pytest.MonkeyPatch) -> None:
        capability = SimpleNamespace(major=7, minor=5)
        platform = SimpleNamespace(
            is_cuda_alike=lambda: True, get_device_name=lambda _: "T4", get_device_capability=lambda _: capability
        )
        # Whatever else torch.cuda were asked would fail here, as it would start CUDA there.
        torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: True), version=SimpleNamespace(cuda="12.6"))
        for name, module in {"torch": torch, "vllm": None, "vllm.platforms": platform}.items():
            monkeypatch.setitem(sys.modules, name, module or SimpleNamespace())
        platform.current_platform = platform
        assert engine.gpu() == ("T4", (7, 5))
        assert engine.versions()["device_name"] == "T4"
        made = {"path": "miniature", "tokenizer": True, "weights": "written"}
        assert engine.engine_options(made, {})["dtype"] == "half"
        assert engine.engine_options(made, {"dtype": "float32"})["dtype"] == "float32"
        capability.major = 9
        assert "dtype" not in engine.engine_options(made, {})
        assert engine.engine_options(made, {"enforce_eager": False})["enforce_eager"] is False

    @pytest.mark.parametrize(("chosen", "asked"), [(False, 1), (True, 0), (None, 0)])
    def test_vllm_chooses_between_its_engines_in_the_first_thread(
        self, monkeypatch: pytest.MonkeyPatch, chosen: bool | None, asked: int
    ) -> None:
        threads = []

        class AsyncEngineArgs:
            def __init__(self, **options: Any) -> None:
                assert options == {"model": "miniature"}

            def create_engine_config(self) -> None:
                threads.append(threading.current_thread())

        envs = SimpleNamespace() if chosen is None else SimpleNamespace(set_vllm_use_v1=0, is_set=lambda _: chosen)
        arguments = SimpleNamespace(AsyncEngineArgs=AsyncEngineArgs)
        modules = {"vllm": SimpleNamespace(envs=envs), "vllm.envs": envs, "vllm.engine": SimpleNamespace()}
        for name, module in {**modules, "vllm.engine.arg_utils": arguments}.items():
            monkeypatch.setitem(sys.modules, name, module)
        running_async_engine._choose({"model": "miniature"})
        assert threads == [threading.main_thread()] * asked


@pytest.mark.parametrize(("most", "tops"), [(None, 5), (-1, 5), (20, 5), (2, 2), (0, 0)])
def test_no_more_tops_are_asked_for_than_the_engine_gives(most: int | None, tops: int) -> None:
    assert running_engine.RunningEngine(None, {"max_logprobs": most}, {}).tops(5) == tops


SHARED_MEMORY = """
import subprocess, sys
from multiprocessing.shared_memory import SharedMemory
import held

counted = held.SharedMemory()
own = SharedMemory(create=True, size=1)
first = counted.look()
other = "from multiprocessing.shared_memory import *; kept = SharedMemory(create=True, size=1); print(); input()"
with subprocess.Popen(
    [sys.executable, "-c", other], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
) as beside:
    beside.stdout.readline()
    second = counted.look()
    beside.communicate(b"\\n")
own.close()
left = counted.look()
own.unlink()
print(first, second, left, counted.look())
"""


@pytest.mark.parametrize(
    ("module", "tokenizer", "steerable"),
    [
        ("vllm.engine.llm_engine", False, False),
        ("vllm.engine.llm_engine", True, True),
        ("vllm.v1.engine.llm_engine", False, True),
    ],
)
def test_v0_asks_its_tokenizer_for_the_tokens_that_a_request_names(
    module: str, tokenizer: bool, steerable: bool
) -> None:
    kind = type("LLMEngine", (), {"__module__": module})
    engine = SimpleNamespace(llm_engine=kind())
    assert running_engine.RunningEngine(engine, {}, {"tokenizer": tokenizer}).steerable is steerable


def test_shared_memory_is_that_of_the_own_processes_also_when_nobody_uses_it_any_more() -> None:
    command = [sys.executable, "-c", SHARED_MEMORY]
    environ = {**os.environ, "PYTHONPATH": str(CHILDREN)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, start_new_session=True, timeout=60)
    assert done.stdout.split() == ["1", "1", "1", "0"], done.stderr


@pytest.mark.parametrize(
    ("began", "ended", "offset"),
    [
        (100.4, 102.0, 0.0),  # asked at 100, answered at 103 by our clock
        (60.1, 61.9, -39.9),
        (141.0, 143.5, 40.5),
        (100.2, 103.3, 0.0),  # less than clocks that are kept differ by
    ],
)
def test_of_a_nodes_clock_only_what_is_sure_is_told(began: float, ended: float, offset: float) -> None:
    bundle = ray_bundles._with_offset('{"node": {"host": "n1"}}', 100.0, began, ended, 103.0)
    assert json.loads(bundle) == {"node": {"host": "n1", "clock_offset": offset}}


def test_a_program_beside_a_child_is_read_to_its_end(tmp_path: Path) -> None:
    source = "import sys; print(sys.stdin.read().upper()); sys.exit(3)"
    assert programs.ended([sys.executable, "-c", source], "word", os.environ, tmp_path, 60) == (3, "WORD\n")


def test_a_program_that_does_not_end_is_killed_with_what_it_started(tmp_path: Path) -> None:
    marker = f"below {tmp_path}"
    source = (
        "import pathlib, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', {marker!r}])\n"
        "pathlib.Path('began').touch()\n"
        "time.sleep(600)"
    )
    assert programs.ended([sys.executable, "-c", source], "", os.environ, tmp_path, 10) == (None, "")
    assert (tmp_path / "began").exists()
    assert gone(marker, seconds=60)
