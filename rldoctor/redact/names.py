"""Which names say that their value is a secret.

Launch files and requests are full of innocent keys and tokens (``prompt_key``, ``pad_token``, ``max_tokens``), so a
name is judged word by word, and one that only may hold a secret does so where the value looks drawn at random.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from rldoctor.expressions import expression

_WORDS = expression(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# These say it wherever they stand in a name.
_ALWAYS = _set(
    "secret secrets password passwords passwd passphrase credential credentials bearer cookie cookies authorization "
    "creds jwt webhook webhooks passcode pswd sshpass dockerconfigjson identitytoken masterauth passwort kennwort psk "
    "jsessionid phpsessid sessid passin passout"
)
# Password, key and token in other words, and in the languages of those who ask for help; keys and tokens are of
# dictionaries and of texts, too. Most texts are of ASCII alone, and have none in other letters.
_PASSWORDS_ELSEWHERE = (
    "seed[ _-]?phrase|pass[ _-]phrase|(?:recovery|backup)[ _-]?(?:phrase|codes?|key)"
    "|(?:pre-?)?shared[ _-]?(?:key|secret)|wi-?fi[ _-]key"
    "|mot[ _]de[ _]passe|senha|wachtwoord|losenord|sifre|heslo|salasana|kata[ _]sandi"
    "|adgangskode|kodeord|passord|lozinka|geslo|contrasenya|clave[ _]secreta"
)
_PASSWORDS_IN_OTHER_LETTERS = (
    "密[码碼]|口令|パスワード|비밀번호|암호|пароль|contraseña|hasło|lösenord|şifre|jelszó"
    "|mật[ _]khẩu|parolă|парола|κωδικός|סיסמה"
    "|كلمة[ _](?:المرور|السر)|รหัสผ่าน|पासवर्ड"
)
_KEYS_ELSEWHERE = "clave|chiave|jeton"
_KEYS_IN_OTHER_LETTERS = "[密秘][钥鑰]|令牌|APIキー|トークン|토큰|токен|ключ(?:[ _](?:API|доступа))?|schlüssel"


IN_OTHER_LANGUAGES = f"{_PASSWORDS_ELSEWHERE}|{_KEYS_ELSEWHERE}"
IN_OTHER_LETTERS = f"{_PASSWORDS_IN_OTHER_LETTERS}|{_KEYS_IN_OTHER_LETTERS}"


def by_letters(ascii: str, others: str) -> Mapping[bool, re.Pattern[str]]:
    """Expressions by whether a text is of ASCII alone, which has nothing that ``others`` matches."""
    return {True: expression(ascii, re.IGNORECASE), False: expression(f"{ascii}|{others}", re.IGNORECASE)}


_PASSWORD_ELSEWHERE = by_letters(_PASSWORDS_ELSEWHERE, _PASSWORDS_IN_OTHER_LETTERS)
_KEY_ELSEWHERE = by_letters(_KEYS_ELSEWHERE, _KEYS_IN_OTHER_LETTERS)
# Numbers are secrets too under these.
_PASSWORDS = _set("psk password passwords passwd passphrase passcode pswd passwort kennwort")
# With one of these before it, a key or a token is one that opens something.
_OPENS = _set(
    "api access secret private license encryption admin master signing auth account client service storage shared root "
    "deploy ssh app wandb swanlab comet neptune clearml mlflow openai anthropic azure aws gcp google gemini hf hub "
    "huggingface modelscope github gitlab bitbucket slack discord telegram dingtalk feishu lark wechat serper tavily "
    "bearer session security refresh bot personal registry pypi npm docker redis ray server oauth csrf xsrf vault "
    "subscription sa var preshared sign sdk hmac adobe asana cloudflare cohere dashscope datadog deepinfra deepseek "
    "dropbox elevenlabs facebook figma firecrawl fireworks groq heroku hubspot jina kucoin langfuse langsmith linkedin "
    "mailgun mapbox mistral moonshot ngc nvidia openrouter perplexity pinecone postman pulumi qianfan replicate runpod "
    "sambanova sendbird sentry serpapi siliconflow squarespace stepfun supabase tencent twilio vastai volc volcengine "
    "yandex zhipu zhipuai"
)
# As words of their own before the last: an API key, the HF token; a server key may be anything.
_AS_A_WORD = _set(
    "storage ray service shared root server app account session bot var sa client deploy ssh store redis sign sdk hmac "
    "security"
)
OPENERS = "|".join(sorted(_OPENS - _AS_A_WORD))
_OWNS = expression(rf"(?:^|[_-])(?i:{OPENERS})$")
# What keeps anything under keys of its own.
_STORES = _set("redis cache memcached")
_KEYS_AND_TOKENS = _set("key keys token tokens")
# Words are written together with a word before them: a password with any, a key with what it opens.
_TOGETHER = expression(
    r"(?P<before>[a-z]{2,16}?)(?P<last>passwords?|passwd|passphrase|secrets?|pwd|pw|pass|keys?|tokens?)"
)
_BEFORE_A_PASS = _set(
    "root user auth ldap smtp mail ftp rcon admin mysql redis db store key require keystore wifi sudo login my your our"
)
_NO = _set("no non not old")
# Tokens that a model reads or a budget counts.
_OF_A_MODEL = _set(
    "max min num n count total per avg mean len length limit budget size special added pad eos bos eot eom unk stop "
    "mask sep cls image images video audio prompt prompts completion response output input generated decode decoded "
    "new next first last prev batched ids scheduled cached think thinking begin end start text chat implicit"
)
# The last word of a name that may hold a secret; the value decides.
_PERHAPS = _set("key token sk sig sign signature pat auth sessionid api")
# Of these, what is no digest of anything but itself.
_NO_SUM = _PERHAPS - {"key", "sig", "sign", "signature"}
# A header of a service's own.
_OF_A_HEADER = expression(r"[xX]-[A-Z]|x-[a-z]")
# In a text, an upper-case name that ends so is a variable's of somebody's secret; constants of programs end in KEY.
_VARIABLES_END = expression(r"(?:^|_)(?:TOKEN|PASS|PWD|PAT|AUTH|DSN|JWT)$|_SK$|(?:PASSWORD|PASSWD|SECRET)S?$")
# The first word of what a sentence says of a secret instead of telling it: must have eight characters; and what state
# it is in, alone or in words such as those: expired, too short, incorrect for this user.
_SAYS = _set(
    "a an the this that these it its is are was were be been being has have had will would must should shall may "
    "might can cannot could do does did not no none of for from in on at by with without to via as if when while "
    "since because and or but than please too one any some your my our their already never always requires both either "
    "obrigatória obrigatório obligatorio obligatoria requerida erforderlich falsch fehlt requis invalide incorrecte "
    "必填 必填项 必須 错误 错誤 不正确 неверный обязательно обязателен wymagane vereist gerekli は 은 是 不 필수"
)
_STATES = _set(
    "use used uses using see set unset given provided required optional missing empty invalid incorrect wrong expired "
    "expires rejected refused denied failed fails failure accepted changed updated rotated reset authentication "
    "authorization authenticated login access error errors mismatch unavailable unknown shorter longer weaker "
    "stronger password passwords passphrase username user account raise return continue break yield unsupported "
    "correct successfully short long weak strong visible ignored protected encrypted hashed sent shown printed "
    "written same enabled disabled default defaults stored kept read loaded loading found removed redacted hidden "
    "masked field fields input value values string only enter entered type checked check checking verified validation "
    "prompt option argument flag needs need sets reads takes names length ok okay yes files systemd auth help"
)
_SAYING_ENDS = expression(r"\n|\"[,}\]]")
_SAID = expression(r"[^\s\"',;:.!()\[\]{}|]+")
# What is said about a secret is none.
_ABOUT = _set("mode type method enabled disabled threshold less policy strength mgr manager handler msg message")
# Where a secret is kept; the last ones where the value is a path, or another name.
_KEPT = _set("name names ref refs helper template stdin fd")
_KEPT_IN = _set("path paths file files filename dir env var variable location")
# Where one is asked for; the address of a hook is a secret itself.
_ADDRESSES = _set("url uri endpoint")
_HOOKS = _set("webhook webhooks")
_AN_ADDRESS = expression(r"(?:[A-Za-z][A-Za-z0-9+.-]{0,31}:/)?/[^\s@]*|[\w.-]{1,200}(?::\d{1,5})?")
_A_PLACE = expression(
    r"[~.]{0,2}/[^\s:@]*|[A-Z]{2,}(?:_[A-Z0-9]+)+|[\w./-]{1,200}\.(?:pem|key|crt|cer|json|ya?ml|txt|p12|pfx)"
)
# A password, or one of several passes over something.
_PASS = _set("pass pwd pw")
_PASSES = _set(
    "first second one two three single multi num n forward backward by per last next final each grad custom post pre "
    "fusion fuse pattern matcher graph compile compiler compilation optimization quant pm train eval test sequence"
)
# What compilers call a pass, a type, a call.
_OF_A_COMPILER = expression(r"[A-Z]\w{0,80}Pass|[\w.]\(|\.py")
# How many of several came through: PASS=12, pass: 12 of 13 tests.
_COUNT = expression(r"\d{1,3}(?:[ ]?(?:/|of\b|out\b|tests?\b)[^\n]*)?")
# Digits that people type.
_PIN = expression(r"\d{4,}")
_THOUGHT_OUT = expression(
    r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=\D*\d)(?=[A-Za-z0-9]*[!#$%^])[A-Za-z0-9!@#$%^&*?~+_.-]{8,64}"
)
_VARIABLE_WORDS = expression(
    r"\w*(?:KEY|SECRET|PASSWORD)S?|AUTH(?:ORIZATION)?|BEARER|COOKIES?|CREDENTIALS?|CREDS|PASSCODE|JWT|PASS|PASSPHRASE|PASSWD|PRIVATE"
    r"|PAT|PWD|PW|SK|TOKENS?|WEBHOOKS?|DSN"
)
_NO_SECRETS = frozenset(("PWD", "OLDPWD", "SK"))
# Counts, releases and switches: IMAGE_MAX_TOKEN_NUM=1024, token: 1.2.3rc1, HF_HUB_DISABLE_IMPLICIT_TOKEN=1.
_HARMLESS = expression(
    r"-?\d{0,9}(?:\.\d{1,20})?|\d{1,4}(?:\.\d{1,5}){1,3}(?:\.?[a-z]{1,4}\d{1,4})?(?:\+[\w.]{1,20})?|true|false|yes|no|on|off|none|null|auto|default|required|optional|(?:en|dis)abled|rbac",
    re.IGNORECASE,
)
_NOTHING = expression(
    r"|true|false|yes|no|none|null|undefined|lambda|the|an?"
    r"|(?:str|string|bytes|bool|int|float|any|object|secretstr|tl\.constexpr),?(?:[ ](?:optional|or none))?"
    r"|empty|dummy|inherit|text|value|(?:env|file|fd):\S{1,200}"
    r"|[\[(]?(?:redacted|hidden|masked|filtered|unset)[\])]?|your[-_ ][a-z_ -]{1,40}"
    r"|[a-z][\w.-]{0,60}(?:\[[\w,-]{1,60}\])?(?:[=~!<>]=|[<>])\d[\w.*+!]{0,40}",  # a package and its release
    re.IGNORECASE,
)
# What points to a secret, or was one: $HF_TOKEN, ${HF_TOKEN:-}, $(cat key), {{ key }}, !vault, <your key>, ***; and a
# header of one.
_REFERENCE = expression(
    r"(?:(?i:bearer|basic|token|bot)[ \t]{1,4})?"
    r"(?:\$\{?\w+(?::?[-?+])?\}?|\$\([^)]*\)|\{\{.*\}\}|\{[a-z_.]+\}|(?:<[^<>]*>\s*)+"
    r"|(?:[A-Za-z]{1,8}[-_]){0,3}(?:\*+|\.{3,}|[xX]{3,})"
    r"|!(?:vault|secret|env|ENV|!(?:str|int|float|bool|binary|null)))"
    # Nothing but holes of a string.
    r"|(?:[A-Za-z]{1,16}[ ])?(?:[^\w{}]{0,8}\{(?:[A-Za-z_][\w.\[\]()]{0,80}(?:![rsa])?)?\}){1,8}[^\w{}]{0,8}"
)
# A token that a tokenizer writes: <|im_end|>, </s>, [PAD].
_SPECIAL_TOKEN = expression(r"<\|?[^<>\s]*\|?>|\[/?[A-Z_]+\d*\]")
# How a style shows tokens of a program: #f8f8f2
_COLOUR = expression(r"#[0-9a-fA-F]{6}")
# A key that a program makes of words and of what its variables hold: master_{name}
_OF_HOLES = expression(r"(?:[A-Za-z_/:.-]{0,24}\{[A-Za-z_][\w.\[\]()]{0,80}(?:![rsa])?\}){1,8}[A-Za-z_/:.-]{0,24}")
_DRAWN = expression(r"[A-Za-z0-9_+/=.~!@#$%^&*:-]{16,200}")
_DIGEST = expression(r"(?:0x|sha\d+[:-])?[0-9a-f]{6,128}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# A part of a path that is a word.
_FOLDER = expression(r"(?:^|/)[.\d_-]*(?:[A-Z]?[a-z]{2,}|[A-Z]{2,})[.\d_-]*(?=/|$)")
# The least part of a path that its words are.
_FOLDERS = 5
_FILE = expression(r"\.(?:py|json|ya?ml|txt|sh|pt|pem|log|bin|safetensors)$")
_MADE = expression(r"[A-Za-z0-9_+/=.~!@#$%^&*-]{8,1024}")
_LONG = 128
# What a person or a program would name something has words.
_WORD = expression(r"[A-Z][a-z]{2,}|[a-z]{3,}|[A-Z]{4,}|\d{5,}")
# A run of letters that nobody can say is no word: what is long enough and drawn at random has them by chance.
_UNSAID = expression(r"[^aeiouy]{4}|[jqxz][^aeiouy]|[^aeiouy][jqx]|^[^aeiouy]*$", re.IGNORECASE)
_LONG_RUN = 28
_CHANGE = expression(r"(?<=[a-z])[^a-z]|(?<=[A-Z])[^A-Z]|(?<=\d)\D")


def words(name: str) -> list[str]:
    """The words of a name, in lower case: ``hubApiKey``, ``HUB_API_KEY``, ``hub-api-key`` and ``hub-apikey`` alike."""
    return [part for word in _WORDS.findall(name[-_LONG:]) for part in _parts(word.lower())]


def _parts(word: str) -> tuple[str, ...]:
    """The words that a word is written together of: ``apikey``, ``bindpw``."""
    together = _TOGETHER.fullmatch(word)
    if together is None or together["before"] in _NO:
        return (word,)
    before, last = together["before"], together["last"]
    known = _OPENS if last in _KEYS_AND_TOKENS else _BEFORE_A_PASS if last == "pass" else {before}
    if before not in known:
        return (word,)
    return before, "password" if last.startswith("p") else last


def is_secret_variable(name: str, value: str) -> bool:
    """Whether an environment variable holds a secret: KEY or TOKEN is a word of its name, the value no mere number."""
    parts = re.split(r"[^A-Z0-9]+", name[-_LONG:].upper())
    if parts[-1] == "API":
        return is_secret_option(name, value)
    telling = [part for part in parts if _VARIABLE_WORDS.fullmatch(part.rstrip("0123456789"))]
    if not telling or name.upper() in _NO_SECRETS or is_nothing(value):
        return False
    if any(part.lower() in _PASSWORDS | _PASS or "PASSWORD" in part for part in telling):
        return not _is_a_count(words(name), value)
    if _is_harmless(words(name), value) or words(name)[-1] in _ABOUT:
        return False
    only_tokens = all(part in ("TOKEN", "TOKENS") for part in telling)
    return not (only_tokens and (_SPECIAL_TOKEN.fullmatch(value) or not _OF_A_MODEL.isdisjoint(words(name))))


def is_secret_option(name: str, value: str) -> bool:
    """Whether an option or key of this name is given a secret; of ``a.b.api_key`` the last part counts. A switch, a
    number or a reference to a variable is none."""
    parts = name.lstrip("-+").rsplit(".", 2)
    name = parts[-1] if parts[-1].lower() not in _KEYS_AND_TOKENS else "_".join(parts[-2:])  # fs.s3a.secret.key
    found = words(name)
    if _PASSWORD_ELSEWHERE[name.isascii()].search(name):
        return not is_nothing(value)
    if _KEY_ELSEWHERE[name.isascii()].search(name):
        return looks_drawn(value) or is_digest(value)
    if len(found) > 1 and found[-1].isdigit() and found[-2] != "pass":  # one of several: HUB_TOKEN_2
        found.pop()
    if not found or is_nothing(value) or found[-1] in _KEPT | _ABOUT:
        return False
    if found[-1] in _KEPT_IN and _A_PLACE.fullmatch(value):
        return False
    if found[-1] in _ADDRESSES and _HOOKS.isdisjoint(found) and _AN_ADDRESS.fullmatch(value):
        return False
    if name.isupper() and _VARIABLES_END.search(name):
        return is_secret_variable(name, value)
    if not _PASSWORDS.isdisjoint(found):
        return True
    if _is_harmless(found, value) or _is_a_place(value):
        return False
    if not _ALWAYS.isdisjoint(found) or found == ["token"]:
        return not (_SPECIAL_TOKEN.fullmatch(value) or _COLOUR.fullmatch(value))
    if _opens(found) or (_OF_A_HEADER.match(name) and found[-1] in _PERHAPS):
        return not _OF_HOLES.fullmatch(value)
    if found[-1] in _PASS:
        return (
            _PASSES.isdisjoint(found)
            and not value.startswith(("/", "~"))
            and not _OF_A_COMPILER.search(value)
            and not _is_a_count(found, value)
        )
    drawn = looks_drawn(value) or _looks_thought_out(value) or (found[-1] in _NO_SUM and is_digest(value))
    told_to_all = "public" in found or found[-2:] == ["cache", "key"]
    whose = found[-1] != "api" or not _OPENS.isdisjoint(found[-2:-1])  # TAVILY_API; LLM_API may be any name
    return found[-1] in _PERHAPS and drawn and whose and not told_to_all and _OF_A_MODEL.isdisjoint(found)


@lru_cache(maxsize=4096)
def is_password(name: str) -> bool:
    """Whether people think out what stands under this name: any words may be one."""
    return (
        not (_PASSWORDS | _PASS).isdisjoint(words(name)) or _PASSWORD_ELSEWHERE[name.isascii()].search(name) is not None
    )


def _is_a_count(found: list[str], value: str) -> bool:
    return "pass" in found and _COUNT.fullmatch(value) is not None


def _is_harmless(found: list[str], value: str) -> bool:
    """A switch, or a number that counts; a long one under a name that says nothing of counting is a secret."""
    if not _HARMLESS.fullmatch(value):
        return False
    counts = (
        (found[-1].endswith("s") and found[-1] not in _PASS) or found == ["token"] or not _OF_A_MODEL.isdisjoint(found)
    )
    tells = found[-1] in _ALWAYS or _opens(found[-2:]) or found[-1] in _PASS
    return counts or not tells or not _PIN.fullmatch(value)


def _looks_thought_out(value: str) -> bool:
    """Whether letters of both cases, digits and signs stand together as no word and no version has them."""
    return bool(_THOUGHT_OUT.fullmatch(value)) and not is_path(value) and not _SPECIAL_TOKEN.search(value)


def _opens(found: list[str]) -> bool:
    """Whether a word that opens something stands right before a key or a token: ``hub_token``, ``access_key_id``."""
    return any(before in _OPENS and word in _KEYS_AND_TOKENS for before, word in itertools.pairwise(found))


def is_one_of_somebody(name: str) -> bool:
    """Whether this is a key or a token of which only its owner says whether it opens something."""
    return name.lower() in _KEYS_AND_TOKENS


def owned(name: str, owners: Iterable[str]) -> str:
    """A key or a token with the name of what it is in, where that opens something: ``key`` in ``wandb``."""
    for owner in owners:
        if name.lower() == "key" and owner.lower() in _STORES:
            return "cache_key"
        if _OWNS.search(owner):
            return f"{owner}_{name}"
    return name


def has_a_password(word: str) -> bool:
    """Whether the pass of this is a password (the keystore pass), and no turn over something (the warmup pass)."""
    return word.lower() in _BEFORE_A_PASS | _OPENS


def looks_drawn(value: str) -> bool:
    """Whether a value looks drawn at random: long, letters and digits mixed, no path, no digest, no name of a model."""
    if not _DRAWN.fullmatch(value) or _DIGEST.fullmatch(value) or _SPECIAL_TOKEN.search(value) or is_path(value):
        return False
    digits = sum(character.isdigit() for character in value)
    letters = sum(character.isalpha() for character in value)
    runs = re.findall(r"[A-Za-z]+|\d+", value)
    mixed = digits >= 3 and letters >= 3 and len(runs) >= 5
    return (mixed or is_long_and_random(value)) and not _FILE.search(value)


def is_random(run: str) -> bool:
    """Whether letters of both cases and digits take turns as in no word."""
    words = [word for word in _WORD.findall(run) if len(run) < _LONG_RUN or word.isdigit() or not _UNSAID.search(word)]
    return _takes_turns(run, 3) and sum(map(len, words)) <= 0.45 * len(run)


def is_long_and_random(value: str) -> bool:
    """Whether a value is as long as keys in base64 are, of which some have few digits or few changes; their padding
    tells them, too."""
    padded = value.endswith("=") and all(any(map(kind, value)) for kind in (str.islower, str.isupper, str.isdigit))
    return len(value) >= 32 and (padded or _takes_turns(value, 1))


def _takes_turns(run: str, each: int) -> bool:
    """Whether there are so many letters of each case and digits, and they change as often as what is drawn does."""
    least = min(sum(map(kind, run)) for kind in (str.islower, str.isupper, str.isdigit))
    return least >= each and len(_CHANGE.findall(run)) >= 0.4 * (len(run) - 1)


def looks_made(value: str) -> bool:
    """Whether a value that stands where a secret would is no word of a sentence: letters and digits mixed, no path.
    Digests count: some keys look like them."""
    if not _MADE.fullmatch(value) or is_path(value) or _FILE.search(value):
        return False
    digits = sum(character.isdigit() for character in value)
    letters = sum(character.isalpha() for character in value)
    return (digits >= 2 and letters >= 2) or is_long_and_random(value) or _THOUGHT_OUT.fullmatch(value) is not None


def is_digest(value: str) -> bool:
    """Whether a value is of hexadecimal digits alone, as long as keys are that look so."""
    return len(value) >= 20 and bool(_DIGEST.fullmatch(value))


def is_path(value: str) -> bool:
    """Whether a value is a path, or the name of a tensor or a module; base64 of a key has slashes between no words."""
    if value.count("/") < 2 or "://" in value:
        return value.count(".") > 1 or "://" in value
    folders = sum(len(folder) for folder in _FOLDER.findall(value))
    return value.count(".") > 1 or len(value) < 32 or _FOLDERS * folders >= len(value)


def _is_a_place(value: str) -> bool:
    """Whether a value is a path from the root, from home or from here, where a key is kept."""
    return value.startswith(("/", "~/", "./", "../")) and is_path(value)


def is_nothing(value: str) -> bool:
    """Whether a value is a switch, or points to a secret that stands elsewhere."""
    return bool(_NOTHING.fullmatch(value) or _REFERENCE.fullmatch(value))


def says_of_it(words: str) -> bool:
    """Whether words speak of a secret instead of being one: ``must have eight characters``, ``expired yesterday``. A
    phrase of three words may begin as such a sentence does: ``correct horse battery``."""
    said = [word.lower() for word in _SAID.findall(_SAYING_ENDS.split(words, 1)[0])]
    if not said or not _SAID.match(words):
        return False
    if said[0] in _SAYS:
        return True
    others = sum(word in _SAYS or word in _STATES for word in said[1:])
    return said[0] in _STATES and (len(said) < 3 or others > 0)


def is_prose(words: str) -> bool:
    """Whether a line says something of a secret, or has the small words that sentences have."""
    said = [word.lower() for word in _SAID.findall(words)]
    return says_of_it(words) or (len(said) > 3 and not _SAYS.isdisjoint(said))
