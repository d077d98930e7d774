"""Here documents and the files that a script writes."""

from __future__ import annotations

import pytest

from rldoctor.formats.shell.reader import Script, read_shell
from rldoctor.formats.source import Source


def script(text: str) -> Script:
    return read_shell(Source(text, "run.sh"))


def test_a_here_document_is_the_input_of_its_command_or_a_file_that_it_writes() -> None:
    text = "N=4\ncat > acc.yaml <<EOF\nnum_processes: $N\nother: ${M}\nEOF\npython - <<'EOF'\nx = '$N'\nEOF\n"
    found = script(text)
    assert found.files["acc.yaml"].text == "num_processes: 4\nother: ${M}\n"
    assert found.files["acc.yaml"].first_line == 3
    stdin = found.commands[-1].stdin
    assert stdin is not None
    assert (stdin.text, stdin.first_line) == ("x = '$N'\n", 7)


def test_what_a_variable_holds_stands_in_a_here_document_without_the_quotes_of_its_assignment() -> None:
    text = 'HOSTS="localhost,${MASTER_ADDR},10.0.0.0/8"\ncat > env.json <<EOF\n{"no_proxy": "${HOSTS}"}\nEOF\n'
    assert script(text).files["env.json"].text == '{"no_proxy": "localhost,${MASTER_ADDR},10.0.0.0/8"}\n'


@pytest.mark.parametrize(
    "writing",
    [
        "cat > c.yaml <<EOF\nn: 1\nEOF\n",
        "cat <<EOF > c.yaml\nn: 1\nEOF\n",
        "tee c.yaml <<EOF\nn: 1\nEOF\n",
        "F=c\ncat <<'EOF' > $F.yaml\nn: 1\nEOF\n",
    ],
)
def test_ways_to_write_a_file(writing: str) -> None:
    assert {name: file.text for name, file in script(writing).files.items()} == {"c.yaml": "n: 1\n"}


@pytest.mark.parametrize(
    "function",
    [
        "log() { echo starting $1 >&2; }\nsize() { log it; echo 8; }\n",
        "size() { >&2 echo starting; echo 8; }\n",
        "size() { { echo starting; printf x; } 1>&2; echo 8; }\n",
        "size() { echo starting $(date) >> run.log; echo 8 2>/dev/null; }\n",
        "size() { cat <<EOF >&2\nstarting\nEOF\necho 8; }\n",
        "size() { echo 8 | cat; }\n",
    ],
)
def test_what_is_sent_elsewhere_is_no_part_of_what_a_function_prints(function: str) -> None:
    run = script(f"{function}run $(size)\n").commands[-1]
    assert [word.value for word in run.words] == ["run", "8"]


def test_a_file_whose_name_is_not_known_is_none_of_the_scripts() -> None:
    assert script("cat > $WHERE <<EOF\nn: 1\nEOF\n").files == {}
