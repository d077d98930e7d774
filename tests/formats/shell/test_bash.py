"""The reader against bash itself: what bash runs, the reader has, word by word, or it says that it cannot know."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldoctor.formats.shell.reader import read_shell
from rldoctor.formats.source import Source
from tests.formats.shell.scripts import BASH, Writer, difference, in_bash

pytestmark = pytest.mark.skipif(BASH is None, reason="needs bash")
ARGUMENTS = ["first", "2nd arg"]
HOME = {"HOME": "/home/somebody"}
SCRIPTS = 400
BATCHES = 8


def read_and_run(text: str, folder: Path, arguments: list[str]) -> tuple[str, bool] | None:
    """The difference and whether the reader knew every word; None where bash finds fault with the script."""
    ran = in_bash(text, folder, HOME, arguments)
    if ran is None:
        return None
    read = read_shell(Source(text, "script.sh"), HOME, arguments=arguments)
    known = all(isinstance(word.value, str) for command in read.commands for word in command.words)
    return difference(read.commands, ran), known


@pytest.mark.parametrize("batch", range(BATCHES))
def test_generated_scripts_are_read_as_bash_runs_them(batch: int, tmp_path: Path) -> None:
    run = known = 0
    for seed in range(batch, SCRIPTS, BATCHES):
        text = Writer(seed).script()
        found = read_and_run(text, tmp_path, ARGUMENTS if seed % 2 else [])
        if found is not None:
            assert not found[0], f"seed {seed}\n{text}\n{found[0]}"
            run, known = run + 1, known + found[1]
    assert run > SCRIPTS / BATCHES / 3
    assert known > run / 12


@pytest.mark.parametrize(
    "text",
    [
        'DATA="data.n=8 data.m=1"\nROLLOUT="rollout.n=4"\nARGS="$DATA $ROLLOUT $NONE"\nrun $ARGS\n',
        'A=1\nrun "$A $A" "$A${A} ${A}"\n',
        'A=(1 2)\nrun $A ${A[*]} "${A[*]}"\n',
        'run "${NONE[@]}" end\n',
        "A='a b'\nB=($A \"$A\")\nrun ${#B[@]}\n",
        "f() { local A=2; run $A; }\nA=1\nf\nrun $A\n",
        "while [ $# -gt 0 ]; do case $1 in --lr) LR=$2; shift 2;; *) shift;; esac; done\nrun --lr ${LR:-none}\n",
        'for x in a b; do ARGS+=(--x $x); done\nrun "${ARGS[@]}"\n',
        "for x in a b; do if [ $x = a ]; then F=$x; break; fi; done\nrun $F\n",
        "IFS=,\nA=a,b\nrun $A\n",
        'A=x; A=(y z); A=w\nrun "${A[@]}"\n',
        'A=(y z)\nA[1]=q\nA+=(last)\nrun "${A[@]}"\n',
        "N=3\n((N += 2)); ((N++)); let M=N+1\nrun $N $M $((N > 2 ? 10 : 20))\n",
        'set -- --a 1 "b c"\nshift\nrun "$@" $#\n',
        'run {a,b}{1..3} "{x,y}" {"k": 1} p{q}r\n',
        "cat=1\nrun \\\n  --a \\\n  --b # comment\nrun $'tab\\there' \"a\\$b\"\n",
        "if [[ 7B-model == *-model ]]; then run yes; else run no; fi\n",
        'if [[ "$*" == *"--help"* ]]; then exit 0; fi\nrun "$@"\n',
        'A="x y"\nif [[ $A == *"x "y* && $A != "y"* ]]; then run yes; fi\n',
        'A="x y"\ncase $A in *"q"*) run q;; "x"*) run x;; esac\ntest "${B:-$B}" = 1 && run no\nrun end\n',
        "D=$(dirname /a/b/c.sh) E=$(basename /a/b/c.sh .sh)\nrun ${D##*/} $(echo $E x)\n",
        "run $(dirname -- /a/b/c.sh) $(basename -- /a/b/c.sh)\n",
        "set -e\nA=1 B=2 run x\nrun ${A:-none}\n",
        'A=${P:-$((1024 * 2))}\nB="${Q:-$((A + 1))}"\nrun $A $B ${D:=$((A > 5 ? 7 : 8))}x\n',
        'A=1 B=2 C=c.d\nP=data/$A/$B/$C.parquet\nrun "$P" x=$A-$B-$C/ ${A}/$B/c "$A"/$B,$C=1 {a,$A/$B/c} $A/$B\\ d\n',
        "A=1\nB=2\nexport P=$A/$B/x Q=$A:$B:y\nrun $P $Q $((A * 8/$B)) $A.$B.$A*\n",
        'A=3\nB=${P:-$(((A + 4) / 2))}\nrun ${C:-$(((A + B) * 2))}\nrun "${Q:-$(((A * B)))}" ${R:-$((A))}\n',
        'set -eou pipefail\nrun "$@" $#\n',
        'set -o errexit -uo pipefail a b\nrun "$@"\n',
        'P=proj\nrun ${P:+--project "$P" --entity \'me too\'} "${Q:-a \'b\'}" ${Q:- lead "x y" } end\n',
        'run "${NONE[@]+"${NONE[@]}"}" "${NONE[@]:-}" end\n',
        'A=(1 2 3)\nIFS=,\nrun "${A[*]}" "f=[${A[*]}]"\nset -- x y\nB="$*" C=${A[*]}\nunset IFS\nrun "$B" "$C" "$*"\n',
        "A=(a b c)\nunset 'A[1]'\nrun \"${A[@]}\"\n",
        "export NODES=2 WORLD=$((NODES * 8))\nf() { local a=1 b=$a; run ${b:-none}; }\nf\nrun $WORLD $NODES\n",
        "pick() { local -n to=$1; to=big; }\nMODEL=small\npick MODEL\nrun $MODEL\n",
        "join() { local IFS=' '; echo \"$*\"; }\nA=$(join --a 1 'x y')\nrun $A \"$A\"\n",
        'opts() { echo --lr "$1"; [ "$2" = big ] && echo --big; }\nrun $(opts 1e-6 big) $(opts 2 small)\n',
        "f() { cat <<EOF\n--a $1\n--b ${2:-3}\nEOF\n}\nrun $(f 7)\n",
        "pick() { case $1 in 7b) echo 2;; *) echo 4;; esac; }\nrun $(pick 7b) $(pick 32b)\n",
        'f() { X=changed; printf "%s" "$1"; }\nX=old\nrun "$(f a)" $X\n',
        'f() { if [ $1 -gt 4 ]; then echo "$(($1 / 2))"; return; fi; echo $1; }\nrun $(f 8) $(f 2)\n',
        'run $(printf "%s=%d " a 1 b) $(printf "[%s]") $(printf "x\\t" 1 2)\n',
        'run $(seq -s, 0 3) $(seq -s , 2) "$(seq -s " " 3 -1 1)"\n',
        "declare -A O=([p]=2 [a-b]=c\n  [z/1]='q w')\nO[p]=3\nK=new\nO[$K]=4\nO[p]+=4\n"
        'run ${O[p]} "${O[$K]}" ${O[a-b]} "${O[z/1]}" ${O[none]} "${O[none]}" ${O[none]:-7} ${O[p]:+y}\n',
        'declare -A O\nO[x]=1\nif [ "$1" = first ]; then O[y]=2; else O[x]=3; fi\nrun ${O[x]} ${O[y]} end\n',
        'f() { local -A M=([a]=1); run ${M[a]} "${M[b]}" end; }\nf\nrun "${M[a]}" end\n',
        "declare -A M=([Q-7B]=2 [Q-32B]=4)\nfor m in Q-7B Q-32B; do TP=${M[$m]}; done\nrun $TP ${M[Q-7B]}\n",
        "declare -A M=([a]=1)\nM+=([b]=2 [a]=3)\nrun ${M[a]} ${M[b]}\nM=([c]=9)\nrun ${M[a]}x ${M[c]}\n",
        'declare -A M=([a]=1 [b]=2)\nunset "M[a]"\nrun x${M[b]}\n',
        "declare -i N=4\nrun $N\nN=N*2\nN+=1\nrun $N\n",
        "run a >/dev/null --b 1 2>&1 --c\nrun <<E d e\ntext\nE\n",
        "run {a..g..3} {g..a..3} one\\\ntwo\n",
        'HOME=/h\nA=${X:-~/d}\nrun $A ${X:-~/e} "${X:-~/f}" key=~/g a.b=~/i --p=~/j\n',
        "A=1 B=2\nexport C=3 D=$A\nE=5 F=6\nunset A\nG=7 H=8\nif [ $B = 2 ]; then run $C$D$E; fi\nrun ${A:-gone}\n",
        'run ${A:-`echo old`} "${B:-x`echo y`}"\n',
        "D=/x\nrun \"${T:-['$D/a', \\\"$D\\\"]}\" ${U:-['$D/a']} \"${V:-'$D/a' b}\" \"${W-['a']}\"\n",
        'N=1\nA=$(cat <<EOF\nx $N\nEOFINNER\n  EOF\nEOF_$N y\nEOF\n)\nrun "$A"\nrun end\n',
    ],
)
def test_what_launch_scripts_do(text: str, tmp_path: Path) -> None:
    found = read_and_run(text, tmp_path, ["--lr", "1e-6"])
    assert found is not None
    assert not found[0], found[0]


@pytest.mark.parametrize(
    "text",
    [
        "N=8\nread -r -d '' X <<EOF\n-m tool --n $N \\\n   --p \"a b\"\n   --q 'c' --r \\$N\nEOF\nrun $X \"$X\"\n",
        "read -r -d '' X <<'EOF' || true\n  --n $N \\\n --p\n\nEOF\nrun $X \"$X\"\n",
        "N=1\nIFS= read -rd '' X <<EOF\n $N x \n\nEOF\nrun \"$X\"\n",
        'read -r A B <<< \'one two three \'\nrun $A "$B" end\nread -r A B <<< one\nrun $A "$B" end\n',
        "V='h:1 8'\nread -r HOST GPUS <<< \"$V\"\nrun $HOST ${GPUS}\n",
        "read -r <<< ' x  y '\nrun \"$REPLY\"\n",
        'read -r A B <<EOF\nfirst line here\nsecond\nEOF\nrun $A "$B"\n',
        "A=1\nIFS= read -rd '' X <<EOF\n\n\n  $A\nEOF\nrun \"$X\"\n",
        "A=1\nread -rd '' X <<-EOF\n\t\ta $A\n\t b\n\tEOF\nrun \"$X\"\n",
        "read -rd : A <<< 'a b:c'\nrun \"$A\"\n",
        "f() { read -r -d '' X <<EOF\n$1 and $2\nEOF\nrun $X; }\nf a 'b c'\n",
    ],
)
def test_what_read_takes_from_its_own_input_is_known(text: str, tmp_path: Path) -> None:
    assert read_and_run(text, tmp_path, []) == ("", True)


@pytest.mark.parametrize(
    "text",
    [
        "read -r X <<< $RANDOM\nrun $X\n",
        "IFS=, read -r A B <<< 'a,b'\nrun $A $B\n",
        "read A <<< 'a\\b'\nrun \"$A\"\n",
        "read -r -n 2 A <<< abc\nrun $A\n",
        "echo x | read -r A\nrun ${A:-none}\n",
        "read -r -d '' X <<EOF\n--host $RANDOM --n 1\nEOF\nrun $X\n",
        "while read -r A; do run $A; done <<EOF\na\nb\nEOF\n",
    ],
)
def test_what_it_takes_otherwise_is_never_another_thing(text: str, tmp_path: Path) -> None:
    found = read_and_run(text, tmp_path, [])
    assert found is not None and not found[0]


CONFIG = """\
# model_name_or_path: an older one
model_name_or_path: org/Model-7B
gradient_accumulation_steps: 4   # of two nodes
  tp: 2

