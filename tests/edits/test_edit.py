"""Edits of launch files: in place, in the file's own manner, twice the same as once, and read back as intended."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from rldoctor.edits import fixes
from rldoctor.edits.edit import Edited, apply, save
from rldoctor.errors import InputError
from rldoctor.formats.write import Write
from rldoctor.frameworks import by_name
from rldoctor.frameworks.spelled import Spelling
from rldoctor.launch.recognise import read
from rldoctor.model import Applicability, CheckResult, Edit, Finding, Fix, Grade, Outcome, Severity
from rldoctor.plan.model import Form, RolloutPlan
from rldoctor.tables.options import Option, OptionSet


def spellings(plan: RolloutPlan, edits: dict[str, object]) -> list[Spelling]:
    dialect = by_name(plan.dialect)
    assert dialect is not None
    return [dialect.spell(Edit(option=option, value=value), plan) for option, value in edits.items()]


def edited(file: Path, edits: dict[str, object]) -> str:
    """The file's new text, after checking that a second application, and a second diagnosis, change nothing more."""
    plan = read(file)[0]
    found = spellings(plan, edits)
    once = apply(found)
    assert once.refused == []
    save(once)
    text = file.read_text()
    assert apply(found).changed == (), "applying the same spellings again"
    again = read(file)[0]
    assert apply(spellings(again, edits)).changed == (), "spelling the same edits again"
    for option, value in edits.items():
        assert again.value(option) == (str(value) if option.startswith("env.") else value), option
    return text


VERL = """\
#!/usr/bin/env bash
set -x   # keep

# lengths
max_response_length=$((1024 * 8))
python3 -m verl.trainer.main_ppo \\
    data.max_prompt_length=1024 \\
    data.max_response_length=${max_response_length} \\
    trainer.logger='["console"]' \\
    "actor_rollout_ref.model.path=$MODEL" \\
    actor_rollout_ref.rollout.temperature='1.0' \\
    "$@"  # the rest
"""


