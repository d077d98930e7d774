"""Tokens that their own form gives away, whatever they stand under.

Forms are those that issuers publish and secret scanners search for (https://github.com/gitleaks/gitleaks,
https://github.com/Yelp/detect-secrets), with shorter tails, so that a token cut off at the end of a line is found too.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache

from rldoctor.expressions import expression
from rldoctor.redact.names import is_random
from rldoctor.redact.spans import LAST_RESORT, Span

_FORMS = {
    "huggingface-token": r"(?:hf|api_org)_[A-Za-z0-9]{20,}",
    "openai-key": r"sk-[\w-]{16,}",
    "github-token": r"gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}",
    "gitlab-token": (
        r"gl(?:pat|dt|ft|rt|ptt|soat|agent|oas|cbt|ffct|imt)-[\w-]{16,}(?:\.[0-9a-z]{9})?|GR1348941[\w-]{16,}"
        r"|(?<=_gitlab_session=)[0-9a-z]{32}"
    ),
    "aws-key": r"A(?:KIA|SIA|BIA|CCA|3T[A-Z0-9])[0-9A-Z]{16}|ABSK[A-Za-z0-9+/]{60,}|bedrock-api-key-[A-Za-z0-9+/]{16,}",
    "azure-secret": r"[A-Za-z0-9_~.]{3}\dQ~[\w~.-]{31,34}",
    "slack-token": r"xox[abceoprs](?:\.xox[bp])?-[\w-]{10,}|xapp-\d-[\w-]{10,}",
    "nvidia-key": r"nvapi-[\w-]{20,}",
    "google-key": r"AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}",
    "modelscope-token": r"ms-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{20,}",
    "jwt": r"(?:eyJ|ewo[giJ])[\w-]{8,4096}\.[\w-]{8,}\.?[\w-]*|ZXlK[\w-]{40,}",
    "dingtalk-secret": r"SEC[0-9a-f]{40,64}\b",
    "wandb-key": r"wandb_v\d_[\w-]{20,}",
    "langsmith-key": r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}",
    "kaggle-token": r"KGAT_[0-9a-f]{32}",
    "alibaba-key": r"LTAI[A-Za-z0-9]{12,}",
    "runpod-key": r"rpa_[A-Z0-9]{30,}",
    "modal-token": r"a[ks]-[A-Za-z0-9]{22}\b",
    "together-key": r"tgp_v1_[\w-]{30,}",
    "cerebras-key": r"csk-[a-z0-9]{40,}",
    "pinecone-key": r"pcsk_\w{40,}",
    "jina-key": r"jina_[0-9a-f]{32}[\w-]{20,}",
    "e2b-key": r"e2b_[0-9a-f]{40}",
    "stripe-key": r"[sra]k_(?:test|live|prod)_[A-Za-z0-9]{10,}|pi_[A-Za-z0-9]{16,}_secret_[A-Za-z0-9]{16,}",
    "npm-token": r"npm_[A-Za-z0-9]{30,}",
    "pypi-token": r"pypi-[\w-]{50,}",
    "rubygems-token": r"rubygems_[A-Za-z0-9]{48}",
    "clojars-token": r"(?i:CLOJARS_)[A-Za-z0-9]{60}",
    "docker-token": r"dckr_(?:pat|oat)_[\w-]{20,}",
    "artifactory-key": r"AKCp[A-Za-z0-9]{50,}|cmVmd[A-Za-z0-9]{55,}",
    "databricks-token": r"(?:dapi|dose)[0-9a-f]{32}",
    "digitalocean-token": r"do[opr]_v1_[0-9a-f]{32,}",
    "grafana-token": r"gl(?:c|sa)_[A-Za-z0-9+/_]{30,}|eyJrIjoi[A-Za-z0-9+/]{50,}",
    "groq-key": r"gsk_[A-Za-z0-9]{20,}",
    "replicate-token": r"r8_[\w-]{30,}",
    "perplexity-key": r"pplx-[A-Za-z0-9]{30,}",
    "tavily-key": r"tvly-[\w-]{20,}",
    "fireworks-key": r"fw_[A-Za-z0-9]{20,}",
    "xai-key": r"xai-\w{40,}",
    "vault-token": r"hv[bs]\.[\w-]{60,}",
    "terraform-token": r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}",
    "sendgrid-key": r"SG\.[\w=.-]{32,}",
    "brevo-key": r"xkeysib-[\w-]{40,}",
    "prefect-key": r"pn[bu]_[A-Za-z0-9]{30,}",
    "notion-token": r"ntn_[A-Za-z0-9]{40,}",
    "linear-key": r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}",
    "figma-token": r"fig[dorpu]h?_[\w=-]{36,}",
    "airtable-token": r"pat[A-Za-z0-9]{14}\.[0-9a-f]{32,}",
    "atlassian-token": r"ATATT3[\w=-]{60,}|ATCTT3[\w=-]{60,}",
    "postman-key": r"PMAK-[0-9a-f]{24}-[0-9a-f]{20,}",
    "pulumi-token": r"pul-[0-9a-f]{40}",
    "doppler-token": r"dp\.(?:pt|st|sa|ct|scim|audit)\.[\w.-]{40,}",
    "1password-key": r"A3-[A-Z0-9]{6}-[A-Z0-9-]{11,13}(?:-[A-Z0-9]{5}){2,3}|ops_eyJ[A-Za-z0-9+/]{40,}",
    "sentry-token": r"sntry[su]_[\w+/=-]{30,}",
    "newrelic-key": r"NR(?:AK|II|JS|AA|IQ|BR)-[\w-]{19,}",
    "dynatrace-token": r"dt0[cs]\d\d\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{40,}",
    "circleci-token": r"CCI(?:PAT|PRJ)_[A-Za-z0-9]{16,}_[0-9a-f]{40}",
    "buildkite-token": r"bk[a-z]{2,3}_[0-9a-f]{40}",
    "harness-token": r"[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}",
    "octopus-key": r"API-[A-Z0-9]{26}\b",
    "openshift-token": r"sha256~[\w-]{43}",
    "tailscale-key": r"tskey-[a-z]{2,10}-\w{8,}(?:-\w{16,})?",
    "defined-key": r"dnkey-[\w-]{40,}",
    "cloudflare-key": r"v1\.0-[A-Za-z0-9-]{120,}",
    "heroku-key": r"HRKU-[\w-]{36,}",
    "netlify-token": r"nf[pco]_\w{36,}",
    "scalingo-token": r"tk-us-[\w-]{40,}",
    "supabase-key": r"sb[ps]_[0-9a-z]{40}|sb_secret_[\w-]{20,}",
    "planetscale-token": r"pscale_(?:tkn|oauth|pw)_[\w=.-]{30,}",
    "clickhouse-key": r"4b1d(?![0-9a-f]+\b)[A-Za-z0-9]{38}\b",
    "shopify-token": r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    "shippo-token": r"shippo_(?:live|test)_[0-9a-fA-F]{40}",
    "square-token": r"sq0[a-z]{3}-[\w-]{22,}|EAAA[\w+=-]{58,}",
    "easypost-key": r"EZ[AT]K[A-Za-z0-9]{50,}",
    "flutterwave-key": r"FLW(?:SECK|PUBK)(?:_TEST)?-[0-9A-Za-z]{12,}(?:-X)?",
    "duffel-token": r"duffel_(?:test|live)_[\w=-]{36,}",
    "facebook-token": r"EAA[A-Z][A-Za-z0-9]{90,}",
    "twilio-key": r"SK[0-9a-f]{32}\b",
    "telegram-token": r"\d{8,10}:AA[\w-]{33}",
    "discord-token": r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}",
    "adobe-secret": r"p8e-[A-Za-z0-9]{32}",
    "frameio-token": r"fio-u-[\w=-]{40,}",
    "infracost-key": r"ico-[A-Za-z0-9]{32}\b",
    "intra42-secret": r"s-s4t2(?:ud|af)-[0-9a-f]{64}",
    "maxmind-key": r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk",
    "readme-key": r"rdme_[a-z0-9]{60,}",
    "settlemint-token": r"sm_[aps]at_[A-Za-z0-9]{16}",
    "authress-key": r"(?:sc|ext|scauth|authress)_\w{5,30}\.\w{4,6}\.acc[_-][\w-]{10,32}\.[\w+/=-]{30,}",
    "fly-token": r"fo1_[\w-]{40,}|fm[12][ar]?_[A-Za-z0-9+/]{60,}",
    "bitbucket-token": r"BBDC-[A-Za-z0-9+/@_-]{40,}",
    "contentful-token": r"CFPAT-[\w-]{40,}",
    "endorlabs-key": r"endr\+[\w-]{16,}",
    "fleetbase-key": r"flb_(?:live|test)_[A-Za-z0-9]{20,}",
    "flexport-token": r"shltm_[\w-]{40,}",
    "klaviyo-key": r"pk_[0-9a-f]{34}\b",
    "launchdarkly-key": r"(?:sdk|api|mob)-[0-9a-z]{8}(?:-[0-9a-z]{4}){3}-[0-9a-z]{12}",
    "posthog-key": r"ph[xc]_[A-Za-z0-9_]{40,}",
    "pubnub-key": r"[ps]ub-c-[0-9a-z]{8}(?:-[0-9a-z]{4}){3}-[0-9a-z]{12}",
    "razorpay-key": r"rzp_(?:live|test)_[A-Za-z0-9]{14}\b",
    "robinhood-key": r"rh-api-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "rootly-key": r"rootly_[0-9a-f]{64}",
    "salesforce-token": r"3MVG9[\w.=/+-]{60,}|5AEP861[\w.=/+-]{60,}|00D[A-Za-z0-9]{12,15}![\w.]{60,}",
    "serverchan-key": r"SCT\d{3,7}T[A-Za-z0-9]{20,}",
    "sourcegraph-token": r"slk_[0-9a-f]{64}",
    "ubidots-token": r"BBFF-[0-9A-Za-z]{30,}",
    "zoho-token": r"1000\.[0-9a-f]{32}\.[0-9a-f]{32}",
    "age-key": r"AGE-SECRET-KEY-1[0-9A-Z]{50,}",
    # As a system keeps the passwords of its users: crypt(5).
    "password-hash": (
        r"\$(?:[156]|apr1|y|7)\$(?:rounds=\d{1,9}\$)?[./A-Za-z0-9$]{1,100}\$[./A-Za-z0-9]{22,}"
        r"|\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}|\$argon2i?d?\$[\w=,$+/]{30,}"
    ),
}
# The secret of a hook is the end of its path.
_HOOKS = expression(
    r"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[\w/+-]{20,}"
    r"|(?<=/webhooks/)\d+/[\w-]{20,}|(?<=/webhookb2/)[\w@-]{20,}[\w/@-]*|(?<=/IncomingWebhook/)[\w/-]{16,}"
    r"|(?<=hooks\.zapier\.com/)hooks/catch/[\w/-]{10,}|(?<=/with/key/)[\w-]{16,}|(?<=/hooks/)[\w/-]{20,}"
    r"|(?<=/open-apis/bot/)v2/hook/[\w-]{16,}|(?<=api\.telegram\.org/)bot\d+:[\w-]{20,}"
    r"|(?<=/t/)[a-z]{2}-[0-9a-f]{8}-[0-9a-f-]{20,}(?=/)"
    r"|(?<=office\.com/webhook/)[\w@-]{16,}[\w/@-]*|(?<=\.ftqq\.com/)[\w-]{16,}|(?<=api\.day\.app/)[\w-]{16,}"
)
_BEARER = expression(r"(?<!\w)(?:bearer|basic)[ \t]{1,4}([\w.~+/=-]{8,})", re.IGNORECASE)
_HAS_A_DIGIT = expression(r"\d")
_BLOCK = expression(
    r"-----BEGIN[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 (?:ENCRYPTED )?PRIVATE KEY ----"
)
_END = expression(r"-----END[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-----|---- END SSH2 (?:ENCRYPTED )?PRIVATE KEY ----")
# As PuTTY keeps it.
_PUTTY = expression(
    r"Private-Lines:[ \t]{0,4}\d{1,3}(?:\s{1,90}[A-Za-z0-9+/=]{16,}(?=\s)){1,100}|Private-MAC:[ \t]{0,4}\w{16,}"
)
# Lines of sixteen characters and more, the last one before the end apart; headers of the key before them. Who speaks
# may stand before each, also where lines were joined.
_BODY = expression(
    r"(?:(?:\s|\\[nr])*(?:(?:\[[^\[\]\n]{1,60}\]:?|\([^()\n]{1,80}\)|[#>+|│])(?:\s|\\[nr])+){0,3}"
    r"(?:[A-Za-z0-9+/=]{16,}(?![\w.:])|(?:Proc-Type|DEK-Info|Version|Comment|Charset): [^\n\\]*))*"
)
_BODY_LINE = expression(r"[ \t]*[A-Za-z0-9+/=]{16,}[ \t]*")
# No form is shorter; most words are.
_LONG_WORD = expression(r"[^\s\"'`<>;(){}\[\]]{15,}")

# The last resort: what no person and no program would name anything, with letters of both cases and digits in turn.
# Digests and UUIDs have one case, names of classes and models have words, names that C++ mangles begin with _Z.
# An issuer's prefix may stand before it.
_RUN = expression(r"(?<!\w)(?:[a-z][a-z0-9]{1,15}_){0,3}(?P<run>[A-Za-z0-9]{20,512})(?![A-Za-z0-9])")
# What is drawn at random and told to everybody: digests that ssh and npm write in base64, public keys, and what servers
# call requests, answers and calls of tools.
_TOLD_TO_ALL = expression(
    r"(?:(?i:sha\d{1,3}|md5)[:=-]|\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\w{1,16})\s{1,4})[A-Za-z0-9+/]{0,128}\Z"
    r"|\b(?i:etag)[\"']?[:=][ \t]?(?:W/)?\\{0,4}[\"']?(?:\w{1,16}-)?\Z"
    r"|\b(?:chatcmpl|cmpl|req|resp|msg|call|toolu)[-_]\Z|[-_](?i:id)[\"']?[:=][ \t]?[\"']?(?:[a-z]{1,15}_)?\Z"
    r"|\bID[ ]\((?:for example|e\.g\.),?[ ][`\"']?(?:[a-z]{1,15}_)?\Z"
)
# An image or a document within a text; a picture may be as long as a log.
_MEDIA = expression(
    r"(?:\bdata:[\w/.+-]{1,64};base64,|(?<![A-Za-z0-9+/=])(?=iVBORw0KGgo|/9j/4|R0lGOD|UklGR|JVBERi0))[A-Za-z0-9+/=]*"
)


@cache
def _forms() -> re.Pattern[str]:
    named = "|".join(f"(?P<_{name.replace('-', '_')}>{form})" for name, form in _FORMS.items())
    return expression(rf"(?<![A-Za-z0-9])(?:{named})|(?P<webhook>{_HOOKS.pattern})")


def find(text: str) -> Iterator[Span]:
    """Where tokens stand that are known by their form, private keys and what follows ``Bearer``."""
    for word in _LONG_WORD.finditer(text):
        for hit in _forms().finditer(text, *word.span()):
            yield Span(hit.start(), hit.end(), (hit.lastgroup or "").lstrip("_").replace("_", "-"))
    # In the name of a file that was made of a URL a slash is an underscore.
    for hit in _HOOKS.finditer(text.replace("_", "/") if ":__" in text else ""):
        yield Span(*hit.span(), "webhook")
    for hit in _BEARER.finditer(text):
        if _HAS_A_DIGIT.search(hit[1]) or len(hit[1]) >= 24:
            yield Span(hit.start(1), hit.end(1), "bearer")
    media = _MEDIA.finditer(text)
    picture = next(media, None)
    for hit in _RUN.finditer(text):
        while picture and picture.end() <= hit.start():
            picture = next(media, None)
        in_a_picture = picture is not None and picture.start() <= hit.start()
        if (
            is_random(hit["run"])
            and not in_a_picture
            and not _TOLD_TO_ALL.search(text, max(0, hit.start() - 136), hit.start("run"))
        ):
            yield Span(hit.start(), hit.end(), LAST_RESORT)
    if "Private-" in text:
        for hit in _PUTTY.finditer(text):
            yield Span(hit.start(), hit.end(), "private-key")
    if "PRIVATE KEY" in text:
        yield from _private_keys(text)


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
