"""Tokens that their own form gives away, whatever they stand under.

Forms are those that issuers publish and secret scanners search for (https://github.com/gitleaks/gitleaks,
https://github.com/Yelp/detect-secrets), with shorter tails, so that a token cut off at the end of a line is found too.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache

from rldoctor.redact.spans import LAST_RESORT, Span

_FORMS = {
    "huggingface-token": r"(?:hf|api_org)_[A-Za-z0-9]{20,}",
    "openai-key": r"sk-[\w-]{16,}",
    "github-token": r"gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}",
    "gitlab-token": r"gl(?:pat|dt|ft|rt|ptt|soat|agent|oas|cbt|ffct|imt)-[\w-]{16,}",
    "aws-key": r"A(?:KIA|SIA|BIA|CCA|3T[A-Z0-9])[0-9A-Z]{16}",
    "slack-token": r"xox[abceoprs](?:\.xox[bp])?-[\w-]{10,}|xapp-\d-[\w-]{10,}",
    "nvidia-key": r"nvapi-[\w-]{20,}",
    "google-key": r"AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}",
    "modelscope-token": r"ms-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{20,}",
    "jwt": r"eyJ[\w-]{8,}\.[\w-]{8,}\.?[\w-]*",
    "wandb-key": r"wandb_v\d_[\w-]{20,}",
    "alibaba-key": r"LTAI[A-Za-z0-9]{12,}",
    "stripe-key": r"[sr]k_(?:test|live|prod)_[A-Za-z0-9]{10,}",
    "npm-token": r"npm_[A-Za-z0-9]{30,}",
    "pypi-token": r"pypi-[\w-]{50,}",
    "docker-token": r"dckr_(?:pat|oat)_[\w-]{20,}",
    "databricks-token": r"dapi[0-9a-f]{32}",
    "digitalocean-token": r"do[opr]_v1_[0-9a-f]{32,}",
    "grafana-token": r"gl(?:c|sa)_[A-Za-z0-9+/_]{30,}",
    "groq-key": r"gsk_[A-Za-z0-9]{20,}",
    "replicate-token": r"r8_[A-Za-z0-9]{30,}",
    "perplexity-key": r"pplx-[A-Za-z0-9]{30,}",
    "tavily-key": r"tvly-[\w-]{20,}",
    "fireworks-key": r"fw_[A-Za-z0-9]{20,}",
    "xai-key": r"xai-[A-Za-z0-9]{40,}",
    "vault-token": r"hv[bs]\.[\w-]{60,}",
    "sendgrid-key": r"SG\.[\w-]{16,}\.[\w-]{16,}",
    "prefect-key": r"pn[bu]_[A-Za-z0-9]{30,}",
    "notion-token": r"ntn_[A-Za-z0-9]{40,}",
    "pulumi-token": r"pul-[0-9a-f]{40}",
    "sentry-token": r"sntry[su]_[\w+/=-]{30,}",
    "shopify-token": r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    "fly-token": r"fo1_[\w-]{40,}|fm[12][ar]?_[A-Za-z0-9+/]{60,}",
    "age-key": r"AGE-SECRET-KEY-1[0-9A-Z]{50,}",
}
# The secret of a hook is the end of its path.
_HOOKS = (
    r"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[\w/+-]{20,}"
    r"|(?<=/api/webhooks/)\d+/[\w-]{20,}|(?<=/webhookb2/)[\w@-]{20,}[\w/@-]*|(?<=/IncomingWebhook/)[\w/-]{16,}"
    r"|(?<=hooks\.zapier\.com/)hooks/catch/[\w/-]{10,}|(?<=/with/key/)[\w-]{16,}|(?<=/hooks/)[\w/-]{20,}"
    r"|(?<=/open-apis/bot/)v2/hook/[\w-]{16,}|(?<=api\.telegram\.org/)bot\d+:[\w-]{20,}"
    r"|(?<=office\.com/webhook/)[\w@-]{16,}[\w/@-]*|(?<=\.ftqq\.com/)[\w-]{16,}|(?<=api\.day\.app/)[\w-]{16,}"
)
_BEARER = re.compile(r"(?<!\w)(?:bearer|basic)[ \t]{1,4}([\w.~+/=-]{8,})", re.IGNORECASE)
_HAS_A_DIGIT = re.compile(r"\d")
_BLOCK = re.compile(
    r"-----BEGIN[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 (?:ENCRYPTED )?PRIVATE KEY ----"
)
_END = re.compile(r"-----END[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-----|---- END SSH2 (?:ENCRYPTED )?PRIVATE KEY ----")
# As PuTTY keeps it.
_PUTTY = re.compile(
    r"Private-Lines:[ \t]{0,4}\d{1,3}(?:\s{1,90}[A-Za-z0-9+/=]{16,}(?=\s)){1,100}|Private-MAC:[ \t]{0,4}\w{16,}"
)
# Lines of sixteen characters and more, the last one before the end apart; headers of the key before them.
_BODY = re.compile(r"(?:(?:\s|\\[nr])*(?:[A-Za-z0-9+/=]{16,}(?![\w.:])|(?:Proc-Type|DEK-Info): [^\n\\]*))*")
_BODY_LINE = re.compile(r"[ \t]*[A-Za-z0-9+/=]{16,}[ \t]*")
# Letters that every form above begins with or holds; most lines have none of them.
_SIGNS = re.compile(
    r"hf_|_org_|sk-|gh[opsur]_|_pat_|gl[a-z]+[-_]|A(?:KIA|SIA|BIA|CCA|3T)|xox|xapp|nvapi|AIza|ya29|GOCSPX|ms-|eyJ|wandb_v|LTAI|k_(?:test|live|prod)"
    r"|npm_|pypi-|dckr|dapi|_v1_|gsk_|r8_|pplx|tvly|fw_|xai-|hv[bs]\.|SG\.|pn[bu]_|ntn_|pul-|sntry|shp|fo1_|fm[12]|AGE-|hook|Hook|telegram|/key/|ftqq|day\.app"
)

# The last resort: what no person and no program would name anything, with letters of both cases and digits in turn.
# Digests and UUIDs have one case, names of classes and models have words, names that C++ mangles begin with _Z.
_RUN = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z0-9]{20,512}(?![A-Za-z0-9])")
_WORD = re.compile(r"[A-Z][a-z]{2,}|[a-z]{3,}|[A-Z]{4,}|\d{5,}")
_CHANGE = re.compile(r"(?<=[a-z])[^a-z]|(?<=[A-Z])[^A-Z]|(?<=\d)\D")
_EACH = 3


@cache
def _forms() -> re.Pattern[str]:
    named = "|".join(f"(?P<{name.replace('-', '_')}>{form})" for name, form in _FORMS.items())
    return re.compile(rf"(?<![A-Za-z0-9])(?:{named})|(?P<webhook>{_HOOKS})")


def find(text: str) -> Iterator[Span]:
    """Where tokens stand that are known by their form, private keys and what follows ``Bearer``."""
    if _SIGNS.search(text):
        for hit in _forms().finditer(text):
            yield Span(hit.start(), hit.end(), (hit.lastgroup or "").replace("_", "-"))
    for hit in _BEARER.finditer(text):
        if _HAS_A_DIGIT.search(hit[1]) or len(hit[1]) >= 24:
            yield Span(hit.start(1), hit.end(1), "bearer")
    for hit in _RUN.finditer(text):
        if _is_random(hit[0]):
            yield Span(hit.start(), hit.end(), LAST_RESORT)
    if "Private-" in text:
        for hit in _PUTTY.finditer(text):
            yield Span(hit.start(), hit.end(), "private-key")
    if "PRIVATE KEY" in text:
        yield from _private_keys(text)


def _is_random(run: str) -> bool:
    each = (sum(map(kind, run)) for kind in (str.islower, str.isupper, str.isdigit))
    words = sum(len(word) for word in _WORD.findall(run))
    return min(each) >= _EACH and len(_CHANGE.findall(run)) >= 0.4 * (len(run) - 1) and words <= 0.45 * len(run)


def _private_keys(text: str) -> Iterator[Span]:
    position = 0
    ends = [hit.end() for hit in _END.finditer(text)]
    for begin in _BLOCK.finditer(text):
        if begin.start() < position:
            continue
        following = bisect_right(ends, begin.end())
        if following < len(ends):
            position = ends[following]
        else:  # cut off
            body = _BODY.match(text, begin.end())
            position = body.end() if body else begin.end()
        yield Span(begin.start(), position, "private-key")
    first = _END.search(text)
    if first is not None and not _BLOCK.search(text, 0, first.start()):
        # Its beginning was cut off: the lines before the end are the key's.
        start = first.start()
        while start:
            above = text.rfind("\n", 0, start - 1) + 1
            if not _BODY_LINE.fullmatch(text[above : start - 1]):
                break
            start = above
        yield Span(start, first.end(), "private-key")
