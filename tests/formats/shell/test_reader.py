"""What a shell script would start: its words after expansion, its variables, and what reading alone cannot know."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rldoctor.errors import InputError
from rldoctor.formats.shell import grammar, scope
from rldoctor.formats.shell.reader import Script, read_shell
from rldoctor.formats.source import Source
from rldoctor.formats.values import Unresolved


def script(text: str, environment: Mapping[str, str] | None = None) -> Script:
    return read_shell(Source(text, "run.sh"), environment)


def words(text: str, environment: Mapping[str, str] | None = None, command: int = -1) -> list[str | Unresolved]:
    return [word.value for word in script(text, environment).commands[command].words]


def why(text: str) -> str:
    value = words(text)[-1]
    assert isinstance(value, Unresolved)
    return f"{value.raw}: {value.why}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run --a 1 'b c' \"d e\"", ["run", "--a", "1", "b c", "d e"]),
        ("run --a \\\n    1 \\\n    --b", ["run", "--a", "1", "--b"]),
        ("X=3\nrun a.b=$X ${X}k", ["run", "a.b=3", "3k"]),
        ("run ${X:-8} ${Y-9} ${Z:=10} $Z", ["run", "8", "9", "10", "10"]),
        ("P=1024 R=$((1024 * 8))\nrun $((P + R)) $(( (P + R) * 2 ))", ["run", "9216", "18432"]),
        ('A=(--x 1)\nA+=(--y)\nrun "${A[@]}" end', ["run", "--x", "1", "--y", "end"]),
        ("OPTS='--x 1 --y'\nrun $OPTS", ["run", "--x", "1", "--y"]),
        ("OPTS='--x 1'\nrun \"$OPTS\"", ["run", "--x 1"]),
        ("X='a  b'\nrun p$X", ["run", "pa", "b"]),
        ("M=org/Model-7B\nrun ${M##*/} ${M%/*} ${M/7B/32B} ${#M}", ["run", "Model-7B", "org", "org/Model-32B", "12"]),
        ("run $EMPTY ''", ["run", Unresolved("$EMPTY", "EMPTY is not set in this file"), ""]),
        ("# run commented\nrun it # and this", ["run", "it"]),
        ('if [ -z "$M" ]; then M=8; fi\nrun $M', ["run", "8"]),
        ("f() { run $1 ${2:-9}; }\nf a", ["run", "a", "9"]),
        (
            'run \'{"a": 1}\' "{\\"b\\": $N}"',
            ["run", '{"a": 1}', Unresolved('"{\\"b\\": $N}"', "N is not set in this file")],
        ),
    ],
)
def test_words_are_what_the_program_would_get(text: str, expected: list[str | Unresolved]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "run --port <node1_port> \\\n  --lr 1",
            ["run", "--port", Unresolved("<node1_port>", "<node1_port> is to be filled in"), "--lr", "1"],
        ),
        ("run http://<host>:8000/v1", ["run", Unresolved("http://<host>:8000/v1", "<host> is to be filled in")]),
        ("IP=<ip>\nrun $IP", ["run", Unresolved("$IP", "<ip> is to be filled in")]),
        ("run <rank>", ["run", Unresolved("<rank>", "<rank> is to be filled in")]),
        ("run <in >out", ["run"]),
        ("run <in> out", ["run"]),
        ("run '--x <y>' # --x <y>", ["run", "--x <y>"]),
    ],
)
def test_a_placeholder_of_an_example_is_a_value_that_is_not_known(text: str, expected: list[str | Unresolved]) -> None:
    """To bash ``<node1_port>`` is two redirections, and what stands behind it belongs to the second."""
    assert words(text) == expected


def test_a_word_knows_its_line_and_its_bytes() -> None:
    text = "set -x\npython -m x \\\n    a.b=1 \\\n    c='d e'\n"
    last = script(text).commands[-1].words[-1]
    assert (last.line, last.value, last.raw) == (4, "c=d e", "c='d e'")
    assert text.encode()[last.start : last.end].decode() == last.raw


def test_an_element_of_an_array_stands_where_the_array_is_written() -> None:
    text = 'ARGS=(\n  --n 8\n  --tp 2\n)\nrun "${ARGS[@]}" --last\n'
    found = {word.text: word.line for word in script(text).commands[-1].words}
    assert found == {"run": 5, "--n": 2, "8": 2, "--tp": 3, "2": 3, "--last": 5}


def test_a_word_of_an_unquoted_list_stands_in_the_text_of_the_variable() -> None:
    text = 'OPTS="--n 8 \\\n  --tp 2"\nrun $OPTS\n'
    raw = text.encode()
    found = [(w.line, raw[w.start : w.end].decode()) for w in script(text).commands[-1].words[1:]]
    assert found == [(1, "--n"), (1, "8"), (2, "--tp"), (2, "2")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("run $X", "X is not set in this file"),
        ("run $(hostname)", "a command's output"),
        ("run `date`", "a command's output"),
        ("run $1", "argument 1 given at the start"),
        ('run "$@"', "arguments given at the start"),
        ("for s in 1 2; do run $s; done", "s takes several values in turn"),
        ("if [ -f x ]; then N=1; else N=2; fi\nrun $N", "N depends on how the script is started"),
        ("X=${X:?give X}\nrun $X", "X must be set at the start"),
        ("run $((RANDOM % 10))", "RANDOM is not set in this file"),
        ("run $((1 / 0))", "integer division or modulo by zero"),
        ("read N\nrun $N", "read fills it"),
        ("run $((1 + + 2 3))", "$((1 + + 2 3))"),
    ],
)
def test_what_reading_cannot_know_is_unresolved_with_the_reason(text: str, reason: str) -> None:
    assert reason in why(text)


def test_an_unknown_part_leaves_the_known_beginning() -> None:
    word = script("run data.files=$DATA/train.parquet").commands[0].words[1]
    assert isinstance(word.value, Unresolved)
    assert word.prefix == "data.files="


def test_an_unknown_part_of_a_variable_leaves_its_known_beginning() -> None:
    word = script('FILES="/data/$NAME.parquet"\nrun data.files="$FILES"').commands[0].words[1]
    assert isinstance(word.value, Unresolved) and "NAME" in word.value.why
    assert word.prefix == "data.files=/data/"


def test_the_environment_of_the_starting_shell_counts() -> None:
    assert words("run ${N:-8} $M", {"N": "4", "M": "x"}) == ["run", "4", "x"]


def test_a_command_gets_what_is_exported_and_what_stands_before_it() -> None:
    text = "A=1\nexport B=2\nexport A\nC=3 run x\nunset B\nrun y\n"
    first, second = script(text).commands
    assert {name: v.value for name, v in first.environment.items()} == {"A": "1", "B": "2", "C": "3"}
    assert {name: v.value for name, v in second.environment.items()} == {"A": "1"}
    assert first.environment["C"].line == 4


def test_a_subshell_keeps_its_variables_to_itself() -> None:
    assert words("N=1\n(N=2; inner $N)\nrun $N") == ["run", "1"]


def test_a_branch_that_cannot_be_taken_is_not_read() -> None:
    text = 'MODE=colocate\nif [ "$MODE" = server ]; then serve; else train; fi\ncase $MODE in server) a;; *) b;; esac'
    assert [command.words[0].value for command in script(text).commands] == ["train", "b"]


def test_a_branch_that_leaves_the_script_changes_nothing_after_it() -> None:
    assert words("N=1\nif [ $# -lt 1 ]; then echo usage; N=2; exit 1; fi\nrun $N") == ["run", "1"]


def test_an_array_that_may_grow_keeps_its_certain_beginning() -> None:
    found = words('A=(--x 1)\nif [ -f y ]; then A+=(--y); fi\nrun "${A[@]}" --z')
    assert found[:3] == ["run", "--x", "1"]
    assert isinstance(found[3], Unresolved)
    assert found[4] == "--z"


def test_several_commands_and_which_of_them_run_in_the_background() -> None:
    commands = script("vllm serve m --port 8000 &\nSERVER=$!\ntrain --x > log 2>&1\nkill $SERVER\n").commands
    assert [(c.words[0].value, c.background) for c in commands] == [("vllm", True), ("train", False), ("kill", False)]


def test_source_is_not_followed_and_says_so() -> None:
    found = script("source env.sh\nrun")
    assert [(note.line, note.text) for note in found.notes] == [(1, "source env.sh: not followed")]


def test_eval_and_a_command_in_a_variable_are_read() -> None:
    assert words('N=2\nCMD="run --n $N"\n$CMD') == ["run", "--n", "2"]
    assert words('N=2\nCMD="run --n $N"\neval $CMD') == ["run", "--n", "2"]


def test_eval_keeps_the_known_parts_of_its_text() -> None:
    text = "for d in easy hard; do\n CMD=\"run --n 4 --data $d --tag '$d set' $(date) $MORE\"\n eval $CMD\ndone"
    first, n, count, *rest = words(text)
    assert [first, n, count] == ["run", "--n", "4"]
    assert [getattr(word, "why", word) for word in rest] == [
        "--data",
        "d takes several values in turn",
        "--tag",
        "d takes several values in turn",
        "a command's output",
        "MORE is not set in this file",
    ]


PARSING = """\
{before}
while [[ $# -gt 0 ]]; do
  case $1 in
    --n) N="$2"; shift 2 ;;
    --more) MORE+=("$2"); shift 2 ;;
    *) echo "unknown: $1"; exit 1 ;;
  esac
