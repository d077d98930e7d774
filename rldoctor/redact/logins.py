"""Secrets that stand where a program or a function takes them, without a name: ``wandb login KEY``, ``sshpass -p
PASSWORD``, ``auth=("user", "password")``, a query of a URL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rldoctor.expressions import expression
from rldoctor.redact.names import IN_OTHER_LANGUAGES, IN_OTHER_LETTERS, is_nothing, looks_made, says_of_it
from rldoctor.redact.spans import Span
from rldoctor.redact.values import arguments, whole

_QUOTE = r"[\"'`]?"
_VALUE = r"(?P<value>[^\s\"'`]{1,256})"
_QUOTED = r"(?P<value>[^\"'\n]{1,256})"
# The file where one is kept.
_KEPT_IN = r"[^\s|;<>]{0,200}(?:token(?!iz)|secret|passw|netrc|pgpass|\.key\b)"
_USER = r"[\"']?[^\s:\"'/<]{1,64}:(?!//)"
# What is written there up to a word: <<EOF; what has a name there is found by it.
_HERE = r"<<-?[ \t]?[\"'\\]?\w{1,24}[\"']?"
_ALONE = r"\s{1,40}(?P<value>[^\s\"'`=:]{1,256}={0,2})(?=\s)"
# How somebody may be known, in a list of such ways; and what that one may do.
_KINDS = (
    r"(?i:basic|digest|bearer|oauth2?|none|ntlm|kerberos|negotiate|token|apikey|api_key|jwt|saml|ldap|oidc|read|write)"
    r"[\"']"
)
# What stands behind the colon of an image, or a package.
_RELEASE = expression(r"v?\d{1,4}(?:\.\d{1,4}){1,3}\S{0,64}|latest|nightly|stable|main|dind")
_BY_WORD = r"(?i:pass(?:word|wd)?|pw)"
# An expression, and the words of which one stands, in whatever case, wherever it matches: most texts have none, and
# few of the expressions are ever compiled. What stands for a word in every text that is not of ASCII alone.
_OTHER_LETTERS = "other letters"
_Signed = tuple[frozenset[str], re.Pattern[str]]


def _signed(flags: int, rows: Iterable[tuple[str, str]]) -> tuple[_Signed, ...]:
    return tuple((frozenset(signs.split("|")), expression(pattern, flags)) for signs, pattern in rows)


# Whatever stands there is the secret.
_CERTAIN = _signed(
    0,
    (
        (":", rf"(?<![\w-])(?:-[a-zA-Z]{{0,6}}u|--user|--proxy-user)[ \t=]{{1,4}}{_USER}{_VALUE}"),
        (
            "password",
            rf"\b(?:machine\s{{1,4}}\S{{1,200}}|default)\s{{1,40}}login\s{{1,4}}\S{{1,200}}\s{{1,40}}password\s{{1,4}}{_VALUE}",
        ),
        # How openssl is given one, where the words of its command stand one by one.
        ("pass:", r"\Apass:(?P<value>(?=[a-z_-]*[^a-z_-])[^\s\"'`:]{4,256})\Z"),
        ("::add-mask::", rf"::add-mask::(?!\$){_VALUE}"),
        ("::", rf"::(?:set-output|save-state) name=[\w-]{{0,40}}(?i:pass|token|secret|key)[\w-]{{0,16}}::{_VALUE}"),
        (
            "auth",
            rf"(?:(?<![a-z])auth[\"']?[ \t]{{0,4}}[=:][ \t]{{0,4}}\[?|(?:Basic|Digest|\b)Auth)\("
            rf"[ \t]{{0,4}}[\"'][^\"'\n]{{0,64}}[\"'][ \t]{{0,4}},[ \t]{{0,4}}[\"']{_QUOTED}",
        ),
        (
            "secretstr|fernet|hmac|securestring",
            rf"\b(?:SecretStr|Fernet|hmac\.new|ConvertTo-SecureString)(?:\(|[ \t]{{1,4}})b?[\"']{_QUOTED}",
        ),
        # In SQL; a column or a table is no word in quotes behind KEY.
        (
            "identified",
            r"(?:\bIDENTIFIED|(?i:\b(?:create|alter|grant|set)\b[^\n;]{1,120}\bidentified))"
            rf"(?i:[ \t]{{1,4}}(?:with[ \t]{{1,4}}\S{{1,64}}[ \t]{{1,4}})?(?:by|as))[ \t]{{1,4}}[\"']{_QUOTED}",
        ),
        ("attach", rf"\b(?i:attach)\b[^\n;]{{1,120}}\b(?i:key)[ \t]{{1,4}}[\"']{_QUOTED}"),
        ("pin|otp", r"\b(?:PIN|[TH]?OTP)(?:[ ][a-z]{2,8}){0,2}(?::|[ ]is)[ ]{1,4}(?P<value>\d{4,10})\b"),
        ("pass ", r"\bUSER[ ]\S{1,64}\s{1,8}PASS[ ](?P<value>[^\s\"'`][^\n\"'`]{0,255})"),
        # A client of a cloud: what follows the name of an access key.
        (
            "akia|aklt|aktp|akid|ltai",
            rf"\([ \t]{{0,4}}[\"'](?:AKIA|AKLT|AKTP|AKID|LTAI)\w{{0,60}}[\"'],[ \t]{{0,4}}[\"']{_QUOTED}",
        ),
        # What a program of expect sends when it is asked.
        (
            "assword|assphrase",
            rf"(?i:assword|assphrase)[^\n]{{0,12}}\bsend(?:[ \t]--?\w{{0,8}}){{0,2}}[ \t]{{1,4}}[\"']{_QUOTED}",
        ),
        (
            ".login(|.connect(",
            rf"\.(?:login\(|connect\([^()\n,]{{1,80}},[ \t]{{0,4}}\d{{1,5}},)"
            rf"[ \t]{{0,4}}[\"'][^\"'\n]{{1,64}}[\"'],[ \t]{{0,4}}[\"']{_QUOTED}",
        ),
        # A jar of cookies, as Netscape wrote it.
        (
            "\ttrue\t|\tfalse\t",
            r"\t(?:TRUE|FALSE)\t[/_][^\t\n]{0,200}\t(?:TRUE|FALSE)\t\d{1,12}\t[^\t\n]{1,64}\t(?P<value>[^\s\"'`]{1,4096})",
        ),
        # As Subversion and Kaggle keep them.
        ("password", rf"\bpassword\s{{1,80}}V \d{{1,3}}\s{{1,80}}{_VALUE}"),
        (
            "username",
            r"[\"']username[\"']:[ \t]{0,4}[\"'][^\"'\n]{1,64}[\"'],\s{0,16}[\"']key[\"']:[ \t]{0,4}"
            r"[\"'](?P<value>[0-9a-f]{32,64})\b",
        ),
        # Connection strings that are no URLs, and proxies without their scheme.
        ("pwd=", r"\bUID=[^;\s]{1,64};[ \t]?PWD=(?P<value>[^;\s\"']{1,256})"),
        ("jdbc:oracle:", r"\bjdbc:oracle:\w{1,8}:[\w.-]{1,64}/(?P<value>[^\s\"']{1,256}?)@"),
        (
            "_proxy|-x|--proxy",
            r"(?:(?i:_proxy)[\"']?[ \t]{0,2}[=:]|(?<![\w-])(?:-x|--proxy)[ \t=])[ \t]{0,2}[\"']?[\w.-]{1,64}:"
            r"(?P<value>[^\s\"'/]{1,256})@",
        ),
    ),
)
# Whatever stands there is the secret, but for a word that says of it what it is or how it fares, and a release.
_IN_WORDS = _signed(
    0,
    (
        (
            "auth",
            rf"(?<![a-z])auth[\"']?[ \t]{{0,4}}[=:][ \t]{{0,4}}\[[ \t]{{0,4}}[\"'](?!{_KINDS})[^\"'\n]{{1,64}}[\"'],"
            rf"[ \t]{{0,4}}[\"'](?!{_KINDS}|/){_QUOTED}",
        ),
        # user/password: bot/secret
        (
            "pass|pw",
            rf"\b(?i:user(?:name)?|login)[ ]?[/:][ ]?{_BY_WORD}[ ]?[=:][ ]{{0,2}}[\w.@-]{{1,64}}[ ]?[/:][ ]?{_VALUE}",
        ),
        # login as bot / secret failed; what somebody is logged in as may be followed by a team, or a role.
        (
            "in as ",
            rf"\b(?i:log(?:ging)?[ ]?in)[ ]as[ ][\w.@-]{{1,64}}[ ]?[/:][ ]?{_VALUE}"
            r"[ ](?:was[ ])?(?:failed|rejected|denied|refused)",
        ),
        # ssh bot@host (password secret)
        (
            "pass|pw",
            rf"(?:\b(?i:ssh|sftp|scp|login|user(?:name)?)\b|@)[^\n()]{{0,80}}\((?:with[ ])?{_BY_WORD}[:=]?[ ]"
            r"(?P<value>[^\s()\"'`]{4,256})\)",
        ),
        # unauthorized: bot:secret@host
        (
            "@",
            r"\b(?i:(?:un)?auth\w{0,16}|credentials?|log(?:ged[ ])?in)[^\n@]{0,40}[ ][\w.-]{1,64}:"
            r"(?P<value>[^\s\"'`@/:]{4,256})@(?!sha\d)[\w-]{1,64}[./:]",
        ),
        # --basic-auth bot:secret, username-password pair bot:secret, bot:secret login failed
        (
            "auth|password|credential",
            r"\b(?i:basic[-_. ]?auth[\w.]{0,24}|(?:user(?:name)?[-/ ](?:and )?password|credential)s?(?:[ ]pair)?)"
            rf"[=: \t]{{1,3}}{_QUOTE}[\w.@-]{{1,64}}:(?!//){_VALUE}",
        ),
        (
            " failed| rejected| denied| refused",
            r"(?<![\w:/.-])[\w.-]{1,32}:(?P<value>[^\s\"'`:/]{4,256})[ ](?i:log[ ]?in|auth\w{0,16})[ ]"
            r"(?:failed|rejected|denied|refused)",
        ),
        ("ftp>", rf"\bftp>[ ]?user[ ]\S{{1,64}}[ ]{_VALUE}"),
        # config.set("section", "password", "secret")
        (
            "password|passwd|passphrase",
            r"\.(?:set|put|add(?!_argument)|store|update)\w{0,24}\([^()\n]{1,80},"
            rf"[ ]?[\"']\w{{0,24}}(?i:password|passwd|passphrase)[\"'],[ ]?[\"']{_QUOTED}",
        ),
    ),
)
# What stands there may be something else too.
_LIKELY = _signed(
    re.MULTILINE,
    (
        (
            "key",
            rf"\b(?:loaded|loading|using|use|with|my|your|new|old|adding|added)[ \t]{{1,4}}key"
            rf":?[ \t]{{1,4}}{_QUOTE}(?P<value>[\w+/=-]{{16,256}})",
        ),
        # A key in the place of a user who has no password.
        ("-u|--user", rf"(?<![\w-])(?:-u|--user)[ \t=]{{1,4}}{_QUOTE}(?P<value>[\w.-]{{16,256}}):(?=[\s\"'`]|$)"),
        # account on the node: lab / secret
        (
            " / ",
            rf"(?i:\b(?:wi-?fi|vpn|credentials?|creds|account|log[ -]?in|zugang)\b)"
            rf"(?:[^\n:/]{{0,40}}:|[ ]as|(?<=s))[ \t]{{1,4}}"
            rf"[\w.@-]{{1,64}}[ ]/[ ]{_VALUE}",
        ),
        # A line of proxychains.
        (
            "http|socks",
            r"\b(?:https?|socks[45])[ \t]{1,8}[\d.]{7,15}[ \t]{1,8}\d{2,5}"
            rf"[ \t]{{1,8}}[\w.@-]{{1,64}}[ \t]{{1,8}}{_VALUE}",
        ),
        # A password behind the user, whatever the program.
        (
            "-p",
            rf"(?<![\w-])(?:-[uU]|--user(?:name)?)[ \t=]{{1,4}}{_QUOTE}[\w.@-]{{1,64}}{_QUOTE}[ \t]{{1,4}}"
            rf"-p[ \t]{{0,4}}{_QUOTE}{_VALUE}",
        ),
        ("user", rf"\buser[ \t]{{0,4}}=[ \t]{{0,4}}[\"'][\w.@-]{{1,64}}:{_VALUE}"),
        ("/t/", r"://[^\s/\"']{1,128}/t/(?!(?:[a-z]+|\d+)(?:-(?:[a-z]+|\d+)){3,})(?P<value>[\w-]{16,128})(?=/)"),
        # Keys of trackers look like digests.
        (
            "wandb|swanlab",
            r"\b(?:wandb|swanlab)\w{0,24}"
            r"(?:\b[^\n]{0,160}|[\"']?[:=][ \t]{0,8}(?:\{[^{}]{0,200}|(?:\n[ \t][^\n]{1,110}){0,4}\n[ \t]{1,16}))"
            r"\bkey[\"']?[:= ]{1,3}[\"']?(?P<value>[0-9A-Za-z]{20,64})\b",
        ),
        # The same where the question is not quoted whole.
        (
            "expect",
            r"\bexpect[ \t](?:-\w{1,8}[ \t]{1,4})?[\"'{][^\n]{1,80}\s{1,16}send(?:[ \t]--?\w{0,8}){0,2}[ \t]{1,4}"
            r"[\"'](?P<value>[^\"'\n\\]{1,256})",
        ),
        # printf 'HF_TOKEN=%s' secret
        (
            "printf",
            r"\bprintf[ \t][\"'][^\"'\n]{0,80}(?i:token|secret|pass(?:word|wd)?|key|pat)[=:] ?%s[^\"'\n]{0,20}"
            rf"[\"'][ \t]{{1,4}}{_QUOTE}{_VALUE}",
        ),
        # What is written to the file where one is kept.
        (
            "echo|printf",
            rf"\b(?:echo|printf)[ \t](?:-\w[ \t]|'?%s(?:\\n)?'?[ \t])?{_QUOTE}(?:\w{{1,32}}:)?{_VALUE}{_QUOTE}"
            rf"[ \t]{{1,4}}>{{1,2}}[ \t]{{0,4}}{_KEPT_IN}",
        ),
        ("<<", rf"\b(?:cat|tee)[ \t>]{{1,8}}{_KEPT_IN}[^\s|;]{{0,80}}[ \t]{{0,4}}{_HERE}{_ALONE}"),
        ("<<", rf"{_HERE}[ \t]{{0,4}}>{{1,2}}[ \t]{{0,4}}{_KEPT_IN}[^\s|;]{{0,80}}{_ALONE}"),
        (
            "<(",
            r"(?:pass|token|secret|key|cred)[\w-]{0,16}[^\n|;<]{0,16}<\([ \t]{0,4}(?:echo|printf)[ \t]{1,4}"
            rf"{_QUOTE}{_VALUE}",
        ),
        ("wandb|swanlab", rf"(?<![\w-])--?use[_-](?:wandb|swanlab)[= \t]{_QUOTE}{_VALUE}"),
        (
            "phrase|recovery|backup|shared|wifi|wi-fi|passe|senha|wachtwoord|losenord|sifre|heslo|salasana|sandi"
            "|adgangskode|kodeord|passord|lozinka|geslo|contrasenya|clave|chiave|jeton",
            rf"(?i:{IN_OTHER_LANGUAGES})\w{{0,16}}[ \t]{{1,4}}{_QUOTE}{_VALUE}",
        ),
        (_OTHER_LETTERS, rf"(?i:{IN_OTHER_LETTERS})\w{{0,16}}[ \t]{{1,4}}{_QUOTE}{_VALUE}"),
        (
            "wandb|hf|huggingface|token|netrc|profile|account",
            r"\b(?:wandb|hf|huggingface|token|netrc|profile|account)\b[^\n:]{0,80}:[ \t]"
            r"(?P<value>[A-Za-z0-9_-]{20,256})(?![\w/-])",
        ),
        # A key beside the secret that belongs to it.
        (
            "secret",
            r"(?<![\w-])[\"']?key[\"']?[ ]?[=:][ ]?[\"'](?P<value>[^\"'\n]{4,256})[\"'],\s{1,40}"
            r"[\"']?secret(?:_key)?[\"']?[ ]?[=:]",
        ),
        # What a shell shows of a variable that it asks for.
        ("-n |-z ", r"^\+{1,8}[ ](?:\[\[|'?\['?|test)[ ]-[nz][ ]'?(?P<value>[0-9a-f]{32,64})\b"),
        # Commands of Redis and of mail.
        (
            "auth|login",
            r"(?:^[ \t>$+]{0,4}|(?<=[\"'])|(?<=\\n))(?:\w{1,16}[ ])?(?:AUTH|LOGIN)[ ](?:[\w.-]{1,40}[ ])?"
            rf"{_QUOTE}{_VALUE}{_QUOTE}(?=[ ]{{0,80}}$|[\"'][,\]}}])",
        ),
        ("@", rf"\blog[ ]?in[ ][\w.-]{{1,64}}@[\w.-]{{1,64}}[ ]{_VALUE}"),
        # The name of a cloud's access key, and the secret that belongs to it: ~/.passwd-s3fs
        # Not what a key is used for (AKIA.../20260101/us-east-1/s3), nor a model or a data set that begins so.
        (
            "akia|asia|aklt|aktp|akid|ltai",
            r"\b(?:A[KS]IA[A-Z0-9]{12,60}|(?:AKLT|AKTP|AKID|LTAI)(?=\w{0,60}\d)\w{8,60})"
            rf"(?:[:,|][ ]?|/(?=[A-Za-z0-9+]{{30}})){_VALUE}",
        ),
        # ~/.pgpass
        (
            ":",
            r"(?<![^\s\"'`:])(?:[\w.-]{1,128}|\*):(?:\d{2,5}|\*):[\w*-]{1,64}:[\w.@-]{1,64}:"
            r"(?P<value>[^\s\"'`:]{8,256})(?=:?(?:[\s\"'`),]|$))",
        ),
        (
            "?|&|#",
            r"[?&#](?i:key|sig|sign|signature|token|auth|code|\w{1,24}[_-](?:key|sig|signature|token|verifier))=(?P<value>[^\s&\"'`<>]{8,1024})",
        ),
        (
            "?|&",
            r"[?&](?:X-[A-Z][a-z]{2,7}-(?:Signature|Credential|Security-Token)|Policy|Key-Pair-Id|q-ak)=(?P<value>[^\s&\"'`<>]{8,1024})",
        ),
    ),
)
_SIGNS = frozenset().union(*(signs for signs, _ in (*_CERTAIN, *_IN_WORDS, *_LIKELY)))
# A call whose last argument is one: login(user, "..."), wandb.login(key="..."), set_password("...").
_LOGS_IN = expression(
    r"\b(?:[lL]og_?in|sign_?in|authenticate|"
    r"(?P<sets>PASSWORD|(?:set|add|check|verify|hash|change|reset|compare)_?(?:[pP]assw(?:or)?d|[pP]assphrase|[sS]ecret|pw)"
    r"|\w{0,24}pw_set))\("
)
# A call that takes a secret among what it is given.
_CALL = expression(
    r"(?:\blogin|token|[sS]ecret|[pP]assword|api_?key|Credentials|\bjwt\.(?:en|de)code|\b(?:cookies|secrets)\.(?:set|put|add)|\bset_cookie)"
    r"\((?P<held>[^()\n]{0,400})"
)
_GIVEN = expression(rf"[\"']{_QUOTED}[\"']")
# A manifest whose values are all secrets.
_MANIFEST = expression(r"\bkind[\"']?:[ \t]{0,4}[\"']?Secret\b")
_FLOW_DATA = expression(r"\b(?:stringData|data)\"?[ \t]{0,4}:\s{0,40}\{(?P<held>[^{}]{1,65536})\}")
_FLOW_ENTRY = expression(r":\s{0,40}[\"']?(?P<value>(?<=[\"'])[^\"']{1,65536}|[^\s\"',]{1,4096})")
_DATA = expression(
    r"\b(?:stringData|data):[ \t]{0,4}(?P<held>(?:\s{1,80}[\w.-]{1,64}:[ \t]{1,4}[^\s:]{3,4096}(?=:?(?:\s|$))){1,100})"
)
_ENTRY = expression(r"[\w.-]{1,64}:[ \t]{1,4}[\"']?(?P<value>[^\s\"']{1,4096})")


def find(text: str) -> Iterator[Span]:
    """Where such secrets stand."""
    folded = text.casefold()
    signs = {sign for sign in _SIGNS if sign in folded} | ({_OTHER_LETTERS} if not text.isascii() else set())
    for pattern in _asked(_CERTAIN, signs):
        yield from _certain(text, pattern.finditer(text))
    for pattern in _asked(_IN_WORDS, signs):
        yield from _certain(text, (hit for hit in pattern.finditer(text) if not _is_said(hit["value"])))
    for pattern in _asked(_LIKELY, signs):
        yield from _likely(pattern.finditer(text))
    if "(" in text:
        yield from _in_calls(text)
    if "secret" in folded and _MANIFEST.search(text):
        for block, line in ((_DATA, _ENTRY), (_FLOW_DATA, _FLOW_ENTRY)):
            for data in block.finditer(text):
                for entry in line.finditer(text, data.start("held"), data.end("held")):
                    yield Span(entry.start("value"), whole(text, *entry.span("value")), "secret")


def _asked(patterns: Iterable[_Signed], found: set[str]) -> Iterator[re.Pattern[str]]:
    return (pattern for signs, pattern in patterns if not signs.isdisjoint(found))


def _in_calls(text: str) -> Iterator[Span]:
    for call in _LOGS_IN.finditer(text):
        given = [*arguments(text, call.end())]
        for keyword, start, end in given:
            alone = len(given) == 1 and not call["sets"] and text[start - 2 : start - 1] == "("
            if keyword == "key" or (not keyword and not alone and (keyword, start, end) == given[-1]):
                yield from () if is_nothing(text[start:end]) else (Span(start, end, "password"),)
    for call in _CALL.finditer(text):
        yield from _likely(_GIVEN.finditer(text, *call.span("held")))


def _certain(text: str, hits: Iterable[re.Match[str]]) -> Iterator[Span]:
    for hit in hits:
        start = hit.start("value")
        if not is_nothing(hit["value"]):
            yield Span(start, whole(text, start, hit.end("value")), "password")


def _is_said(value: str) -> bool:
    return says_of_it(value) or _RELEASE.fullmatch(value) is not None


def _likely(hits: Iterable[re.Match[str]]) -> Iterator[Span]:
    for hit in hits:
        value = hit["value"].rstrip(".,:;)")
        if looks_made(value) and not is_nothing(value):
            yield Span(hit.start("value"), hit.start("value") + len(value), "login")
