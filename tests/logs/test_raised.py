"""A failure without a signature: the place in the packages' own sources, and the check to whose family it belongs."""

from __future__ import annotations

from rldoctor.case import Case
from rldoctor.logs.triage import triage_text
from rldoctor.model import Finding
from rldoctor.plan.model import Form, RolloutPlan, Setting
from tests.loaded import REGISTRY

LOG = """\
Traceback (most recent call last):
  File "/home/me/train.py", line 10, in <module>
    trainer = GOLDTrainer(args=args)
  File "/env/lib/python3.12/site-packages/trl/experimental/gold/gold_trainer.py", line 610, in __init__
    raise ValueError(f"Unknown vllm_mode: {self.vllm_mode}")
ValueError: Unknown vllm_mode: both
"""
MODE = Setting(value="both", file="train.sh", line=4, key="--vllm_mode", form=Form.OPTION)
PLAN = RolloutPlan(framework="TRL", file="train.sh", entry="gold.py", settings={"rollout.mode": MODE})


def finding(text: str, case: Case | None = None) -> Finding:
    (found,) = triage_text(text, case=case).findings
    return found


def test_releases_function_condition_and_values_of_a_failure() -> None:
    found = finding(LOG)
    assert found.code == "RLD900"
    assert "raised by trl 0.25.0 to 0.29.1 in trl.experimental.gold.gold_trainer.GOLDTrainer.__init__, when `" in (
        found.message
    )
    assert "self.vllm_mode not in ('server', 'colocate')" in found.message
    assert "self.vllm_mode = both" in [evidence.text for evidence in found.evidence]


def test_the_launchs_own_lines_are_named() -> None:
    found = finding(LOG, Case(plan=PLAN))
    assert ("--vllm_mode both", "train.sh", 4) in [(e.text, e.source, e.line) for e in found.evidence]
    assert "give vllm_mode one of 'server', 'colocate'" in [fix.title.removeprefix("or ") for fix in found.fixes]


def test_what_the_condition_asks_is_an_edit_of_the_engines_option() -> None:
    said = "max_num_batched_tokens (64) must be greater than or equal to max_num_seqs (128)."
    found = finding(f"Traceback (most recent call last):\nValueError: {said}\n")
    assert found.code == "RLD202"
    edits = [(edit.option, edit.value) for fix in found.fixes for edit in fix.edits]
    assert edits == [("engine.max_num_batched_tokens", 128), ("engine.max_num_seqs", 64)]
    asleep = finding(
        "Traceback (most recent call last):\nAssertionError: Sleep mode is not enabled in the model config\n"
    )
    assert (asleep.code, asleep.fixes[0].title) == ("RLD208", "set enable_sleep_mode")


def test_of_several_classes_that_say_the_same_the_launchs_own_is_named() -> None:
    said = "'generation_batch_size' and 'steps_per_generation' can not be both configured at the same time"
    text = f"Traceback (most recent call last):\nValueError: {said}\n"
    assert "by trl in one of " in finding(text).message
    algorithm = Setting(value="rloo", file="train.py", line=2, key="RLOOConfig")
    plan = RolloutPlan(framework="TRL", file="train.py", entry="", settings={"trainer.algorithm": algorithm})
    found = finding(text, Case(plan=plan))
    assert " in trl.trainer.rloo_config.RLOOConfig.__post_init__, when `" in found.message
    assert "one of" not in found.message.partition("raised by")[2].partition(", when")[0]


def test_of_many_packages_that_say_the_same_the_first_are_named() -> None:
    message = finding("AssertionError: world_size must be positive if using store\n").message
    assert message.count("; or by ") == 3
    assert message.endswith(" packages more")


def test_what_the_user_raised_or_no_release_prints_is_not_traced() -> None:
    own = LOG.replace("/env/lib/python3.12/site-packages/trl/experimental/gold/gold_trainer.py", "/home/me/gold.py")
    assert "raised by trl" not in finding(own).message
    changed = finding(LOG.replace("Unknown vllm_mode: both", "it broke")).message
    assert changed == "ValueError: it broke: raised by trl in trl.experimental.gold.gold_trainer.__init__"
    assert finding(own.replace("Unknown vllm_mode: both", "it broke")).code == "RLD902"


def test_frames_that_the_log_leaves_out_are_no_code_of_the_users() -> None:
    cut = (
        'Traceback (most recent call last):\n  File "/home/me/train.py", line 10, in main\n    {line}\n'
        "AssertionError: Sleep mode is not enabled in the model config\n"
    )
    assert finding(cut.format(line="trainer.train()")).code == "RLD208"
    assert finding(cut.format(line="assert awake, 'Sleep mode is not enabled in the model config'")).code == "RLD902"


