"""No text that is made to keep an expression busy costs the door much more than an ordinary one of its length."""

from __future__ import annotations

import time
from collections.abc import Callable

from rldoctor import redact
from tests import hostile

SIZE = 2500
ORDINARY = "(TaskRunner pid=812) step:12 - actor/loss:0.312 token_level_rewards: [1, 0] api_key=Ab12cd34ef56\n" * 50
# The worst takes one and a half times as much; one that takes the square, or a window's, hundreds of times.
MOST = 12
# One of so many is tried: all of them take a minute.
EACH = 24


def texts() -> list[str]:
    """What each expression looks for, over and over, alone and as what a name is given."""
    made = set()
    for number, expression in enumerate(hostile.expressions(redact)):
        for begin, again in hostile.fragments(expression, number):
            if again:
                made.add((begin + again * (SIZE // len(again) + 1))[:SIZE])
                made.add((f"password = {begin}{again}" * SIZE)[:SIZE])
    return sorted(made)


def seconds(work: Callable[[str], object], text: str) -> float:
    """Of processor time, for the door as a command begins."""
    redact.begin({})
    before = time.process_time()
    work(text)
    return time.process_time() - before


def named(text: str) -> None:
    """The text under names that judge what they are given in their own ways."""
    for name in ("password", "x_pass", "Authorization"):
        redact.tree({name: text})


def test_no_repetition_costs_much_more_than_an_ordinary_text() -> None:
    made = texts()
    assert len(made) > 1000
    ordinary = min(seconds(redact.text, ORDINARY[:SIZE]) for _ in range(3))
    for text in made[::EACH]:
        for work in (redact.text, named):
            assert any(seconds(work, text) <= MOST * ordinary for _ in range(3)), text[:200]


def test_what_took_minutes_takes_no_more_than_any_other() -> None:
    ordinary = min(seconds(redact.text, ORDINARY[:SIZE]) for _ in range(3))
    assert seconds(redact.text, f"password = <<a{' ' * 60}\n" * (SIZE // 75)) <= MOST * ordinary
    assert seconds(lambda text: redact.tree({"x_pass": text}), "a" * 20 * SIZE) <= MOST * 20 * ordinary
    assert seconds(lambda text: redact.tree({"x_key": text}), '", ""--creds=' + "a" * 2 * SIZE) <= MOST * 2 * ordinary
