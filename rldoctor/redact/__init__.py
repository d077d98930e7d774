"""The one door: what leaves the process (a report, a bundle, a folder, a line of progress) passes here without secrets.

A secret is found by the name it stands under (``names``), before values are joined where that is possible (``argv``,
``tree``, ``variable``) and inside text otherwise (``named``), as the credentials of a URL (``urls``), by the form that
its issuer gave it (``kinds``), and by memory: what was once known as a secret is removed wherever it appears again
(``memory``). In its place stands a mark such as ``<removed:HF_TOKEN>``, the same for the same name, so that two texts
can still be compared. Every search is linear in the length of its text.
"""

from __future__ import annotations

from rldoctor.redact.door import argv, begin, environ, learn, lines, text, tree, variable, without_secrets
from rldoctor.redact.marks import has_mark, is_mark, mark
from rldoctor.redact.memory import remember, remember_phrase
from rldoctor.redact.names import is_secret_option, is_secret_variable

__all__ = [
    "argv",
    "begin",
    "environ",
    "has_mark",
    "is_mark",
    "is_secret_option",
    "is_secret_variable",
    "learn",
    "lines",
    "mark",
    "remember",
    "remember_phrase",
    "text",
    "tree",
    "variable",
    "without_secrets",
]
