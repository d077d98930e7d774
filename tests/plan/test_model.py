"""A plan as JSON and by the names of its settings; the vocabulary that names them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rldoctor import bundle
from rldoctor.api import Case, Unknown
from rldoctor.api.packages import Absent, lookup
from rldoctor.formats.source import Files
from rldoctor.frameworks import all_dialects
from rldoctor.frameworks.draft import Draft
from rldoctor.frameworks.launch import Launch
from rldoctor.launch.recognise import read
from rldoctor.plan.evidence import DEFAULT, cite
from rldoctor.plan.model import Form, RolloutPlan, Setting, Source
from rldoctor.plan.vocabulary import term, terms

SCRIPT = """\
export DATA=$HOME/data
python3 -m verl.trainer.main_ppo \\
    data.max_response_length=2048 \\
    actor_rollout_ref.rollout.val_kwargs.n=4 \\
    actor_rollout_ref.rollout.max_num_batched_tokens=$BUDGET
"""


@pytest.fixture
def plan(tmp_path: Path) -> RolloutPlan:
    (tmp_path / "run.sh").write_text(SCRIPT)
    return read(tmp_path / "run.sh", version_of={"verl": "0.5.0"})[0]


def test_what_nobody_can_read_is_cited_as_unknown_and_not_as_a_default(plan: RolloutPlan) -> None:
    (line,) = cite(plan, "engine.max_num_batched_tokens")
    assert line.text.startswith("actor_rollout_ref.rollout.max_num_batched_tokens = unknown: ")
    assert not line.text.endswith(DEFAULT) and line.line == 5


def test_a_setting_knows_where_it_stands(plan: RolloutPlan) -> None:
    setting = plan.settings["lengths.response"]
    assert (setting.value, setting.line, setting.key) == (2048, 3, "data.max_response_length")
    assert (setting.source, setting.form) == (Source.GIVEN, Form.OVERRIDE)
    assert plan.value("lengths.response") == 2048


def test_evidence_quotes_the_file_where_the_framework_takes_a_value_for_another(tmp_path: Path) -> None:
    file = tmp_path / "train.sh"
    file.write_text("swift rlhf --rlhf_type grpo --vllm_mode colocate --use_vllm true --vllm_server_host 10.0.0.12\n")
    (swift,) = read(file, version_of={"ms-swift": "3.8.1"})
    (line,) = cite(swift, "placement.mode")
    assert line.text == "--vllm_mode colocate, taken for server (a server is named: ms-swift takes mode server)"


def test_evidence_of_what_follows_from_a_setting_begins_with_the_files_own_text(plan: RolloutPlan) -> None:
    derived = next(name for name, one in plan.settings.items() if one.source is Source.DERIVED and one.line == 3)
    (line,) = cite(plan, derived)
    assert line.text.startswith("data.max_response_length = 2048, so ") and line.line == 3


def test_evidence_names_the_variable_inside_a_runtime_environment(tmp_path: Path) -> None:
    file = tmp_path / "train.sh"
    environment = '{"env_vars": {"NCCL_DEBUG": "INFO"}}'
    file.write_text(f"ray job submit --runtime-env-json='{environment}' -- python3 -m verl.trainer.main_ppo\n")
    (submitted,) = read(file, version_of={"verl": "0.5.0"})
    (line,) = cite(submitted, "env.NCCL_DEBUG")
    assert line.text == "--runtime-env-json env_vars.NCCL_DEBUG = INFO"


def test_what_is_not_known_has_a_reason_and_no_value(plan: RolloutPlan) -> None:
    setting = plan.settings["engine.max_num_batched_tokens"]
    assert (setting.value, setting.unknown, setting.line) == (None, "BUDGET is not set in this file", 5)
    assert plan.value("engine.max_num_batched_tokens", 8192) == 8192


def test_a_derived_setting_says_how(plan: RolloutPlan) -> None:
    setting = plan.settings["sampling.max_tokens"]
    assert (setting.value, setting.source, setting.how) == (2048, Source.DERIVED, "the longest response")
    assert setting.line == 3


def test_a_plan_survives_the_bundle(plan: RolloutPlan) -> None:
    case = Case(plan=plan)
    assert bundle.parse(bundle.dump(case).encode(), "bundle") == case


def test_checks_find_settings_by_their_dotted_names(plan: RolloutPlan) -> None:
    case = Case(plan=plan)
    assert lookup(case, "plan.lengths.response") == plan.settings["lengths.response"]
    assert lookup(case, "plan.framework") == "verl"
    assert isinstance(lookup(case, "plan.engine.max_num_batched_tokens"), Unknown)
    assert isinstance(lookup(case, "plan.env.DATA"), Unknown)
    assert isinstance(lookup(case, "plan.engine.gpu_memory_utilization"), Unknown)
    assert isinstance(lookup(case, "plan.placement.server_host"), Absent)
    assert isinstance(lookup(Case(), "plan.engine.seed"), Unknown)


def test_a_draft_takes_no_name_outside_the_vocabulary(tmp_path: Path) -> None:
    draft = Draft(Launch(file="x", line=1, entry="", place=None, files=Files(tmp_path)))
    with pytest.raises(KeyError, match=r"lengths\.promt"):
        draft.derive("lengths.promt", 1, "a misspelling")
    with pytest.raises(KeyError):
        draft.put("nothing", Setting(value=1))


def test_every_row_of_the_vocabulary_is_complete() -> None:
    kinds = {"int", "size", "float", "bool", "str", "list", "dict", "any"}
    for name, row in terms().items():
        assert re.fullmatch(r"[a-z]+\.[a-z_0-9]+", name), name
        assert row.kind in kinds, name
        assert len(row.meaning) > 3, name


def test_engine_and_env_take_names_beyond_the_table() -> None:
    assert term("engine.some_new_option") is not None
    assert term("env.NCCL_DEBUG") is not None
    assert term("lengths.some_new_option") is None
    assert term("engine") is None


@pytest.mark.parametrize("dialect", all_dialects(), ids=lambda dialect: dialect.name)
def test_every_table_speaks_the_vocabulary(dialect: object) -> None:
    from rldoctor.frameworks.dialect import Dialect, Rule

    assert isinstance(dialect, Dialect)
    for key, rule in dialect.table.items():
        option = rule.option if isinstance(rule, Rule) else rule
        assert term(option) is not None or option in ("engine.*", "env.*"), key
        assert option.endswith(".*") == key.endswith(".*"), key