data:parquet:train
"""


@pytest.mark.parametrize(
    "command",
    [
        "grep 'model_name_or_path:' c.yaml | awk '{print $2}'",
        "grep '^model_name_or_path:' c.yaml | awk '{print $2}'",
        "grep -E '^ *tp' c.yaml | cut -d: -f2",
        "grep -i ^GRADIENT c.yaml | awk -F': ' '{print $2}' | cut -d ' ' -f 1",
        "awk '/^gradient/ {print $NF}' c.yaml",
        "awk -F: '/parquet/{ print $3; }' c.yaml",
        "cat c.yaml | grep model_name | tail -n 1 | awk '{print $2}'",
        "grep -h model c.yaml | tail -1 | cut -d' ' -f2",
        "tail -n1 c.yaml | cut -f 1 -d:",
        "head -2 c.yaml | tail -n 1",
        "grep model_name c.yaml missing.yaml 2>/dev/null | wc -l",
        "grep -c : c.yaml",
        "awk '{print $9}' c.yaml",
    ],
)
def test_what_commands_print_of_a_file(command: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    text = f'A=$({command})\nrun "$A"\n'
    ran = in_bash(text, tmp_path, {}, [])
    assert ran is not None

    def opened(name: str) -> Source | None:
        return Source(CONFIG, name) if name == "c.yaml" else None

    assert not (wrong := difference(read_shell(Source(text, "script.sh"), {}, files=opened).commands, ran)), wrong
