"""vLLM's own launches: ``vllm serve``, module entry points, ``LLM(...)``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rldoctor.edits.edit import apply, save
from rldoctor.frameworks import by_name
from rldoctor.launch.recognise import read
from rldoctor.model import Edit
from rldoctor.plan.model import RolloutPlan, Source
from rldoctor.tables.options import Option, OptionSet
from tests.frameworks.conftest import Launches


def plan(tmp_path: Path, text: str, name: str = "serve.sh", **more: object) -> RolloutPlan:
    (tmp_path / name).write_text(text)
    (found,) = read(tmp_path / name, **more)  # type: ignore[arg-type]
    return found


def known(owner: str, group: str | None) -> OptionSet | None:
    if owner != "vllm":
        return None
    names = {
        "model": Option("model", type="str"),
        "max_model_len": Option("max_model_len", None, "int?"),
        "max_num_seqs": Option("max_num_seqs", 256),
        "gpu_memory_utilization": Option("gpu_memory_utilization", 0.9),
        "port": Option("port", 8000),
    }
    return OptionSet(names, source=f"vllm 1.0 ({group})", abbreviations=True)


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve org/model --max-model-len 4096 -tp 2 --seed 3",
        "vllm serve --model org/model --max_model_len=4096 --tensor_parallel_size 2 --seed=3",
        "python -m vllm.entrypoints.openai.api_server --model org/model --max-model-len 4096 -tp 2 --seed 3",
    ],
)
def test_every_entry_point_gives_the_same_engine(tmp_path: Path, command: str) -> None:
    found = plan(tmp_path, command)
    assert (found.framework, found.role) == ("vLLM", "server")
    assert found.value("engine.model") == "org/model"
    assert found.value("engine.max_model_len") == 4096
    assert found.value("engine.tensor_parallel_size") == 2
    assert found.value("seed.engine") == 3
    assert found.unread == ()


def test_the_engine_and_its_sampling_in_a_script(tmp_path: Path) -> None:
    text = (
        "from vllm import LLM, SamplingParams\nllm = LLM('m', max_model_len=8)\np = SamplingParams(n=4, max_tokens=7)\n"
    )
    found = plan(tmp_path, text, "x.py")
    assert found.role == "engine"
    assert found.value("engine.model") == "m"
    assert found.value("sampling.n") == 4
    assert found.value("sampling.max_tokens") == 7


@pytest.mark.parametrize(("text", "tokens"), [("8k", 8000), ("8K", 8192), ("1.5k", 1500), ("auto", None), ("-1", None)])
def test_lengths_as_vllms_parser_takes_them(tmp_path: Path, text: str, tokens: int | None) -> None:
    found = plan(tmp_path, f"vllm serve m --max-model-len={text}")
    setting = found.settings["engine.max_model_len"]
    assert (setting.value, setting.unknown) == (tokens, None)


def test_json_and_dotted_options(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        "vllm serve m --hf-overrides '{\"rope_theta\": 1}' --compilation-config.level 3 "
        "--compilation-config.cache_dir=x",
    )
    assert found.value("engine.hf_overrides") == {"rope_theta": 1}
    assert found.value("engine.compilation_config") == {"level": 3, "cache_dir": "x"}


def test_a_config_file_counts_and_the_command_line_wins(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("max-model-len: 1024\nenforce-eager: true\n")
    found = plan(tmp_path, "vllm serve m --config c.yaml --max-model-len 2048")
    assert found.value("engine.max_model_len") == 2048
    assert found.value("engine.enforce_eager") is True


def test_defaults_come_from_the_options_of_the_version(tmp_path: Path) -> None:
    found = plan(tmp_path, "vllm serve m --max-model-len 8", known=known, version_of={"vllm": "1.0"})
    setting = found.settings["engine.max_num_seqs"]
    assert (setting.value, setting.source, setting.key) == (256, Source.DEFAULT, "max_num_seqs")
    assert found.settings["engine.max_model_len"].source is Source.GIVEN
    assert found.value("placement.listen_port") == 8000


def test_an_option_that_the_version_lacks_is_named_with_the_nearest_real_one(tmp_path: Path) -> None:
    found = plan(tmp_path, "vllm serve m \\\n --max-model-length 8 --max-num-s 4 --frobnicate", known=known)
    assert [(u.key, u.line, u.nearest) for u in found.unknown] == [
        ("--max-model-length", 2, ("max_model_len",)),
        ("--frobnicate", 2, ()),
    ]


def test_without_a_table_no_option_is_called_unknown(tmp_path: Path) -> None:
    assert plan(tmp_path, "vllm serve m --frobnicate 3").unknown == ()


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("engine.max_model_len", 4096, "--max-model-len 4096"),
        ("engine.enforce_eager", True, "--enforce-eager"),
        ("engine.enable_chunked_prefill", False, "--no-enable-chunked-prefill"),
        ("engine.hf_overrides", {"a": "b c"}, '--hf-overrides \'{"a": "b c"}\''),
        ("env.VLLM_USE_V1", 0, "export VLLM_USE_V1=0"),
    ],
)
def test_fixes_are_spelled_as_vllm_spells_options(tmp_path: Path, option: str, value: object, text: str) -> None:
    dialect = by_name("vllm")
    assert dialect is not None
    assert dialect.spell(Edit(option=option, value=value), plan(tmp_path, "vllm serve m")).text == text


def test_short_names_are_the_long_ones(launches: Callable[..., list[RolloutPlan]]) -> None:
    command = 'vllm serve org/model -tp 2 -dp=4 -O3 -cc.mode 3 -sc \'{"method": "ngram"}\' -asc 2 -q fp8'
    (found,) = launches({"run.sh": f"{command}\n"}, vllm="0.32.0")
    assert found.unknown == ()
    assert found.value("engine.tensor_parallel_size") == 2 and found.value("engine.data_parallel_size") == 4
    assert found.value("engine.compilation_config") == {"mode": 3}
    assert found.value("engine.speculative_config") == {"method": "ngram"}
    (level,) = launches({"run.sh": "vllm serve org/model -O '{\"level\": 3}' -O.backend=eager\n"}, vllm="0.10.0")
    assert level.value("engine.compilation_config") == {"level": 3, "backend": "eager"} and level.unknown == ()


def test_a_short_name_that_the_release_lacks_is_refused(launches: Callable[..., list[RolloutPlan]]) -> None:
    (found,) = launches({"run.sh": "vllm serve org/model -ep -zz\n"}, vllm="0.11.0")
    assert [(option.key, option.nearest) for option in found.unknown] == [
        ("-ep", ("enable_expert_parallel",)),
        ("-zz", ()),
    ]


@pytest.mark.parametrize("release", ["0.8.5", "0.10.2", "0.11.0"])
def test_choices_that_vllm_gathers_when_it_runs_are_not_known(launches: Launches, release: str) -> None:
    (plan,) = launches({"run.sh": "vllm serve org/model --reasoning-parser qwen3\n"}, vllm=release)
    assert plan.refused == ()


def test_a_short_option_is_mended_where_it_stands(tmp_path: Path) -> None:
    found = plan(tmp_path, "vllm serve org/model -tp 2 --seed 3\n")
    dialect = by_name("vLLM")
    assert dialect is not None
    edited = apply([dialect.spell(Edit(option="engine.tensor_parallel_size", value=4), found)])
    save(edited)
    assert (tmp_path / "serve.sh").read_text() == "vllm serve org/model -tp 4 --seed 3\n"


@pytest.mark.parametrize(
    ("parser", "refused"),
    [
        ("argparse.ArgumentParser()", False),  # its options are its own
        ("EngineArgs.add_cli_args(argparse.ArgumentParser())", True),
    ],
)
def test_options_of_a_script_with_a_parser_of_its_own(launches: Launches, parser: str, refused: bool) -> None:
    script = f"""import argparse
