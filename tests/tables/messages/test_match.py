"""Which place of which releases a failure comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.refresh.messages import encoded
from rldoctor.tables.messages import HOLE, Table
from rldoctor.tables.messages.match import Shown, Trace, trace

SMALLER = f"max_tokens ({HOLE}self.tokens{HOLE}) is smaller than max_len ({HOLE}self.length{HOLE})."
ROWS = {
    ("engine.config", "Config.verify", "ValueError", SMALLER, ("self.tokens < self.length",)): {"0.8.0", "0.8.1"},
    ("engine.config.limits", "Limits.check", "ValueError", SMALLER, ("tokens < length",)): {"0.9.0"},
    ("engine.core", "step", "AssertionError", "", ("not (len(self.left) == 0)",)): {"0.8.0", "0.8.1", "0.9.0"},
    ("engine.core", "step", "AssertionError", "", ("not (self.a and\n self.b)",)): {"0.8.0", "0.8.1", "0.9.0"},
    ("engine.core", "load", "ValueError", f"Unknown {HOLE}name{HOLE}", ()): {"0.9.0"},
    ("engine.split", "sorted", "AssertionError", f"the {HOLE}i{HOLE}-th partition is empty", ()): {"0.9.0"},
    ("engine.split", "fed", "AssertionError", f"Expected {HOLE}n{HOLE} inputs, got {HOLE}m{HOLE}", ()): {"0.9.0"},
    ("engine.core", "load", "KeyError", f"{HOLE}name{HOLE}", ()): {"0.9.0"},
    ("engine.core", "find", "ValueError", f"{HOLE}name{HOLE} is not in the list of names", ()): {"0.9.0"},
}


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "folder", tmp_path)
    Table.write("engine", encoded(ROWS, ["0.8.0", "0.8.1", "0.9.0"]))


def placed(found: Trace | None) -> str | None:
    return f"{found.place.module}.{found.place.function}" if found is not None else None


SAID = "max_tokens (512) is smaller than max_len (4096)."


def test_the_text_alone_tells_a_place_its_values_and_where_other_releases_have_it() -> None:
    found = trace(Shown("ValueError", SAID))
    assert placed(found) == "engine.config.limits.Limits.check"
    assert found is not None and found.place.spans == (("0.9.0", "0.9.0"),)
    assert found.values == {"self.tokens": "512", "self.length": "4096"}
    assert [(other.function, other.spans) for other in found.others] == [("Config.verify", (("0.8.0", "0.8.1"),))]


def test_the_release_at_hand_and_the_frame_choose() -> None:
    assert placed(trace(Shown("ValueError", SAID), releases={"engine": "0.8.1+cu128"})) == "engine.config.Config.verify"
    framed = Shown("ValueError", SAID, "engine.config", "verify")
    assert placed(trace(framed, ["engine"])) == "engine.config.Config.verify"


def test_lines_and_validators_around_a_message_do_not_hide_it() -> None:
    wrapped = SAID.replace("smaller than", "smaller\n  than")
    assert placed(trace(Shown("ValueError", wrapped))) is not None
    shown = f"1 validation error for Config\n  Value error, {SAID} [type=value_error, input_value=ArgsKwargs(())]"
    assert placed(trace(Shown("pydantic_core._pydantic_core.ValidationError", shown))) is not None


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("max_tokens (512) is smaller than max_l...", True),  # within a literal part
        ("max_tokens (512) is smaller than max_len (40…", True),  # within a value
        ("max_tokens (/data/my runs/a) is smaller than [truncated 12 characters]", True),
        ("max_tokens (512) is ...", False),  # nothing yet that tells it
        (
            "max_tokens (512) is smaller than max_len (4096) only where the model says so ...",
            False,
        ),  # goes on otherwise
        ("max_tokens (512) is smaller than max", False),  # nothing says that it was cut
        (f"max_tokens ({'9' * 40}) is smaller than max_", True),  # where a line ended
        (f"max_tokens ({'9' * 40}) is smaller than max_len (4096) in all", False),
    ],
)
def test_a_message_that_was_cut_is_known_by_its_beginning(said: str, told: bool) -> None:
    assert placed(trace(Shown("ValueError", said))) == ("engine.config.limits.Limits.check" if told else None)
    assert trace(Shown("TypeError", said)) is None


def test_a_message_that_lost_blanks_where_it_was_wrapped() -> None:
    wrapped = f"max_tokens ({'9' * 40}) is smallerthan max_len (4096)."
    assert placed(trace(Shown("ValueError", wrapped))) == "engine.config.limits.Limits.check"
    assert trace(Shown("TypeError", wrapped)) is None
    assert trace(Shown("ValueError", wrapped.replace("max_len", "min_len"))) is None


def test_the_beginning_of_a_message_in_the_function_that_raised() -> None:
    assert placed(trace(Shown("ValueError", "Unkno...", "engine.core", "load"), ["engine"])) == "engine.core.load"
    assert trace(Shown("ValueError", "Unkno", "engine.core", "load"), ["engine"]) is None
    assert trace(Shown("ValueError", "Other...", "engine.core", "load"), ["engine"]) is None


def test_a_hole_at_either_end_may_be_empty() -> None:
    found = trace(Shown("ValueError", "is not in the list of names", "engine.core", "find"), ["engine"])
    assert placed(found) == "engine.core.find" and found is not None and found.values == {"name": ""}
    found = trace(Shown("AssertionError", "Expected 2 inputs, got", "engine.split", "fed"), ["engine"])
    assert placed(found) == "engine.split.fed" and found is not None and found.values == {"n": "2", "m": ""}


def test_what_is_too_general_needs_its_frame() -> None:
    general = Shown("ValueError", "Unknown thing")
    assert trace(general) is None
    found = trace(Shown("ValueError", "Unknown thing", "engine.core", "load"), ["engine"])
    assert placed(found) == "engine.core.load" and found is not None and found.values == {"name": "thing"}
    assert placed(trace(Shown("KeyError", "'x'", "engine.core", "load"), ["engine"])) == "engine.core.load"
    assert trace(Shown("KeyError", "", "engine.core", "load"), ["engine"]) is None


def test_an_assertion_without_a_message_is_known_by_its_line() -> None:
    def asserted(code: str) -> Trace | None:
        return trace(Shown("AssertionError", "", "engine.core", "step", code), ["engine"])

    found = asserted("assert len(self.left) == 0")
    assert found is not None and found.place.conditions == ("not (len(self.left) == 0)",)
    first_of_two = asserted("assert (self.a and")
    assert first_of_two is not None and "self.b" in first_of_two.place.conditions[-1]
    assert asserted("assert other") is None
    assert asserted("") is None


@pytest.mark.parametrize(
    "shown",
    [
        Shown("TypeError", SAID),
        Shown("ValueError", "max_tokens (512) is larger than max_len (4096)."),
        Shown("ValueError", "max_tokens (512) is smaller than max_len (4096).5"),
        Shown("ValueError", "themax_tokens (512) is smaller than max_len (4096)."),
        Shown("ValueError", "no template has these words"),
        Shown("AssertionError", ""),
    ],
    ids=["another type", "other words", "further digits", "a longer word", "unknown", "nothing said"],
)
def test_what_no_release_prints(shown: Shown) -> None:
    assert trace(shown) is None


def test_a_message_that_two_packages_print_names_both(tmp_path: Path) -> None:
    content = (tmp_path / "engine.json.xz").read_bytes()
    (tmp_path / "trainer.json.xz").write_bytes(content)
    found = trace(Shown("ValueError", SAID))
    assert found is not None
    assert (found.place.package, {one.package for one in found.elsewhere}) == ("engine", {"trainer"})
    here = trace(Shown("ValueError", SAID), releases={"trainer": "0.8.1"})
    assert here is not None and (here.place.package, here.elsewhere) == ("trainer", ())
    copied, common = (
        Shown("AssertionError", said) for said in ("the 3-th partition is empty", "Expected 3 inputs, got 2")
    )
    assert trace(copied) is not None
    assert trace(common) is None  # few words, which anybody may say
    for name in ("more", "others"):
        (tmp_path / f"{name}.json.xz").write_bytes(content)
    assert trace(copied) is None  # what four packages print identifies none
    here = trace(copied, releases={"trainer": "0.9.0", "more": "0.9.0"})
    assert here is not None and (here.place.package, {one.package for one in here.elsewhere}) == ("more", {"trainer"})
    sentence = trace(Shown("ValueError", SAID))  # which nobody has by chance
    assert sentence is not None and {one.package for one in sentence.elsewhere} == {"more", "others", "trainer"}