def test_a_place_that_no_table_has_is_read_from_the_traceback() -> None:
    site = "/env/lib/python3.12/site-packages"
    text = (
        "Traceback (most recent call last):\n"
        f'  File "{site}/vllm/model_executor/models/llama.py", line 124, in __init__\n'
        "    assert self.total_num_kv_heads % tp_size == 0\nAssertionError\n"
    )
    place = "vllm.model_executor.models.llama.__init__"
    found = finding(text)
    assert found.message == (
        f"AssertionError: raised by vllm in {place}, when `not (self.total_num_kv_heads % tp_size == 0)`"
    )
    assert 'search for "assert self.total_num_kv_heads % tp_size == 0"' in found.fixes[0].title
    # The line may be the first of several, and what raised may be a line of Python's own.
    cut = text.replace("self.total_num_kv_heads % tp_size == 0", "(")
    assert finding(cut).message == f"AssertionError: raised by vllm in {place}"
    divided = text.replace("assert self.total", "heads = self.total").replace("Assertion", "ZeroDivision")
    assert finding(divided).message == "ZeroDivisionError: no known pattern"


def test_the_line_that_raised_goes_before_the_same_words_elsewhere() -> None:
    path = "/env/lib/python3.12/site-packages/transformers/models/deprecated/jukebox/tokenization_jukebox.py"
    words = "Unable to convert output to JAX tensors format, JAX is not installed."
    text = (
        f'Traceback (most recent call last):\n  File "{path}", line 320, in convert_to_tensors\n'
        f"    raise ImportError({words!r})\nImportError: {words}\n"
    )
    place = "transformers.models.deprecated.jukebox.tokenization_jukebox.convert_to_tensors"
    assert f"raised by transformers in {place}" in finding(text).message
    assert "transformers.feature_extraction_utils" in finding(f"ImportError: {words}\n").message


def test_what_a_package_without_a_table_raised_is_no_others() -> None:
    # https://github.com/THUDM/slime/issues/1896
    text = (
        'Traceback (most recent call last):\n  File "/opt/slime/slime/ray/rollout.py", line 104, in start_engines\n'
        "    base_gpu_id = int(reordered_gpu_ids[gpu_index])\nIndexError: list index out of range\n"
    )
    assert finding(text).message == "IndexError: list index out of range: no known pattern"


DIVIDES = """\
Traceback (most recent call last):
  File "/env/lib/python3.12/site-packages/trl/trainer/rloo_config.py", line 210, in __post_init__
    raise ValueError(
ValueError: The global eval batch size (2 * 4) must be divisible by num_generations (3).
"""


def test_a_place_of_a_known_family_has_its_code() -> None:
    found = finding(DIVIDES)
    assert found.code == "RLD211"


def test_a_family_is_quiet_where_its_check_is_not_asked() -> None:
    fallback = [check for check in REGISTRY.checks.values() if check.code == "RLD900"]
    (found,) = triage_text(DIVIDES, fallback).findings
    assert found.code == "RLD900"


def test_what_megatron_and_sglang_raise_is_theirs() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/env/lib/python3.12/site-packages/megatron/core/transformer/transformer_config.py", line 5, in '
        "__post_init__\n"
        "    raise ValueError(\n"
        "ValueError: num_attention_heads (28) must be a multiple of tensor_model_parallel_size (8).\n"
    )
    found = finding(text)
    assert found.code == "RLD209"
    assert "raised by megatron-core 0.8.0 to " in found.message


def test_what_python_says_itself_tells_no_place() -> None:
    (found,) = triage_text("IndexError: list index out of range\n").findings
    assert found.message.endswith("no known pattern")


SITE = "/env/lib/python3.12/site-packages"
ASKED = f"""\
Traceback (most recent call last):
  File "/home/me/train.py", line 9, in <module>
    trainer.train()
  File "{SITE}/trl/trainer/grpo_trainer.py", line 1136, in compute_loss
    logits = model(input_ids)
"""


def test_a_library_that_finds_the_mistake_of_a_known_family() -> None:
    text = ASKED + (
        f'  File "{SITE}/bitsandbytes/functional.py", line 464, in is_on_gpu\n    raise RuntimeError(\n'
        "RuntimeError: All input tensors need to be on the same GPU, but found some tensors to not be on a GPU:\n"
        " [(torch.Size([1, 393216]), device(type='cpu'))]\n"
    )
    found = finding(text)
    assert found.code == "RLD301"
    assert "in bitsandbytes.functional.is_on_gpu, when `not on_gpu`; bitsandbytes was called by compute_loss" in (
        found.message
    )
    assert [fix.title for fix in found.fixes] == [
        f"look at what compute_loss ({SITE}/trl/trainer/grpo_trainer.py:1136) gives bitsandbytes"
    ]


def test_what_hydra_shows_without_frames_is_placed() -> None:
    found = finding("omegaconf.errors.InterpolationKeyError: Interpolation key 'data.max_len' not found\n")
    assert "raised by omegaconf " in found.message


def test_what_repeats_the_words_of_others_is_not_named_by_the_words_alone() -> None:
    for said in (
        "ValueError: not enough values to unpack (expected 3, got 2)",
        "IndexError: index 2 is out of bounds for dimension 0 with size 2",
        "IndexError: Dimension out of range (expected to be in range of [-1, 0], but got 1)",
    ):
        own = 'Traceback (most recent call last):\n  File "/home/me/r.py", line 7, in f\n    x, y, z = run(b)[i]\n'
        assert finding(f"{own}{said}\n").code == "RLD902"
        assert "raised by" not in finding(f"{said}\n").message