from vllm import LLM, EngineArgs
args = {parser}.parse_args()
llm = LLM(model="./m", tensor_parallel_size=2)
"""
    files = {"run.sh": "python3 evaluate.py --data_name math --n_sampling 4\n", "evaluate.py": script}
    (plan,) = launches(files, vllm="0.10.2")
    assert plan.value("engine.tensor_parallel_size") == 2
    assert bool(plan.unknown) == refused


@pytest.mark.parametrize(
    ("release", "more", "found"),
    [
        ("0.10.2", "", ("same", 4)),
        ("0.10.2", "--seed 3", ("same", 4)),
        ("0.8.5", "", ("random", 4)),
        ("0.8.5", "--seed 3", ("same", 4)),
        # Hashed with the rank.
        ("0.32.0", "--seed 3", ("random", 4)),
    ],
)
def test_data_parallel_ranks_of_a_server_are_replicas(
    launches: Launches, release: str, more: str, found: tuple[str, int]
) -> None:
    (plan,) = launches({"run.sh": f"vllm serve org/model --data-parallel-size 4 {more}\n"}, vllm=release)
    assert (plan.value("seed.per_replica"), plan.value("placement.engines")) == found


def test_a_script_that_is_called_after_vllm_has_a_parser_of_its_own(launches: Launches) -> None:
    text = "import argparse\nfrom vllm import LLM\n\nparser = argparse.ArgumentParser()\n"
    text += 'parser.add_argument("--weights")\n'
    files = {
        "run.sh": "python vllm_judge/serve_judge.py --weights org/model --port 5000 &\n",
        "vllm_judge/serve_judge.py": f"{text}LLM(model=parser.parse_args().weights)\n",
    }
    (found,) = launches(files, vllm="0.8.5")
    assert found.unknown == () and found.role == "engine"
