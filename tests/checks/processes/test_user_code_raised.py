"""RLD902: the user's own code raised."""

from __future__ import annotations

import pytest
from rldoctor_checks.processes.user_code_raised import check

from rldoctor.logs.triage import triage_text
from tests.logs.asking import finding, findings, raised
from tests.logs.excerpts import OUT_OF_MEMORY, REWARD_RAISES, ranked


def test_the_file_the_line_and_the_rank() -> None:
    found = finding(check, ranked(1, REWARD_RAISES))
    assert found.message == "KeyError: 'answer' raised by reward at /home/user/rl/train.py:9"
    assert [(e.source, e.line) for e in found.evidence] == [("log", 10), ("/home/user/rl/train.py", 9)]


def test_a_frameworks_checkout_beside_the_users_files_is_not_the_users() -> None:
    text = raised("KeyError", "'x'", "/workspace/EasyR1/verl/workers/actor/dp_actor.py update_policy")
    assert findings(check, text) == []
    assert [f.code for f in triage_text(text).findings] == ["RLD900"]


def test_a_known_cause_goes_first() -> None:
    assert [f.code for f in triage_text(OUT_OF_MEMORY).findings] == ["RLD206"]


def test_what_a_reward_function_returned() -> None:
    text = "The reward function 'reward' returned 1 rewards, but 8 were expected (one per prompt-completion pair)."
    found = finding(
        check, raised("ValueError", text, "/x/site-packages/trl/trainer/grpo_trainer.py _calculate_rewards")
    )
    assert found.message == "the reward function 'reward' returned a list of length 1 for 8 completions"


def test_a_script_that_does_not_exist() -> None:
    text = "/opt/venv/bin/python: can't open file '/home/user/train.py': [Errno 2] No such file or directory\n"
    found = finding(check, text)
    assert "can't open file" in found.message
    assert "a path that exists on every node" in found.fixes[0].title


SITE = "/opt/venv/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("kind", "message", "place", "said"),
    [
        (
            "NotImplementedError",
            "Reward function is not implemented for data_source='my_math'",
            f"{SITE}/verl/utils/reward_score/__init__.py default_compute_score",
            "verl has no reward function of its own for data_source='my_math'",
        ),
        (
            "FileNotFoundError",
            "Reward function file '/x/reward.py' not found.",
            f"{SITE}/verl/trainer/ppo/reward.py get_custom_reward_fn",
            "the file of the reward function is not there: /x/reward.py",
        ),
        (
            "AttributeError",
            "Reward function 'compute' not found in '/x/reward.py'.",
            f"{SITE}/verl/trainer/ppo/reward.py get_custom_reward_fn",
            "/x/reward.py defines no compute",
        ),
        (
            "ValueError",
            "reward_function think is not implemented in swift.plugin",
            f"{SITE}/swift/trainers/rlhf_trainer/grpo_trainer.py __init__",
            "ms-swift knows no reward function think",
        ),
        (
            "datasets.exceptions.DatasetNotFoundError",
            "Dataset 'openai/gsm8kk' doesn't exist on the Hub or cannot be accessed.",
            f"{SITE}/datasets/load.py dataset_module_factory",
            "there is no data set openai/gsm8kk on the hub, or this node's token may not read it",
        ),
    ],
)
def test_what_the_user_did_not_bring(kind: str, message: str, place: str, said: str) -> None:
    assert finding(check, raised(kind, message, place)).message == said


def test_a_service_that_a_reward_function_asks() -> None:
    places = (
        f"{SITE}/trl/trainer/grpo_trainer.py _calculate_rewards",
        "/home/user/rl/judge.py score",
        f"{SITE}/openai/_base_client.py _request",
    )
    found = finding(check, raised("openai.RateLimitError", "Error code: 429 - too many requests", *places))
    assert "raised by score at /home/user/rl/judge.py:7" in found.message


@pytest.mark.parametrize(
    "places",
    [
        ("/home/user/rl/judge.py score", f"{SITE}/vllm/entrypoints/llm.py generate", f"{SITE}/openai/x.py f"),
        ("/home/user/rl/data.py prepare", f"{SITE}/requests/models.py json"),
        (f"{SITE}/trl/rewards/other.py score", f"{SITE}/requests/models.py json"),
    ],
)
def test_a_library_that_no_reward_function_called(places: tuple[str, ...]) -> None:
    assert findings(check, raised("SomeError", "Expecting value: line 1", *places)) == []


