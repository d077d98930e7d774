"""A pass phrase that a shell splits is a mark in each of its words; options that a variable holds stay."""

from __future__ import annotations

import pytest

from rldoctor import redact
from tests.formats.shell.test_reader import words


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    redact.begin({})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "N='walrus quickly dances'\nrun --password $N --x",
            ["run", *["--password"], *["<removed:password>"] * 3, "--x"],
        ),
        (
            "PASSWORD_PHRASE='walrus dances'\nrun --note ${PASSWORD_PHRASE}",
            ["run", "--note", "<removed:PASSWORD_PHRASE>", "<removed:PASSWORD_PHRASE>"],
        ),
        ("run --password ${N:-walrus dances}", ["run", "--password", "<removed:password>", "<removed:password>"]),
        ("PASSWORDS=(walrus dances)\nrun ${PASSWORDS[@]}", ["run", "<removed:PASSWORDS>", "<removed:PASSWORDS>"]),
        ("N='walrus dances'\nrun a.password=$N", ["run", "a.password=<removed:password>", "<removed:password>"]),
        ("DB_PASS='walrus dances'\nrun +note=$DB_PASS", ["run", "+note=<removed:DB_PASS>", "<removed:DB_PASS>"]),
        (
            "N='walrus dances'\nA=\"a.password=$N x=1\"\nrun $A",
            ["run", "a.password=<removed:password>", "<removed:password>", "x=1"],
        ),
        (
            "N='walrus dances'\nA=\"--password $N --x\"\nrun $A",
            ["run", "--password", "<removed:password>", "<removed:password>", "--x"],
        ),
    ],
)
def test_words_of_a_phrase(text: str, expected: list[str]) -> None:
    assert words(text) == expected
    assert "walrus" not in redact.text(
        "refused: walrus quickly dances" if "quickly" in text else "refused: walrus dances"
    )


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ('PASSWORD=quokka\nrun --note $PASSWORD "x $PASSWORD"', ["--note", "{}", "x {}"]),
        ('PASSWORD=quokka\nA="--note $PASSWORD"\nB="$A --y"\nrun $B', ["--note", "{}", "--y"]),
        ('PASSWORD="a quokka"\nA="--note $PASSWORD"\nrun $A "$A"', ["--note", "{}", "{}", "--note {} {}"]),
        ('login() { run --note "$1"; }\nPASSWORD=quokka\nlogin $PASSWORD', ["--note", "{}"]),
        ("export PASSWORD=quokka NOTE=$PASSWORD\nrun --note=$PASSWORD", ["--note={}"]),
        ("run --note ${PASSWORD:-quokka} ${PASSWORD:=quokka} $PASSWORD", ["--note", "{}", "{}", "{}"]),
        ('run "${PASSWORD:-quokka}"', ["{}"]),
        ("PASSWORD=quokka\n[ -z $PASSWORD ] && run lost || run ${#PASSWORD} ${PASSWORD:+set}", ["18", "set"]),
    ],
)
def test_what_a_variable_holds_stays_secret_through_others(script: str, expected: list[str]) -> None:
    assert words(script)[1:] == [word.replace("{}", "<removed:PASSWORD>") for word in expected]


@pytest.mark.parametrize(
    "script",
    [
        "PROMPT_KEY=question\nrun $PROMPT_KEY",
        "EOS_TOKEN='</s>'\nrun $EOS_TOKEN",
        "MAX_TOKEN=512\nrun $MAX_TOKEN",
        "LEN_PASS=4096\nrun $LEN_PASS",
    ],
)
def test_other_variables_are_read_as_they_are(script: str) -> None:
    assert "<removed" not in " ".join(map(str, words(script)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TOKEN_ARGS='--max-tokens 5 --x'\nrun $TOKEN_ARGS", ["run", "--max-tokens", "5", "--x"]),
        ("KEYS='question answer'\nrun --prompt-key $KEYS", ["run", "--prompt-key", "question", "answer"]),
        ("MAX_TOKENS='16 32'\nrun --max-tokens $MAX_TOKENS", ["run", "--max-tokens", "16", "32"]),
        ("EXTRA='a.b=1 c.d=2'\nrun --password $EXTRA", ["run", "--password", "a.b=1", "c.d=2"]),
        ("N='walrus dances'\nrun --password \"$N\"", ["run", "--password", "walrus dances"]),
        ("A='--password walrus config.yaml'\nrun $A", ["run", "--password", "walrus", "config.yaml"]),
        ("N='walrus dances'\nA=\"--x $N\"\nrun $A", ["run", "--x", "walrus", "dances"]),
        ("N='walrus dances'\nrun --note $N", ["run", "--note", "walrus", "dances"]),
    ],
)
def test_what_is_no_phrase_is_read_as_it_is(text: str, expected: list[str]) -> None:
    assert words(text) == expected
