"""Secrets that stand where a program or a function takes them, without a name: ``wandb login KEY``, ``sshpass -p
PASSWORD``, ``auth=("user", "password")``, a query of a URL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rldoctor.redact.names import is_nothing, looks_made
from rldoctor.redact.spans import Span

_QUOTE = r"[\"'`]?"
_VALUE = r"(?P<value>[^\s\"'`]{1,256})"
_QUOTED = r"(?P<value>[^\"'\n]{1,256})"
_WORDS = r"[^\n|;]{0,200}?"
# Whatever stands there is the secret.
_CERTAIN = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?<!\S)(?:-u|--user|--proxy-user)[ \t=]{{1,4}}{_QUOTE}[^\s:\"'/]{{1,64}}:{_VALUE}",
        rf"\bmachine\s{{1,4}}\S{{1,200}}\s{{1,4}}login\s{{1,4}}\S{{1,200}}\s{{1,4}}password\s{{1,4}}{_VALUE}",
        rf"\bsshpass[ \t]{{1,4}}-p[ \t]{{0,4}}{_QUOTE}{_VALUE}",
        rf"\b(?:mysql|mysqldump|mariadb)\b{_WORDS}[ \t]-p{_QUOTE}{_VALUE}",
        rf"\bredis-cli\b{_WORDS}[ \t](?:-a|--pass)[ \t]{{1,4}}{_QUOTE}{_VALUE}",
        rf"\b(?:docker|podman|skopeo|helm)\b[^\n|;]{{0,80}}?\blogin\b{_WORDS}[ \t]-p[ \t]{{1,4}}{_QUOTE}{_VALUE}",
        rf"-pass(?:in|out)?[ \t]{{1,4}}pass:{_VALUE}",
        rf"(?:\bauth[ \t]{{0,4}}=[ \t]{{0,4}}|BasicAuth)\([ \t]{{0,4}}[\"'][^\"'\n]{{0,64}}[\"'][ \t]{{0,4}},"
        rf"[ \t]{{0,4}}[\"']{_QUOTED}",
        r"\bSecretStr\([ \t]{0,4}[\"']" + _QUOTED,
    )
)
# What stands there may be something else too.
_LIKELY = tuple(
    re.compile(pattern)
    for pattern in (
        r"\blogin\([^()\n]{0,80}?[\"']" + _QUOTED,
        rf"\b(?:wandb|swanlab|hf|huggingface-cli|modelscope|comet|neptune|clearml|npm|twine|hf auth)[ \t]{{1,4}}login\b"
        rf"{_WORDS}[ \t]{_QUOTE}(?P<value>[^\s\"'`:/-][^\s\"'`:/]{{7,255}})(?=[\s\"'`]|$)",
        r"[?&#](?:key|sig|signature|token|auth|code|\w{1,24}[_-](?:key|sig|signature|token))=(?P<value>[^\s&\"'`<>]{8,1024})",
        r"[?&](?:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token))=(?P<value>[^\s&\"'`<>]{8,1024})",
    )
)
# Words that all of them hold; most texts have none.
_SIGNS = re.compile(r"-u|--proxy-user|machine|-p|-a\b|pass|auth|Auth|SecretStr|login|[?&#][\w-]{1,40}=")


def find(text: str) -> Iterator[Span]:
    """Where such secrets stand."""
    if not _SIGNS.search(text):
        return
    for pattern in (*_CERTAIN, *_LIKELY):
        for hit in pattern.finditer(text):
            if not is_nothing(hit["value"]) and (pattern in _CERTAIN or looks_made(hit["value"])):
                yield Span(hit.start("value"), hit.end("value"), "password" if pattern in _CERTAIN else "login")