def test_an_override_is_rewritten_where_it_stands_and_a_new_one_joins_the_others(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(VERL)
    text = edited(
        file,
        {
            "lengths.response": 2048,
            "sampling.temperature": 0.9,
            "model.path": "org/model",
            "engine.enable_chunked_prefill": False,
            "engine.kv_cache_dtype": "fp8",
        },
    )
    assert text == VERL.replace("${max_response_length}", "2048").replace("'1.0'", "'0.9'").replace(
        "$MODEL", "org/model"
    ).replace(
        '    "$@"  #',
        "    actor_rollout_ref.rollout.enable_chunked_prefill=false \\\n"
        "    ++actor_rollout_ref.rollout.engine_kwargs.vllm.kv_cache_dtype=fp8 \\\n"
        '    "$@"  #',
    )


def test_an_override_in_an_array_is_rewritten_there(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    array = "N=8\nROLLOUT=(\n  actor_rollout_ref.rollout.n=$N  # per prompt\n)\n"
    text = array + 'python -m verl.trainer.main_ppo "${ROLLOUT[@]}"\n'
    file.write_text(text)
    assert edited(file, {"batch.generations": 4}) == text.replace("n=$N", "n=4")


SERVE = """\
CUDA_VISIBLE_DEVICES=0,1 vllm serve org/model --tensor-parallel-size=2 \\
    --max-model-len 32768 --enable-prefix-caching \\
    --hf-overrides '{"a": 1}' --port 8000 > log 2>&1 &
wait
"""


def test_options_of_every_kind(tmp_path: Path) -> None:
    file = tmp_path / "serve.sh"
    file.write_text(SERVE)
    text = edited(
        file,
        {
            "engine.tensor_parallel_size": 1,
            "engine.max_model_len": 4096,
            "engine.enable_prefix_caching": False,
            "engine.enable_sleep_mode": True,
            "engine.hf_overrides": {"a": 2},
            "env.CUDA_VISIBLE_DEVICES": "0",
            "env.NO_PROXY": "127.0.0.1",
        },
    )
    assert text == (
        "export NO_PROXY=127.0.0.1\n"
        "CUDA_VISIBLE_DEVICES=0 vllm serve org/model --tensor-parallel-size=1 \\\n"
        "    --max-model-len 4096 --no-enable-prefix-caching \\\n"
        "    --hf-overrides '{\"a\": 2}' --port 8000 \\\n"
        "    --enable-sleep-mode > log 2>&1 &\n"
        "wait\n"
    )


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize("start", ["nohup bash -c", "srun --ntasks=1 bash -c"])
def test_a_command_inside_quotes_is_edited_inside_its_quotes(tmp_path: Path, start: str, quote: str) -> None:
    file = tmp_path / "run.sh"
    file.write_text(f"{start} {quote}vllm serve m --max-model-len 9{quote} &\n")
    text = edited(file, {"engine.max_model_len": 4096, "engine.seed": 1})
    assert text == f"{start} {quote}vllm serve m --max-model-len 4096 --seed 1{quote} &\n"


@pytest.mark.parametrize("words", ["--port $PORT", '--served-model-name \\"m\\"'])
def test_where_words_stand_in_quotes_that_hide_it_nothing_is_added_behind_them(tmp_path: Path, words: str) -> None:
    file = tmp_path / "run.sh"
    file.write_text(f'PORT=80\nsrun bash -c "vllm serve m {words}"\n')
    found = apply(spellings(read(file)[0], {"engine.seed": 1}))
    assert found.changed == ()
    assert [reason for _, reason in found.refused] == [
        "the command of line 2 is in a text whose quotes hide where its words stand"
    ]


def test_what_the_surrounding_quotes_cannot_hold_is_refused_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("bash -c 'vllm serve m --hf-overrides \"{}\"'\n")
    plan = read(file)[0]
    found = apply(spellings(plan, {"engine.quantization": "it's"}))
    assert found.changed == ()
    assert [reason for _, reason in found.refused] == ["it's cannot be written inside the quotes of line 1"]


def test_options_in_an_unquoted_text_are_rewritten_in_it(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    text = 'OPTS="--max-model-len 8192 \\\n  --seed 1"\nvllm serve m $OPTS\n'
    file.write_text(text)
    assert edited(file, {"engine.max_model_len": 4096}) == text.replace("8192", "4096")


def test_of_two_the_last_one_is_rewritten(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("vllm serve m --seed 1 --seed 2\n")
    assert edited(file, {"engine.seed": 3}) == "vllm serve m --seed 1 --seed 3\n"


def test_variables_are_rewritten_exported_or_unset(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text('set -e\nexport A="1"  # why\nif true; then\n  vllm serve m\nfi\n')
    assert edited(file, {"env.A": "2", "env.B": "x y"}) == (
        "set -e\nexport A=\"2\"  # why\nif true; then\n  export B='x y'\n  vllm serve m\nfi\n"
    )
    plan = read(file)[0]
    (spelling,) = spellings(plan, {"env.A": None})
    assert spelling.text == "unset A"
    save(apply([spelling]))
    assert "unset A  # why\n" in file.read_text()
    assert read(file)[0].get("env.A") is None


RAY = """\
ray job submit --runtime-env-json='{"working_dir": ".", "env_vars": {"A": "1", "B": "2"}}' \\
    -- python3 -m verl.trainer.main_ppo data.max_prompt_length=1
"""


def test_a_variable_of_a_runtime_environment_is_rewritten_in_its_json(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(RAY)
    assert edited(file, {"env.A": "0"}) == RAY.replace('"A": "1"', '"A": "0"')


YAML = """\
# a run
actor_rollout_ref:
  rollout:
    n: 8   # per prompt
    name: "vllm"
    engine_kwargs: {}

  model: {path: org/model}  # here
data:
    max_prompt_length: 1024
"""


def test_yaml_values_are_rewritten_and_added_without_touching_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(YAML)
    text = edited(
        file,
        {
            "batch.generations": 4,
            "rollout.backend": "sglang",
            "model.path": "other/model",
            "lengths.response": 2048,
            "engine.enforce_eager": True,
            "engine.kv_cache_dtype": "fp8",
            "placement.nodes": 2,
        },
    )
    assert text == (
        "# a run\n"
        "actor_rollout_ref:\n"
        "  rollout:\n"
        "    n: 4   # per prompt\n"
        '    name: "sglang"\n'
        "    engine_kwargs: {vllm: {kv_cache_dtype: fp8}}\n"
        "    enforce_eager: true\n"
        "\n"
        "  model: {path: other/model}  # here\n"
        "data:\n"
        "    max_prompt_length: 1024\n"
        "    max_response_length: 2048\n"
        "trainer:\n"
        "  nnodes: 2\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a:\n  b:\n", "a:\n  b: 5\n"),
        ("a: {b: 1, c: 2}\n", "a: {b: 5, c: 2}\n"),
        ("x: &v 1\na:\n  b: *v\n", "x: &v 1\na:\n  b: 5\n"),
        ("a:\n  b: &v 1\nx: *v\n", "a:\n  b: &v 5\nx: *v\n"),
        ("base: &base\n  b: 1\na:\n  <<: *base\n  c: 1\n", "base: &base\n  b: 1\na:\n  <<: *base\n  c: 1\n  b: 5\n"),
        ("a:\n  c: |\n    text\n    more\n\nz: 1\n", "a:\n  c: |\n    text\n    more\n  b: 5\n\nz: 1\n"),
        ("a:\n  c:\n    - 1\n    - 2\nz: 1", "a:\n  c:\n    - 1\n    - 2\n  b: 5\nz: 1"),
        ("z: 1", "z: 1\na:\n  b: 5\n"),
        ("a.b: 1\n", "a.b: 5\n"),
        ("a:\r\n  b: 1\r\n", "a:\r\n  b: 5\r\n"),
        ("", "a:\n  b: 5\n"),
    ],
)
def test_yaml_of_every_shape(tmp_path: Path, before: str, after: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(before.encode())
    write = Write(form=Form.YAML, file=str(file), line=1, key="a.b", value="5")
    once = apply([Spelling(text="", write=write)])
    assert once.refused == []
    save(once)
    assert file.read_bytes().decode() == after
    assert apply([Spelling(text="", write=write)]).changed == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a:\n  b: |\n    text\n", "line 2 holds a block of text"),
        ("a:\n  b:\n    - 1\n", "b at line 2 holds a block of values"),
        ("a: 3\n", "a at line 1 is no mapping"),
    ],
)
def test_yaml_that_cannot_be_edited_safely_is_left_alone(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    found = apply([Spelling(text="", write=Write(form=Form.YAML, file=str(file), line=1, key="a.b", value="5"))])
    assert [why for _, why in found.refused] == [reason]
    assert found.changed == ()


PYTHON = '''\
"""Samples."""
from __future__ import annotations

from vllm import LLM, SamplingParams

N = 4
kwargs = {"seed": 1, "dtype": "auto"}


def main() -> None:
    llm = LLM(
        "org/model",
        max_model_len=N * 1024,  # the context
        hf_overrides={"a": 1},
        **kwargs,
    )
    params = SamplingParams(n=N, temperature=0.8)
'''


def test_keywords_dictionary_entries_and_variables_of_python(tmp_path: Path) -> None:
    file = tmp_path / "sample.py"
    file.write_text(PYTHON)
    text = edited(
        file,
        {
            "engine.max_model_len": 8192,
            "engine.seed": 7,
            "engine.dtype": "bfloat16",
            "engine.enforce_eager": True,
            "sampling.n": 2,
            "env.VLLM_USE_V1": "0",
        },
    )
    assert text == PYTHON.replace("N * 1024", "8192").replace('"seed": 1', '"seed": 7').replace(
        '"auto"', '"bfloat16"'
    ).replace("**kwargs,\n", "**kwargs,\n        enforce_eager=True,\n").replace("n=N", "n=2").replace(
        "annotations\n\nfrom vllm", 'annotations\n\nimport os\n\nos.environ["VLLM_USE_V1"] = "0"\nfrom vllm'
    )


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("LLM()", "LLM(seed=1)"),
        ("LLM('m')", "LLM('m', seed=1)"),
        ("LLM('m',)", "LLM('m', seed=1,)"),
        ("LLM(\n    'm'\n)", "LLM(\n    'm',\n    seed=1\n)"),
        ("LLM(\n    'm',  # the model\n)", "LLM(\n    'm',  # the model\n    seed=1,\n)"),
        ("LLM(\n    'm'  # the model\n)", "LLM(\n    'm',  # the model\n    seed=1\n)"),
    ],
)
def test_a_new_keyword_stands_as_the_others_do(tmp_path: Path, call: str, after: str) -> None:
    file = tmp_path / "x.py"
    file.write_text(f"from vllm import LLM\nllm = {call}\n")
    assert edited(file, {"engine.seed": 1}) == f"from vllm import LLM\nllm = {after}\n"


def test_the_diff_is_unified_and_the_file_keeps_its_permissions(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("vllm serve m --seed 1")
    file.chmod(0o755)
    found: Edited = apply(spellings(read(file)[0], {"engine.seed": 2}))
    assert found.diff().splitlines()[2:] == [
        "@@ -1 +1 @@",
        "-vllm serve m --seed 1",
        "\\ No newline at end of file",
        "+vllm serve m --seed 2",
        "\\ No newline at end of file",
    ]
    assert save(found) == (str(file),)
    assert stat.S_IMODE(file.stat().st_mode) == 0o755
    assert apply([]).diff() == ""


def test_a_byte_order_mark_and_a_link_survive(tmp_path: Path) -> None:
    real = tmp_path / "real.yaml"
    real.write_bytes(b"\xef\xbb\xbfa:\n  b: 1\n")
    link = tmp_path / "link.yaml"
    link.symlink_to(real)
    save(apply([Spelling(text="", write=Write(form=Form.YAML, file=str(link), line=1, key="a.b", value="5"))]))
    assert link.is_symlink()
    assert real.read_bytes() == b"\xef\xbb\xbfa:\n  b: 5\n"


def test_a_setting_in_a_here_document_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("cat > c.yaml <<EOF\na: 1\nEOF\nrun\n")
    found = apply([Spelling(text="", write=Write(form=Form.YAML, file=str(file), line=2, key="a", value="5"))])
    assert [why for _, why in found.refused] == [f"a stands in a here-document of {file}"]


def test_a_file_that_is_gone_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        apply(
            [Spelling(text="", write=Write(form=Form.YAML, file=str(tmp_path / "x.yaml"), line=1, key="a", value="1"))]
        )


def test_an_option_that_the_framework_lacks_is_for_reading_only(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("vllm serve m\n")
    (spelling,) = spellings(read(file)[0], {"trainer.zero_stage": 3})
    assert spelling.write is None
    assert spelling.reason == "vLLM has no option for DeepSpeed ZeRO stage"
    assert apply([spelling]).refused == [(spelling, "vLLM has no option for DeepSpeed ZeRO stage")]


def _known(owner: str, group: str | None) -> OptionSet:
    names = ["max_model_len", "actor_rollout_ref.rollout.gpu_memory_utilization", "data.max_prompt_length"]
    return OptionSet({name: Option(name, 1) for name in names}, source="t")


ROLLOUT = "actor_rollout_ref.rollout"


@pytest.mark.parametrize(
    ("name", "text", "old", "new", "spelled"),
    [
        (
            "run.sh",
            "python -m verl.trainer.main_ppo data.max_prompt_length=1 \\\n  'OLD=0.7'\n",
            f"{ROLLOUT}.gpu_memory_utilisation",
            f"{ROLLOUT}.gpu_memory_utilization",
            f"{ROLLOUT}.gpu_memory_utilization=0.7",
        ),
        ("run.sh", "vllm serve m OLD=8 --x\n", "--max-model-length", "--max-model-len", "--max-model-len 8"),
        ("run.sh", "vllm serve m OLD 8 --x\n", "--max_model_length", "--max_model_len", "--max_model_len 8"),
        ("x.py", "from vllm import LLM\nLLM('m', OLD=8)\n", "max_model_length", "max_model_len", "max_model_len=8"),
    ],
    ids=["override", "option", "underscores", "keyword"],
)
def test_a_misspelled_option_is_renamed_and_keeps_its_value(
    tmp_path: Path, name: str, text: str, old: str, new: str, spelled: str
) -> None:
    file = tmp_path / name
    file.write_text(text.replace("OLD", old))
    plan = read(file, known=_known)[0]
    (unknown,) = (option for option in plan.unknown if option.key == old)
    found = spellings(plan, {f"native.{old}": unknown.nearest[0]})
    assert found[0].text == spelled
    save(apply(found))
    assert file.read_text() == text.replace("OLD", new)
    assert apply(found).changed == ()
    assert old not in [option.key for option in read(file, known=_known)[0].unknown]


def test_a_misspelled_yaml_key_is_renamed(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("a:\n  gpu_mem: 0.7  # why\n")
    write = Write(form=Form.YAML, file=str(file), line=2, key="a.gpu_mem", rename="a.gpu_memory_utilization")
    found = [Spelling(text="", write=write)]
    save(apply(found))
    assert file.read_text() == "a:\n  gpu_memory_utilization: 0.7  # why\n"
    assert apply(found).changed == ()


def test_two_new_variables_before_one_command(tmp_path: Path) -> None:
    file = tmp_path / "serve.sh"
    file.write_text("#!/bin/bash\n\nvllm serve ./model --port 8000\n")
    text = edited(file, {"env.no_proxy": "127.0.0.1", "env.VLLM_USE_V1": "1"})
    assert sorted(text.splitlines()[2:4]) == ["export VLLM_USE_V1=1", "export no_proxy=127.0.0.1"]
    assert text.splitlines()[-1] == "vllm serve ./model --port 8000"


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("engine.logprobs_mode", "processed_logprobs", "logprobs_mode=processed_logprobs"),
        ("engine.max_model_len", 4096, "--max_model_len 4096"),
    ],
)
def test_an_option_that_the_release_at_hand_refuses_is_not_written(
    tmp_path: Path, option: str, value: object, text: str
) -> None:
    file = tmp_path / "run.sh"
    file.write_text("trl vllm-serve --model m\n")
    plan = read(file, version_of={"trl": "0.24.0"}.get)[0]
    (spelling,) = spellings(plan, {option: value})
    assert spelling.text == text
    assert spelling.plain == (spelling.write is None) == (option == "engine.logprobs_mode")


AREAL = """\
experiment_name: run
allocation_mode: sglang:d4t2+fsdp:d8
actor: {path: org/model, mb_spec: {max_tokens_per_mb: 10240}}
gconfig: {n_samples: 4, max_new_tokens: 1024}
"""


def test_two_sizes_in_one_text_are_changed_together(tmp_path: Path) -> None:
    file = tmp_path / "grpo.yaml"
    file.write_text(AREAL)
    plan = read(file)[0]
    edits = (Edit(option="placement.trainer_gpus", value=4), Edit(option="placement.engine_gpus", value=4))
    fix = Fix(title="share them", applicability=Applicability.SAFE, edits=edits)
    found = Finding(
        code="RLD303", name="visible", severity=Severity.ERROR, grade=Grade.DECLARED, message="", fixes=(fix,)
    )
    result = CheckResult(code="RLD303", name="visible", outcome=Outcome.FINDINGS, findings=(found,))
    spelled = fixes.spelled(result, plan).findings[0]
    assert {edit.spelled for edit in spelled.fixes[0].edits} == {"allocation_mode: sglang:d2t2+fsdp:d4"}
    (after,) = fixes.applied([(plan, [spelled])]).after.values()
    assert after == AREAL.replace("sglang:d4t2+fsdp:d8", "sglang:d2t2+fsdp:d4")
