"""What can be said of a name: known, not known, or unknown with a reason."""

from __future__ import annotations

from rldoctor.case import Unknown
from rldoctor.tables.options import MISSING, Option, OptionSet

OPTIONS = [
    Option("max_model_len", None, "int?"),
    Option("-mml", None, alias="max_model_len"),
    Option("max_num_seqs", 256, "int"),
    Option("model", MISSING, "str", required=True),
    Option("rollout.n", 1, "int"),
    Option("rollout._target_", "pkg.Rollout", "str"),
    Option("rollout.limit", None, "int?", added=True),
    Option("rollout.engine_kwargs.vllm", {}, "dict"),
    Option("trainer.nodes", 1, "int"),
    Option("max_old_len", 1, "int", deprecated=True),
]


def make(**how: object) -> OptionSet:
    return OptionSet({o.name: o for o in OPTIONS}, source="framework 1.0", **how)  # type: ignore[arg-type]


def test_known_in_every_spelling() -> None:
    options = make()
    for name in (
        "max_model_len",
        "--max-model-len",
        "--max_model_len",
        "-mml",
        "rollout.n",
        "rollout",
        "rollout.engine_kwargs",
    ):
        assert options.known(name) is True
    assert options.known("max_model_length") is False
    assert options.known("rollout.m") is False


def test_below_a_free_mapping_nothing_is_called_unknown() -> None:
    known = make().known("rollout.engine_kwargs.vllm.seed")
    assert isinstance(known, Unknown)
    assert "takes any key" in known.reason


def test_a_section_with_a_class_behind_it_takes_the_keys_of_the_class_alone() -> None:
    listed = [Option("part", None, "dict?"), Option("part.n", 1, "int"), Option("part.more", {}, "dict")]
    for closed in (False, True):
        options = OptionSet({o.name: o for o in listed}, source="framework 1.0", closed=closed)
        assert (options.known("part.m") is False) == closed
        assert isinstance(options.known("part.more.m"), Unknown)


def test_an_open_command_and_a_gap_leave_it_unknown() -> None:
    assert isinstance(make(open_ended=True).known("zzz"), Unknown)
    gap = Unknown(reason="outside the table")
    assert make(gap=gap).known("zzz") is gap
    assert make(gap=gap).known("max_num_seqs") is True


def test_a_disputed_name_says_why() -> None:
    options = make(uncertain={"stream": Unknown(reason="came between")})
    assert options.known("--stream") == Unknown(reason="came between")
    assert options.default("stream") == Unknown(reason="came between")
    assert "stream" not in options
    assert options.known("stream.part") == Unknown(reason="came between")


def test_defaults() -> None:
    options = make()
    assert options.default("--max-num-seqs") == 256
    assert options.default("-mml") is None
    assert options.default("model") is MISSING
    assert isinstance(options.default("zzz"), Unknown)
    assert options.required == ("model",)


def test_what_hydra_may_add() -> None:
    options = make()
    assert options.addable("rollout.limit") is True
    assert options.addable("rollout.n") is False  # it is there, + is an error
    assert options.addable("max_model_len") is True  # null counts as not there
    assert options.addable("rollout.foo") is False  # the class refuses it
    assert isinstance(options.addable("trainer.foo"), Unknown)
    assert options.addable("trainer") is False


def test_abbreviations_are_completed_only_where_the_parser_does() -> None:
    assert make().completed("--max-num") is None
    options = make(abbreviations=True)
    assert options.completed("--max-num") == "max_num_seqs"
    assert options.completed("--max") is None  # three begin so
    assert options.completed("--zzz") is None


def test_suggestions_are_real_current_names() -> None:
    assert make().nearest("--max-model-length") == ["max_model_len"]
    assert "max_old_len" not in make().nearest("max_old_leng")
