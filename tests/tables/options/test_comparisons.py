"""Words that an option is compared with, out of a framework's code, and whether it refuses others."""

from __future__ import annotations

import ast
import textwrap

import pytest

from rldoctor.tables.options.comparisons import Comparisons
from rldoctor.tables.options.model import Option


class Tree:
    """A few source files."""

    def __init__(self, *texts: str) -> None:
        self.texts = {f"pkg/code{place}.py": textwrap.dedent(text) for place, text in enumerate(texts)}

    def read(self, path: str) -> str | None:
        return self.texts[path]

    def names(self, folder: str) -> tuple[str, ...]:
        return tuple(self.texts)


def named(text: str, option: Option, *others: str) -> tuple[str, ...] | None:
    """The words of an option that refuses any other, None of one that does not."""
    found = Comparisons(Tree(text, *others), ("pkg",)).named(option)
    return found.names if found.closed else None


@pytest.mark.parametrize(
    "text",
    [
        """
        if self.config.lr_scheduler_type == "cosine":
            pass
        elif self.config.lr_scheduler_type in ("linear", "constant"):
            pass
        else:
            raise ValueError(self.config.lr_scheduler_type)
        """,
        'assert cfg["optim"]["lr_scheduler_type"] in ["constant", "cosine", "linear"]',
        """
        valid = {"constant", "cosine", "linear", None}
        if optim_config.lr_scheduler_type not in valid:
            raise ValueError
        """,
        """
        def scheduler(lr_scheduler_type):
            if lr_scheduler_type == "constant":
                return 1
            if lr_scheduler_type == "cosine" or lr_scheduler_type == "linear":
                return 2
            raise NotImplementedError
        """,
        """
        class Schedule(str, Enum):
            CONSTANT = "constant"
            COSINE = "cosine"
            LINEAR = "linear"

        schedule = Schedule(config.optim.lr_scheduler_type)
        """,
    ],
)
def test_code_that_refuses_any_other_word(text: str) -> None:
    option = Option("actor.optim.lr_scheduler_type", "constant", "str")
    assert named(text, option) == ("constant", "cosine", "linear")


@pytest.mark.parametrize(
    "text",
    [
        'if config.loss_type == "a":\n    pass\nelif config.loss_type == "b":\n    pass',  # others go on
        """
        if config.loss_type == "a":
            pass
        elif config.loss_type in REGISTRY:
            pass
        else:
            raise ValueError
        """,
        'assert config.loss_type in ("a", "b")\nloss = REGISTRY[config.loss_type]',
        'assert config.loss_type in ("a", "b")\nloss = registry.get(config.loss_type)',
        'assert config.loss_type in ("a", "b")\nif config.loss_type.endswith("+"):\n    pass',
        'assert config.loss_type in ("a", "b")\nif "+" in config.loss_type:\n    pass',
        'assert config.loss_type in ("c", "d")',  # the default is none of them: another thing is meant
        'assert config.loss_type in ("a",)',
        'assert head.loss_type in ("a", "b")',  # of another section
        'assert config.loss_type in ("a", *MORE)',
        """
        class Loss:
            def __init__(self, loss_type):
                assert loss_type in ("a", "b")

        Loss(loss_type=self.inner)  # a parameter of the same name, which gets another value
        """,
    ],
)
def test_code_that_may_take_other_words(text: str) -> None:
    assert named(text, Option("actor.loss_type", "a", "str")) is None


def test_a_word_that_many_sections_have_is_told_by_its_section_alone() -> None:
    text = 'assert self.optimizer_config.type in ["adam", "sgd"]'
    assert named(text, Option("actor.optimizer.type", "adam", "str")) == ("adam", "sgd")
    assert named(text, Option("actor.scheduler.type", "adam", "str")) is None
    assert named('assert type in ["adam", "sgd"]', Option("actor.optimizer.type", "adam", "str")) is None


def test_a_local_name_joins_the_section_and_the_key_or_is_its_end() -> None:
    text = 'assert adv_estimator_name in ("grpo", "gdpo")\nassert kl_type in ("k1", "k3")'
    assert named(text, Option("grpo.adv_estimator.name")) == ("gdpo", "grpo")
    assert named(text, Option("loss.reference_policy_kl_type", "k3")) == ("k1", "k3")
    assert named(text, Option("loss.reference_policy_kl_type")) is None


def test_declared_choices_and_numbers_stay_as_they_are() -> None:
    text = 'assert config.loss_type in ("a", "b")'
    assert named(text, Option("loss_type", "a", "str", choices=("a", "b", "c"))) is None
    assert named(text, Option("loss_type", 1, "int")) is None


@pytest.mark.parametrize(
    ("call", "closed"),
    [
        ("OptimizerParamScheduler(lr_decay_style=self.config.lr_scheduler_type)", False),  # another package's
        ("warm_up(lr_scheduler_type=self.config.lr_scheduler_type)", True),
        ("warm_up(scheduler_type=self.config.lr_scheduler_type)", True),
        ("warm_up(kind=self.config.lr_scheduler_type)\nassert kind in ('constant', 'linear')", True),
    ],
)
def test_a_value_that_is_handed_on_to_other_code_may_be_any(call: str, closed: bool) -> None:
    text = f"{call}\nassert self.config.lr_scheduler_type in ['constant', 'linear']"
    found = named(text, Option("optimizer.lr_scheduler_type", default="constant"))
    assert found == (("constant", "linear") if closed else None)


ASKED = 'assert config.optim.kind in ["adam", "sgd"]'
KIND = Option("actor.optim.kind", "adam")


def test_what_other_modules_show_of_the_value_counts() -> None:
    assert named(ASKED, KIND, "run(kind)", 'if cfg.optim.kind == "lion": pass') == ("adam", "lion", "sgd")
    assert named(ASKED, KIND, "run(kind)", 'if cfg.optim.kind.startswith("ext:"): pass') is None
    assert named(ASKED, KIND, "start(optimizer=optim.kind)", "import optim") is None
    assert named(ASKED, KIND, "start(optimizer=optim.kind)", 'if optimizer == "adam": pass') == ("adam", "sgd")


def test_only_modules_that_may_ask_for_the_option_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(text: str) -> ast.AST:
        parsed.append(text)
        return compile(text, "", "exec", ast.PyCF_ONLY_AST)

    monkeypatch.setattr("rldoctor.tables.options.comparisons.ast.parse", parse)
    others = ("import os", "for kind in kinds: print(kind)", "make(kind=kind)")
    compared = Comparisons(Tree(ASKED, *others), ("pkg",))
    assert not compared.named(Option("actor.optim.name", "adam")).closed
    assert not compared.named(Option("critic.other.kind", "adam")).closed
    assert parsed == [ASKED]
    assert compared.named(KIND).names == ("adam", "sgd")
    assert "import os" not in parsed
