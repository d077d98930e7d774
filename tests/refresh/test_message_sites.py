"""What a module's source can print, read from its text."""

from __future__ import annotations

import pytest

from rldoctor.refresh.message_sites import Message, messages
from rldoctor.tables.messages import HOLE, MARKS


def found(body: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Type, template (holes in angle brackets) and conditions without their mark of what a function's body prints."""
    text = "def run(self, a, b):\n" + "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return [(m.type, shown(m), tuple(c for c in m.conditions if c not in MARKS)) for m in messages(text)]


def shown(message: Message) -> str:
    parts = message.template.split(HOLE)
    return "".join(f"<{part}>" if position % 2 else part for position, part in enumerate(parts))


@pytest.mark.parametrize(
    ("written", "template"),
    [
        ('raise ValueError(f"got {a.size!r} of {b:.2f}")', "got <a.size> of <b>"),
        ('raise ValueError("got %d of %(name)s%%" % {"name": b})', "got <{'name': b}> of <b>%"),
        ('raise ValueError("got %s of %.2f" % (a, b))', "got <a> of <b>"),
        ('raise ValueError("got {} of {x:>3} {{}}".format(a, x=b))', "got <a> of <b> {}"),
        ('raise ValueError("got " + str(a) + ", " "then " + b)', "got <str(a)>, then <b>"),
        ('msg = f"got {a}"\nmsg += ", sorry"\nraise ValueError(msg)', "got <a>, sorry"),
        ('e = ValueError(f"got {a}")\nraise e from None', "got <a>"),
        ('raise ValueError("""one\n    two""")', "one two"),
        ('raise ValueError("first", a)', "('first', <a>)"),
        ("raise ValueError(a)", "<a>"),
        ("raise ValueError", ""),
    ],
)
def test_templates_of_what_is_raised(written: str, template: str) -> None:
    assert found(written) == [("ValueError", template, ())]


def test_refusals_count_and_lines_of_a_log_do_not() -> None:
    assert found(
        """
parser.error(f"--x must be {a}")
sys.exit("no GPU")
sys.exit(1)
logger.error(f"no {a}")
warnings.warn("old", DeprecationWarning)
"""
    ) == [("SystemExit", "--x must be <a>", ()), ("SystemExit", "no GPU", ())]


def test_conditions_are_those_around_the_innermost_last() -> None:
    assert found(
        """
if a > 1:
    for x in b:
        assert x == a, "differs"
elif b:
    try:
        go()
    except KeyError as error:
        raise RuntimeError("no") from error
else:
    raise
"""
    ) == [
        ("AssertionError", "differs", ("a > 1", "not (x == a)")),
        ("RuntimeError", "no", ("not (a > 1)", "b", "except KeyError")),
    ]


def test_texts_that_a_value_is_compared_with_in_turn_are_one_condition() -> None:
    assert found(
        """
if a.kind in ("x", "y"):
    pass
elif a.kind == "z":
    if b == "u":
        pass
    else:
        raise ValueError("b")
elif c == "w":
    pass
else:
    raise ValueError("kind")
"""
    ) == [
        ("ValueError", "b", ("not (a.kind in ('x', 'y'))", "a.kind == 'z'", "not (b == 'u')")),
        ("ValueError", "kind", ("a.kind not in ('x', 'y', 'z')", "not (c == 'w')")),
    ]


def test_functions_are_qualified_and_exceptions_speak_for_themselves() -> None:
    text = """
class Gone(RuntimeError):
    def __init__(self, name):
        super().__init__(f"{name} is gone")
class Config:
    def verify(self):
        def inner():
            raise ValueError("x")
raise ImportError("needs torch")
"""
    assert [(m.function, m.type, shown(m)) for m in messages(text)] == [
        ("Gone", "Gone", "<name> is gone"),
        ("Config.verify.inner", "ValueError", "x"),
        ("", "ImportError", "needs torch"),
    ]


@pytest.mark.parametrize("text", ["raise (:", "raise \0", f"raise {'(' * 400}{')' * 400}"])
def test_what_cannot_be_parsed_is_said(text: str) -> None:
    with pytest.raises(SyntaxError):
        list(messages(text))