done
{after}
run $N "${{MORE[@]}}"
"""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("N=8", "", "8"),
        ("", 'if [ -z "$N" ]; then N=16; fi', "16"),
        ("N=", "N=${N:-4}", "4"),
        ("N=", 'if [ -z "$N" ]; then echo "--n is missing"; exit 1; fi', "N must be set when the script is started"),
        ("", "", "N is not set in this file"),
    ],
)
def test_a_loop_over_arguments_that_nobody_knows_leaves_what_the_file_says(
    before: str, after: str, expected: str
) -> None:
    found, more = words(PARSING.format(before=before, after=after))[1:]
    assert getattr(found, "why", found) == expected
    assert isinstance(more, Unresolved)


@pytest.mark.parametrize(
    "loop",
    [
        'while getopts "n:" one; do case $one in n) N=$OPTARG ;; esac; done',
        'for one in "$@"; do case $one in --n=*) N=${one#*=} ;; esac; done',
        "for one; do N=$one; done",
        'read_them() { while (( $# )); do N=$2; shift 2; done; }\nread_them "$@"',
    ],
)
def test_loops_over_arguments_in_all_forms(loop: str) -> None:
    assert words(f"N=8\n{loop}\nrun $N") == ["run", "8"]
    found = read_shell(Source(f"N=8\n{loop}\nrun $N", "run.sh"), arguments=["--n=2", "3"])
    assert found.commands[-1].words[-1].value != "8"


def test_a_loop_over_arguments_that_starts_something_is_followed() -> None:
    assert [word.value for word in script('for one in "$@"; do run --model $one; done').commands[0].words[:2]] == [
        "run",
        "--model",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(expr 1024 + 512 \\* 2)", "2048"),
        ("$(expr 7 - 10 / 4 - 1)", "4"),
        ("$(expr -7 / 2)$(expr 7 % 4)", "-33"),
    ],
)
def test_numbers_that_expr_computes(text: str, expected: str) -> None:
    assert words(f"run {text}") == ["run", expected]
    assert "a command's output" in why("run $(expr length abc)")
    assert "a command's output" in why("run $(expr 1 / 0)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("set -x\nrun --a 'x\nmore\n", "run.sh:2: the quote ' is never closed"),
        ('run "a\n', 'run.sh:1: the quote " is never closed'),
        ("run $(date\n", "run.sh:1: the bracket $( is never closed"),
        ("cat <<EOF\nx\n", "the here-document EOF is never closed"),
        ("DATA=(\n  --a 1\n\nMODEL=(\n  --b 2\n)\nrun ${DATA[@]}\n", "run.sh:1: the array ( is never closed"),
        ("set -x\nDATA+=( --a 1\nrun\n", "run.sh:2: the array ( is never closed"),
    ],
)
def test_what_is_never_closed_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match="never closed") as raised:
        script(text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "line", "token"),
    [
        ("A=(\n1\n))\nrun\n", 3, "`)'"),
        ("for i in 1 2; do\n  run $i\ndone\ndone\n", 4, "`done'"),
        ("if [ -f x ]; then\n  run it\n", 2, "unexpected end of file"),
    ],
)
def test_what_bash_refuses_is_an_error_in_its_words(text: str, line: int, token: str) -> None:
    with pytest.raises(InputError, match="bash refuses the script: syntax error") as raised:
        script(text)
    assert str(raised.value).startswith(f"run.sh:{line}: ") and token in str(raised.value)


@pytest.mark.parametrize(
    "text", ["#!/bin/zsh\nfor i (1 2) run $i\nrun it\n", "OUT=<your folder>\nrun it\n", "run ${(f)x}\nrun it\n"]
)
def test_what_is_to_be_filled_in_or_another_shells_is_no_error(text: str) -> None:
    assert script(text).commands


@pytest.mark.parametrize(
    "array",
    [
        "A=( $(date) 'x(' \"=(\" )",
        "A=( <(sort a) !(b|c) )",
        "A=( # B=(\n 1 )",
        "A=( x ); B=( y )",
        "A=( $((1 + (2))) )",
    ],
)
def test_brackets_within_an_array_leave_it_open(array: str) -> None:
    script(f"{array}\nrun <IP> --x\n")


def test_syntax_that_only_the_grammar_does_not_know_is_a_note() -> None:
    found = script("run ok\nrun <IP> --x\nlater --y\n")
    assert found.commands[0].words[1].value == "ok"
    assert all(note.line for note in found.notes)


def test_functions_that_call_themselves_and_endless_loops_are_read_once() -> None:
    text = "f() { f; f; }\nf\nwhile true; do run; done\n"
    assert [command.words[0].value for command in script(text).commands] == ["run"]


@pytest.mark.parametrize(
    "text",
    [
        "A=aaaaaaaa\n" + "A=$A$A$A$A$A$A$A$A\n" * 14 + "run $A",
        "A=(a a a a)\n" + 'A=("${A[@]}" "${A[@]}" "${A[@]}" "${A[@]}")\n' * 14 + 'run "${A[@]}"',
        "".join(f"f{i + 1}() {{ {f'f{i};' * 9} }}\n" for i in range(8)) + "f0() { run; }\nf8",
    ],
    ids=["text", "array", "functions"],
)
def test_what_doubles_itself_is_cut_off(text: str) -> None:
    commands = script(text).commands
    assert 1 <= len(commands) <= 2000
    assert sum(len(word.text) for word in commands[-1].words) < 300_000


def test_nesting_beyond_reason_is_an_error() -> None:
    with pytest.raises(InputError, match=r"run.sh: nested too deeply"):
        script("if a; then " * 3000 + "b;" + "fi;" * 3000)


def test_a_line_that_goes_on_where_the_script_ends() -> None:
    for end in ("\\\n", "\\\n\n", "\\\r\n"):
        found = read_shell(Source(f"run --lr 1e-6 \\\n  --steps 2 {end}", "run.sh"), {})
        assert [[word.value for word in command.words] for command in found.commands] == [
            ["run", "--lr", "1e-6", "--steps", "2"]
        ]
        assert found.notes == []


def test_an_expansion_that_the_grammar_stumbles_over_and_the_reader_reads_is_no_fault_of_the_script() -> None:
    text = "A=${X:-$(((B + 1) * 2))}\nrun $A ${Y:-$(((1 + 2) * 2))} ${Z:-$(((RANDOM + 1) * 2))}\n"
    found = read_shell(Source(text, "run.sh"), {"B": "3"})
    *known, drawn = [word.value for word in found.commands[0].words[1:]]
    assert known == ["8", "6"] and isinstance(drawn, Unresolved)
    assert found.notes == []


def test_what_the_grammar_cannot_read_in_its_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar, "SECONDS", 0.1)
    with pytest.raises(InputError, match=r"^run.sh: a script that is too far from bash to be read$"):
        script("()" * 20_000)
    assert words("run a b") == ["run", "a", "b"]


def test_a_text_of_too_many_parts_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "MAX_PIECES", 20)
    assert words("x=a\n" + "x+=b\n" * 10 + "run $x") == ["run", "a" + "b" * 10]
    assert "too long to be an option" in why("x=a\n" + "x+=b\n" * 30 + "run $x")
