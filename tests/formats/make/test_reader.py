"""Makefiles are read as make runs them: held against ``make --dry-run`` where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rldoctor.formats.make.reader import MAX_REFERENCES, read_make
from rldoctor.formats.source import Source

MAKE = shutil.which("make")
MAKEFILES = {
    "variables": "A = 1\nB := $(A)2\nA = 3\nrun:\n\techo $(A) ${B} $A $$HOME\n",
    "prerequisites": "all: one two\n\techo all\none:\n\techo one\ntwo: one\n\t@echo two\n",
    "continued": "OPTS = --a 1 \\\n  --b 2\nrun:\n\tpython train.py \\\n\t  $(OPTS) \\\n\t  --c 3\n",
    "grown": "OPTS := --a 1\nOPTS += --b 2\nOPTS := $(OPTS) --c\nrun:\n\techo $(OPTS)\n",
    "automatic": ".PHONY: train\ntrain: data.json\n\techo $@ $< $^\ndata.json:\n\techo make $@\n",
    "on one line": "run: ; echo one\n",
    "double colon": "X ::= 4\nrun:\n\techo $(X)   # said\n",
    "marks": "run:\n\t-@echo quiet\n\t@ echo again\n",
    "several lines": "N := 8\ndefine ARGS\n--a 1 --n $(N) \\\n--b 2\nendef\nrun:\n\techo $(ARGS) end\n",
    "canned recipe": "define BOTH =\n@echo one $@\nsecond=2; echo $$second\nendef\nrun:\n\t$(BOTH)\n",
    "at once": "X = 1\ndefine Y :=\n$(X)\nendef\nX = 2\nrun:\n\techo $(Y)\n",
    "several targets": "a b: c\n\techo $@\nc:\n\techo c\n",
}


@pytest.mark.skipif(MAKE is None, reason="make is not installed")
@pytest.mark.parametrize("name", MAKEFILES)
def test_what_make_would_run(name: str, tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILES[name])
    assert MAKE is not None
    # Below another make it would say which folder it enters.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    dry = subprocess.run(
        [MAKE, "-n"], cwd=tmp_path, env=outside, capture_output=True, text=True, timeout=30, check=True
    )
    ours = read_make(Source(MAKEFILES[name], "Makefile"))
    read = "\n".join(line.text for line in ours.commands(ours.targets()[:1]))
    assert read.split() == dry.stdout.split()


def test_what_the_command_line_sets_wins() -> None:
    make = read_make(Source("LR = 1\nTP ?= 2\nrun:\n\trun --lr $(LR) --tp $(TP) --n $(N)\n", "Makefile"), {"LR": "5"})
    (line,) = make.commands(["run"])
    assert line.text == "run --lr 5 --tp ${TP:-2} --n ${N}"
    assert line.first_line == 4
    assert make.environment() == {"LR": "5"}


@pytest.mark.parametrize("text", ["ifdef BIG\nM = 70B\nendif\n", "M != ls\n", "M = $(if $(BIG),70B,7B)\n"])
def test_what_make_decides_itself_is_an_output_nobody_knows(text: str) -> None:
    (line,) = read_make(Source(text + "run:\n\trun --model $(M)\n", "Makefile")).commands(["run"])
    assert "$(" in line.text


def test_exports_and_includes() -> None:
    def opened(name: str) -> Source | None:
        return Source("N = 8\n", name) if name == ".env" else None

    text = "include .env\n-include gone.mk\nexport\nK := 2\nrun:\n\trun $(N)\n"
    make = read_make(Source(text, "Makefile"), files=opened)
    assert make.environment() == {"N": "8", "K": "2"}
    assert [line.text for line in make.commands(["run"])] == ["run 8"]
    assert read_make(Source("export A = 1\nB = 2\n", "Makefile")).environment() == {"A": "1"}


@pytest.mark.parametrize("text", ["A = $(A)x\nrun:\n\trun $(A)\n", "a: b\n\trun a\nb: a\n\trun b\n"])
def test_what_refers_to_itself_ends(text: str) -> None:
    make = read_make(Source(text, "Makefile"))
    assert len(list(make.commands(make.targets()[:1]))) <= 2


def test_variables_that_double_end() -> None:
    doubled = "".join(f"A{n} = $(A{n + 1})$(A{n + 1})$(A{n + 1})\n" for n in range(60))
    make = read_make(Source(f"{doubled}B = $(B)$(B)$(B)\nrun:\n\trun $(A0) $(B)\n", "Makefile"))
    (line,) = make.commands(["run"])
    assert "$(make)" in line.text and make.references <= MAX_REFERENCES * 2
