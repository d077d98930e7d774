"""What a YAML scalar means to those who read it: PyYAML, and OmegaConf, which knows more numbers and no dates."""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yaml.events import ScalarEvent
    from yaml.resolver import Resolver

_PREFIX = "tag:yaml.org,2002:"
MAX_DIGITS = 300
# OmegaConf reads 1e-6, which PyYAML takes for a text (omegaconf/_utils.py, get_yaml_loader).
_FLOAT = re.compile(
    r"""^(?:[-+]?[0-9]+(?:_[0-9]+)*\.[0-9_]*(?:[eE][-+]?[0-9]+)?
    |[-+]?[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+)
    |\.[0-9]+(?:_[0-9]+)*(?:[eE][-+][0-9]+)?
    |[-+]?[0-9]+(?:_[0-9]+)*(?::[0-5]?[0-9])+\.[0-9_]*
    |[-+]?\.(?:inf|Inf|INF)
    |\.(?:nan|NaN|NAN))$""",
    re.VERBOSE,
)


class Rules(Enum):
    """Whose reader gives a scalar its type."""

    PYYAML = "PyYAML"
    OMEGACONF = "OmegaConf"


def resolve(event: ScalarEvent, rules: Rules) -> str:
    """The tag of a scalar: its own, else what its text means where it is plain."""
    import yaml

    if event.tag is not None and event.tag != "!":
        return str(event.tag)
    if not event.implicit[0] or len(event.value) > MAX_DIGITS:
        return f"{_PREFIX}str"
    return str(
        _resolver(rules).resolve(  # type: ignore[no-untyped-call]
            yaml.ScalarNode, event.value, (True, False)
        )
    )


@cache
def _resolver(rules: Rules) -> Resolver:
    from yaml.resolver import Resolver

    if rules is Rules.PYYAML:
        return Resolver()

    class OmegaConf(Resolver):
        pass

    OmegaConf.add_implicit_resolver(f"{_PREFIX}float", _FLOAT, list("-+0123456789."))
    OmegaConf.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag != f"{_PREFIX}timestamp"]
        for first, known in OmegaConf.yaml_implicit_resolvers.items()
    }
    return OmegaConf()


def construct(tag: str, text: str) -> Any:
    """The value of a scalar with a tag of YAML itself; a date stays a text. Raises ValueError where it is none."""
    import yaml

    kind = tag.removeprefix(_PREFIX)
    if kind not in ("int", "float", "bool", "null"):
        return text
    if len(text) > MAX_DIGITS:
        raise ValueError("too many digits")
    node = yaml.ScalarNode(tag, text)
    make = getattr(_constructor(), f"construct_yaml_{kind}")
    try:
        return make(node)
    except KeyError:
        raise ValueError(f"{text!r} is no {kind}") from None


@cache
def _constructor() -> Any:
    from yaml.constructor import SafeConstructor

    return SafeConstructor()
