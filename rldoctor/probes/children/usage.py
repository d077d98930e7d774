"""What a parser says of the words that it is given, as an exception in the place of the end of the process."""

from __future__ import annotations

import argparse
from typing import NoReturn

# Words of a refusal that is about devices or packages of this machine, and not about the settings.
OF_THE_MACHINE = r"gpu|cuda|\bnpu|not installed|pip install|not available|No module"


class UsageError(ValueError):
    """The words of a command are refused, as ``error: unrecognized arguments: --foo``."""


def refused(parser: argparse.ArgumentParser, status: int = 0, message: str | None = None) -> NoReturn:
    """Stands for ``exit`` of a parser."""
    _, error, said = str(message).strip().partition("error: ")
    raise UsageError(error + said if error else str(message))