ROWS = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
  File "/opt/venv/lib/python3.11/site-packages/swift/llm/template/base.py", line 410, in encode
    inputs['label'] = example['label']
KeyError: '{}'
"""


def test_rows_without_a_field_that_a_package_reads() -> None:
    assert "no field 'label'" in finding(check, ROWS.format("label")).message
    assert not findings(check, ROWS.format("another"))


def test_verl_has_no_reward_for_a_row() -> None:
    where = "/opt/venv/lib/python3.11/site-packages/verl/utils/reward_score/__init__.py _default_compute_score"
    found = finding(check, raised("NotImplementedError", "", where))
    assert any("custom_reward_function" in command for fix in found.fixes for command in fix.commands)


def test_nested_values_that_pyarrow_cannot_read() -> None:
    said = "Nested data conversions not implemented for chunked array outputs"
    text = raised(
        "pyarrow.lib.ArrowNotImplementedError", said, "datasets/packaged_modules/parquet/parquet.py _generate"
    )
    assert "nested values" in finding(check, text).message
    # A loader that takes the JSON form instead: https://github.com/rllm-org/rllm/issues/84
    prose = f"Error reading parquet file train.parquet: {said}\nSuccessfully loaded JSON version from train.json\n"
    assert findings(check, prose) == []


def test_a_reward_function_of_the_wrong_number_of_parameters() -> None:
    where = f"{SITE}/trl/trainer/grpo_trainer.py compute_loss"
    text = raised("TypeError", "format_reward_func() takes 1 positional argument but 2 were given", where)
    assert finding(check, text).message == (
        "the reward function format_reward_func takes 1 arguments, and the trainer hands it 2"
    )
    assert (
        findings(check, raised("TypeError", "_get_logps() takes 5 positional arguments but 6 were given", where)) == []
    )


def test_a_data_set_without_rows() -> None:
    said = "Please pass `features` or at least one example when writing data"
    text = raised("datasets.arrow_writer.SchemaInferenceError", said, f"{SITE}/datasets/arrow_writer.py finalize")
    assert "the data set came out empty" in finding(check, text).message


def test_a_column_that_the_data_set_lacks() -> None:
    # https://github.com/hiyouga/LLaMA-Factory/issues/5503
    rows = "/opt/venv/lib/python3.9/site-packages/datasets/formatting/formatting.py __getitem__"
    asker = "/srv/LLaMA-Factory/src/llamafactory/data/aligner.py convert_sharegpt"
    found = triage_text(raised("KeyError", "'messages'", asker, rows), [check]).findings[0]
    assert found.message == "the data set has no column 'messages', which convert_sharegpt reads"
    inner = "/opt/venv/lib/python3.9/site-packages/datasets/builder.py _prepare"
    assert triage_text(raised("KeyError", "'messages'", inner), [check]).findings == ()


@pytest.mark.parametrize("key", ["score", "acc"])
def test_a_reward_function_whose_keys_differ_from_sample_to_sample(key: str) -> None:
    # https://github.com/verl-project/verl/issues/2320
    trainer = "/opt/venv/lib/python3.11/site-packages/verl/trainer/ppo/ray_trainer.py _validate"
    log = raised("AssertionError", f"{key}: len(lst)=1, len(sample_scores)=100", trainer)
    assert f"'{key}' 1 times for 100 samples" in triage_text(log, [check]).findings[0].message
    assert triage_text(raised("AssertionError", f"{key}: 1 != 100", trainer), [check]).findings == ()


def test_a_column_that_arrow_cannot_put_into_one_array() -> None:
    # https://github.com/hiyouga/LlamaFactory/issues/2561
    writer = "/opt/venv/lib/python3.10/site-packages/datasets/arrow_writer.py write_table"
    said = raised("pyarrow.lib.ArrowInvalid", "offset overflow while concatenating arrays", writer)
    (found,) = triage_text(said).findings
    assert found.code == "RLD902" and "batch_size" in found.fixes[0].title
