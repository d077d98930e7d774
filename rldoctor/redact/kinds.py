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
    "openai-key": r"sk-[\w-]{16,}",
    "azure-secret": r"[A-Za-z0-9_~.]{3}\dQ~[\w~.-]{31,34}",
    "modelscope-token": r"ms-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{20,}",
    "dingtalk-secret": r"SEC[0-9a-f]{40,64}\b",
    "modal-token": r"a[ks]-[A-Za-z0-9]{22}\b",
    "airtable-token": r"pat[A-Za-z0-9]{14}\.[0-9a-f]{32,}",
    "buildkite-token": r"bk[a-z]{2,3}_[0-9a-f]{40}",
    "clojars-token": r"(?i:CLOJARS_)[A-Za-z0-9]{60}",
    "twilio-key": r"SK[0-9a-f]{32}\b",
    "telegram-token": r"\d{8,10}:AA[\w-]{33}",
    "discord-token": r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}",
    "launchdarkly-key": r"(?:sdk|api|mob)-[0-9a-z]{8}(?:-[0-9a-z]{4}){3}-[0-9a-z]{12}",
}
# Those that few texts have a sign of; one stands in each token.
_RARE = {
    "huggingface-token": ("api_org_|hf_", r"(?:hf|api_org)_[A-Za-z0-9]{20,}"),
    "github-token": ("ghp_|gho_|ghs_|ghu_|ghr_|github_pat_", r"gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"),
    "gitlab-token": (
        "glpat-|gldt-|glft-|glrt-|glptt-|glsoat-|glagent-|gloas-|glcbt-|glffct-|glimt-|GR1348941|_gitlab_session=",
        r"gl(?:pat|dt|ft|rt|ptt|soat|agent|oas|cbt|ffct|imt)-[\w-]{16,}(?:\.[0-9a-z]{9})?|GR1348941[\w-]{16,}"
        r"|(?<=_gitlab_session=)[0-9a-z]{32}",
    ),
    "aws-key": (
        "AKIA|ASIA|ABIA|ACCA|A3T|ABSK|bedrock-api-key-",
        r"A(?:KIA|SIA|BIA|CCA|3T[A-Z0-9])[0-9A-Z]{16}|ABSK[A-Za-z0-9+/]{60,}|bedrock-api-key-[A-Za-z0-9+/]{16,}",
    ),
    "slack-token": ("xox|xapp-", r"xox[abceoprs](?:\.xox[bp])?-[\w-]{10,}|xapp-\d-[\w-]{10,}"),
    "nvidia-key": ("nvapi-", r"nvapi-[\w-]{20,}"),
    "google-key": ("AIza|GOCSPX-|ya29.", r"AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}"),
    "jwt": ("eyJ|ewog|ewoi|ewoJ|ZXlK", r"(?:eyJ|ewo[giJ])[\w-]{8,4096}\.[\w-]{8,}\.?[\w-]*|ZXlK[\w-]{40,}"),
    "wandb-key": ("wandb_v", r"wandb_v\d_[\w-]{20,}"),
    "langsmith-key": ("lsv2_pt_|lsv2_sk_", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    "kaggle-token": ("KGAT_", r"KGAT_[0-9a-f]{32}"),
    "alibaba-key": ("LTAI", r"LTAI[A-Za-z0-9]{12,}"),
    "runpod-key": ("rpa_", r"rpa_[A-Z0-9]{30,}"),
    "together-key": ("tgp_v1_", r"tgp_v1_[\w-]{30,}"),
    "cerebras-key": ("csk-", r"csk-[a-z0-9]{40,}"),
    "pinecone-key": ("pcsk_", r"pcsk_\w{40,}"),
    "jina-key": ("jina_", r"jina_[0-9a-f]{32}[\w-]{20,}"),
    "e2b-key": ("e2b_", r"e2b_[0-9a-f]{40}"),
    "stripe-key": (
        "k_test_|k_live_|k_prod_|_secret_",
        r"[sra]k_(?:test|live|prod)_[A-Za-z0-9]{10,}|pi_[A-Za-z0-9]{16,}_secret_[A-Za-z0-9]{16,}",
    ),
    "npm-token": ("npm_", r"npm_[A-Za-z0-9]{30,}"),
    "pypi-token": ("pypi-", r"pypi-[\w-]{50,}"),
    "rubygems-token": ("rubygems_", r"rubygems_[A-Za-z0-9]{48}"),
    "docker-token": ("dckr_oat_|dckr_pat_", r"dckr_(?:pat|oat)_[\w-]{20,}"),
    "artifactory-key": ("AKCp|cmVmd", r"AKCp[A-Za-z0-9]{50,}|cmVmd[A-Za-z0-9]{55,}"),
    "databricks-token": ("dapi|dose", r"(?:dapi|dose)[0-9a-f]{32}"),
    "digitalocean-token": ("doo_v1_|dop_v1_|dor_v1_", r"do[opr]_v1_[0-9a-f]{32,}"),
    "grafana-token": ("eyJrIjoi|glc_|glsa_", r"gl(?:c|sa)_[A-Za-z0-9+/_]{30,}|eyJrIjoi[A-Za-z0-9+/]{50,}"),
    "groq-key": ("gsk_", r"gsk_[A-Za-z0-9]{20,}"),
    "replicate-token": ("r8_", r"r8_[\w-]{30,}"),
    "perplexity-key": ("pplx-", r"pplx-[A-Za-z0-9]{30,}"),
    "tavily-key": ("tvly-", r"tvly-[\w-]{20,}"),
    "fireworks-key": ("fw_", r"fw_[A-Za-z0-9]{20,}"),
    "xai-key": ("xai-", r"xai-\w{40,}"),
    "vault-token": ("hvb.|hvs.", r"hv[bs]\.[\w-]{60,}"),
    "terraform-token": (".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}"),
    "sendgrid-key": ("SG.", r"SG\.[\w=.-]{32,}"),
    "brevo-key": ("xkeysib-", r"xkeysib-[\w-]{40,}"),
    "prefect-key": ("pnb_|pnu_", r"pn[bu]_[A-Za-z0-9]{30,}"),
    "notion-token": ("ntn_", r"ntn_[A-Za-z0-9]{40,}"),
    "linear-key": ("lin_api_|lin_oauth_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    "figma-token": ("figd_|figo_|figr_|figp_|figu_|figdh_|figoh_|figrh_|figph_|figuh_", r"fig[dorpu]h?_[\w=-]{36,}"),
    "atlassian-token": ("ATATT3|ATCTT3", r"ATATT3[\w=-]{60,}|ATCTT3[\w=-]{60,}"),
    "postman-key": ("PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{20,}"),
    "pulumi-token": ("pul-", r"pul-[0-9a-f]{40}"),
    "doppler-token": ("dp.audit.|dp.ct.|dp.pt.|dp.sa.|dp.scim.|dp.st.", r"dp\.(?:pt|st|sa|ct|scim|audit)\.[\w.-]{40,}"),
    "1password-key": ("A3-|ops_eyJ", r"A3-[A-Z0-9]{6}-[A-Z0-9-]{11,13}(?:-[A-Z0-9]{5}){2,3}|ops_eyJ[A-Za-z0-9+/]{40,}"),
    "sentry-token": ("sntrys_|sntryu_", r"sntry[su]_[\w+/=-]{30,}"),
    "newrelic-key": ("NRAA-|NRAK-|NRBR-|NRII-|NRIQ-|NRJS-", r"NR(?:AK|II|JS|AA|IQ|BR)-[\w-]{19,}"),
    "dynatrace-token": ("dt0c|dt0s", r"dt0[cs]\d\d\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{40,}"),
    "circleci-token": ("CCIPAT_|CCIPRJ_", r"CCI(?:PAT|PRJ)_[A-Za-z0-9]{16,}_[0-9a-f]{40}"),
    "harness-token": ("pat.|sat.", r"[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"),
    "octopus-key": ("API-", r"API-[A-Z0-9]{26}\b"),
    "openshift-token": ("sha256~", r"sha256~[\w-]{43}"),
    "tailscale-key": ("tskey-", r"tskey-[a-z]{2,10}-\w{8,}(?:-\w{16,})?"),
    "defined-key": ("dnkey-", r"dnkey-[\w-]{40,}"),
    "cloudflare-key": ("v1.0-", r"v1\.0-[A-Za-z0-9-]{120,}"),
    "heroku-key": ("HRKU-", r"HRKU-[\w-]{36,}"),
    "netlify-token": ("nfc_|nfo_|nfp_", r"nf[pco]_\w{36,}"),
    "scalingo-token": ("tk-us-", r"tk-us-[\w-]{40,}"),
    "supabase-key": ("sbp_|sbs_|sb_secret_", r"sb[ps]_[0-9a-z]{40}|sb_secret_[\w-]{20,}"),
    "planetscale-token": ("pscale_oauth_|pscale_pw_|pscale_tkn_", r"pscale_(?:tkn|oauth|pw)_[\w=.-]{30,}"),
    "clickhouse-key": ("4b1d", r"4b1d(?![0-9a-f]+\b)[A-Za-z0-9]{38}\b"),
    "shopify-token": ("shpat_|shpca_|shppa_|shpss_", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    "shippo-token": ("shippo_live_|shippo_test_", r"shippo_(?:live|test)_[0-9a-fA-F]{40}"),
    "square-token": ("EAAA|sq0", r"sq0[a-z]{3}-[\w-]{22,}|EAAA[\w+=-]{58,}"),
    "easypost-key": ("EZAK|EZTK", r"EZ[AT]K[A-Za-z0-9]{50,}"),
    "flutterwave-key": ("FLWPUBK|FLWSECK", r"FLW(?:SECK|PUBK)(?:_TEST)?-[0-9A-Za-z]{12,}(?:-X)?"),
    "duffel-token": ("duffel_live_|duffel_test_", r"duffel_(?:test|live)_[\w=-]{36,}"),
    "facebook-token": ("EAA", r"EAA[A-Z][A-Za-z0-9]{90,}"),
    "adobe-secret": ("p8e-", r"p8e-[A-Za-z0-9]{32}"),
    "frameio-token": ("fio-u-", r"fio-u-[\w=-]{40,}"),
    "infracost-key": ("ico-", r"ico-[A-Za-z0-9]{32}\b"),
    "intra42-secret": ("s-s4t2af-|s-s4t2ud-", r"s-s4t2(?:ud|af)-[0-9a-f]{64}"),
    "maxmind-key": ("_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    "readme-key": ("rdme_", r"rdme_[a-z0-9]{60,}"),
    "settlemint-token": ("sm_aat_|sm_pat_|sm_sat_", r"sm_[aps]at_[A-Za-z0-9]{16}"),
    "authress-key": (
        ".acc-|.acc_",
        r"(?:sc|ext|scauth|authress)_\w{5,30}\.\w{4,6}\.acc[_-][\w-]{10,32}\.[\w+/=-]{30,}",
    ),
    "fly-token": ("fo1_|fm1|fm2", r"fo1_[\w-]{40,}|fm[12][ar]?_[A-Za-z0-9+/]{60,}"),
    "bitbucket-token": ("BBDC-", r"BBDC-[A-Za-z0-9+/@_-]{40,}"),
    "contentful-token": ("CFPAT-", r"CFPAT-[\w-]{40,}"),
    "endorlabs-key": ("endr+", r"endr\+[\w-]{16,}"),
    "fleetbase-key": ("flb_live_|flb_test_", r"flb_(?:live|test)_[A-Za-z0-9]{20,}"),
    "flexport-token": ("shltm_", r"shltm_[\w-]{40,}"),
    "klaviyo-key": ("pk_", r"pk_[0-9a-f]{34}\b"),
    "posthog-key": ("phc_|phx_", r"ph[xc]_[A-Za-z0-9_]{40,}"),
    "pubnub-key": ("pub-c-|sub-c-", r"[ps]ub-c-[0-9a-z]{8}(?:-[0-9a-z]{4}){3}-[0-9a-z]{12}"),
    "razorpay-key": ("rzp_live_|rzp_test_", r"rzp_(?:live|test)_[A-Za-z0-9]{14}\b"),
    "robinhood-key": ("rh-api-", r"rh-api-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    "rootly-key": ("rootly_", r"rootly_[0-9a-f]{64}"),
    "salesforce-token": (
        "00D|3MVG9|5AEP861",
        r"3MVG9[\w.=/+-]{60,}|5AEP861[\w.=/+-]{60,}|00D[A-Za-z0-9]{12,15}![\w.]{60,}",
    ),
    "serverchan-key": ("SCT", r"SCT\d{3,7}T[A-Za-z0-9]{20,}"),
    "sourcegraph-token": ("slk_", r"slk_[0-9a-f]{64}"),
    "ubidots-token": ("BBFF-", r"BBFF-[0-9A-Za-z]{30,}"),
    "zoho-token": ("1000.", r"1000\.[0-9a-f]{32}\.[0-9a-f]{32}"),
    "age-key": ("AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{50,}"),
    # As a system keeps the passwords of its users: crypt(5).
    "password-hash": (
        "$1$|$5$|$6$|$apr1$|$y$|$7$|$2$|$2a$|$2b$|$2x$|$2y$|$argon2",
        r"\$(?:[156]|apr1|y|7)\$(?:rounds=\d{1,9}\$)?[./A-Za-z0-9$]{1,100}\$[./A-Za-z0-9]{22,}"
        r"|\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}|\$argon2i?d?\$[\w=,$+/]{30,}",
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
# What stands in its path before that, and what tells the rare forms.
_OF_HOOKS = (
    "hooks.|/webhook|/IncomingWebhook/|/with/key/|/hooks/|/open-apis/bot/|api.telegram.org/|/t/|.ftqq.com/|api.day.app/"
)
_SIGNS = tuple("|".join((_OF_HOOKS, *(signs for signs, _ in _RARE.values()))).split("|"))
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
def _forms(rare: bool) -> re.Pattern[str]:
    """Every form, or those that any text may have: to compile the others takes longer than to read many a text."""
    forms = _FORMS | {name: form for name, (_, form) in _RARE.items() if rare}
    named = "|".join(f"(?P<_{name.replace('-', '_')}>{form})" for name, form in forms.items())
    return expression(rf"(?<![A-Za-z0-9])(?:{named})" + (rf"|(?P<webhook>{_HOOKS.pattern})" if rare else ""))


def find(text: str) -> Iterator[Span]:
    """Where tokens stand that are known by their form, private keys and what follows ``Bearer``."""
    long = [*_LONG_WORD.finditer(text)]
    words = " ".join(word[0] for word in long)
    rare = any(sign in words for sign in _SIGNS)
    for word in long:
        for hit in _forms(rare).finditer(text, *word.span()):
            yield Span(hit.start(), hit.end(), (hit.lastgroup or "").lstrip("_").replace("_", "-"))
    # In the name of a file that was made of a URL a slash is an underscore.
    if ":__" in text:
        for hit in _HOOKS.finditer(text.replace("_", "/")):
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
