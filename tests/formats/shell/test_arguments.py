"""Command lines as options, positionals and overrides."""

from __future__ import annotations

from rldoctor.formats.shell.arguments import Arguments, arguments
from rldoctor.formats.shell.reader import read_shell
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved


def read(text: str, overrides: bool = False, flags: frozenset[str] = frozenset()) -> Arguments:
    words = read_shell(Source(text, "run.sh")).commands[-1].words[1:]
    return arguments(words, "run.sh", overrides=overrides, flags=flags)


def values(text: str) -> dict[str, object]:
    return {native.key: native.value for native in read(text).natives}


def test_every_way_to_write_an_option() -> None:
    found = values("x --max-model-len 8 --tensor_parallel_size=2 --enforce-eager --funcs a b -tp 4 --temp -0.5 --o=a=b")
    assert found == {
        "max_model_len": "8",
        "tensor_parallel_size": "2",
        "enforce_eager": True,
        "funcs": ["a", "b"],
        "tp": "4",
        "temp": "-0.5",
        "o": "a=b",
    }


def test_one_half_of_a_pair_says_no() -> None:
    native = read("x --no-enable-prefix-caching").natives[0]
    assert (native.key, native.value, native.spelled) == ("enable_prefix_caching", False, "--no-enable-prefix-caching")


def test_positionals_come_before_the_options_and_after_flags() -> None:
    found = read("x model --bf16 data.json", flags=frozenset({"bf16"}))
    assert [word.value for word in found.positionals] == ["model", "data.json"]


def test_an_option_keeps_its_line_and_the_last_of_two_is_found() -> None:
    found = read("x --n 1 \\\n  --n 2")
    last = found.find("n")
    assert last is not None
    assert (last.value, last.line, last.raw) == ("2", 2, "--n 2")


def test_what_is_given_at_the_start_is_no_value_of_an_option() -> None:
    assert values('x --bf16 "$@"') == {"bf16": True}
    assert values("x --n $N") == {"n": Unresolved("$N", "N is not set in this file")}
    assert values("x --n=$N") == {"n": Unresolved("$N", "N is not set in this file")}


def test_overrides_and_hydras_own_options_side_by_side() -> None:
    found = read("x --config-name ppo a.b=1 +c.d=2 ++e=3 ~f.g h=[1,2]", overrides=True)
    assert [(native.operator, native.key, native.value) for native in found.natives] == [
        ("", "config_name", "ppo"),
        ("", "a.b", 1),
        ("+", "c.d", 2),
        ("++", "e", 3),
        ("~", "f.g", None),
        ("", "h", [1, 2]),
    ]


def test_a_file_in_a_folder_that_is_not_known_is_still_a_value() -> None:
    found = values('x --eval-data aime "$D/a.json" $D/b.json --n 8 $MORE')
    assert [getattr(value, "raw", value) for value in found["eval_data"]] == ["aime", '"$D/a.json"', "$D/b.json"]  # type: ignore[attr-defined]
    assert found["n"] == "8"
