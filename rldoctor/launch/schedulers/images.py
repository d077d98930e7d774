"""Images whose containers start a program by themselves: what their arguments are handed to.

https://docs.vllm.ai/en/latest/deployment/docker.html"""

from __future__ import annotations

import re

_STARTS = {"vllm/vllm-openai": ("vllm", "serve")}
_NAME = re.compile(r"(?:[^/]+[.:][^/]*/)?(?P<name>[^:@]+)")


def program(image: object) -> tuple[str, ...]:
    """The words that an image's entry point stands for; none where that is not known."""
    found = _NAME.match(image) if isinstance(image, str) else None
    return _STARTS.get(found["name"], ()) if found is not None else ()
