"""The one error that ends a command with a clear line and exit code 2."""

from __future__ import annotations


class InputError(Exception):
    """What the user gave cannot be used; the message is one line that says what and where."""
