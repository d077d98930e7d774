"""Values that stand under a telling name inside a text: a setting, JSON, a Python dictionary, YAML, TOML, a header, a
command line, a list of its words, a query, an entry of a manifest, a row of a table, a sentence. Found by looking
around the few words that names of secrets are made of, each time over a bounded stretch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from rldoctor.expressions import expression
from rldoctor.redact.names import (
    IN_OTHER_LANGUAGES,
    IN_OTHER_LETTERS,
    OPENERS,
    by_letters,
    has_a_password,
    is_digest,
    is_long_and_random,
    is_nothing,
    is_one_of_somebody,
    is_password,
    is_path,
    is_prose,
    is_secret_option,
    looks_drawn,
    looks_made,
    owned,
    says_of_it,
    words,
)
from rldoctor.redact.spans import Span
from rldoctor.redact.values import closing, phrase, whole

_LONGEST_VALUE = 512
_STEM = by_letters(
    rf"{IN_OTHER_LANGUAGES}|key|token|secret|pass|creds|pswd|pwd|auth|bearer|cookie|credential|jwt|webhook|sess(?:ion)?_?id|stringdata"
    rf"|dsn|dockerconfigjson|pw(?![a-z])|kennwort|(?<=_)api(?![a-z_])|(?<![a-z])(?:pat|psk|sk|sig(?:n|nature)?)(?![a-z])",
    IN_OTHER_LETTERS,
)
_BEFORE = expression(
    rf"(?:\b(?i:{OPENERS}|public|signing)"
    r"[ \t])?[\w.-]{0,96}\Z"
)
_AFTER = expression(r"[\w.-]{0,96}(?:(?<=(?i:secret))[ \t](?i:(?:access[ \t])?key|token)\b)?")
_QUOTE = r"(?:\\{0,16}[\"'`]|&quot;|&#(?:34|39|x27);|%2[27]|\\u002[27])"
# Also as JSON and Python write its escape.
_COLOUR = r"(?:(?:\x1b|\\{1,4}(?:u001b|x1b|033|e))\[[\d;]{0,16}m)"
# A break of the line, with the indentation of the next.
_BREAK = r"(?:(?:\\?\r?\n[ \t]{0,80}){1,3})"
# What YAML may say of a value before it: a tag, an anchor, that it is a block.
_OF_YAML = rf"(?:[!&][\w/.!-]{{0,64}}[ \t]{{1,4}}){{0,2}}(?:[|>][-+\d]{{0,2}}[ \t]{{0,8}}{_BREAK})?"
# An annotation of Python before the value.
_TYPE = (
    r"(?:Optional\[)?(?:str(?:ing)?|String|&str|bytes|SecretStr|int|bool|float|Any|TypeAlias)\]?"
    r"(?:[ \t]{0,2}\|[ \t]{0,2}None)?"
)
# "name": | name (of what kind): | name= | name => | environ["NAME"] = | read name <<< | name [what stands there now]:
_JOINED = expression(
    rf"(?P<closed>{_QUOTE})?{_COLOUR}?[ \t]{{0,8}}(?:\]|\}}(?==))?"
    r"(?:[ \t](?:\[[^\[\]\n]{0,40}\]|\((?!bool\b)[^()\n]{0,60}\))(?=:))?[ \t]{0,8}"
    rf"{_COLOUR}?(?:=>|<<<|[:?]=|\n[ \t]{{0,40}}:(?=[ \t])|(?:(?::[ \t]{{0,4}}|(?<=[ \t])){_TYPE}[ \t]{{0,4}})?==?"
    rf"|!=(?=[ ]?{_QUOTE})|<-(?=[ \t])|%3[AD]|\\u003[ad]"
    rf"|[\uff1a\uff1d]|:(?![/:?]|\+[^{{}}\n]{{0,80}}\}}|@[\w.-]{{1,64}}[/:]|[-+=][\"'`<${{]))[ \t]{{0,40}}{_COLOUR}?"
    rf"(?P<yaml>{_OF_YAML})(?:\\\r?\n[ \t]{{0,80}})?(?(closed)(?:{_BREAK}(?=\"(?!\"\")))?)"
)
# name, another = value, another
_OTHERS = expression(r"(?:[A-Za-z_][\w.]{0,60},[ ]{0,4}){0,8}\Z")
_SEVERAL = expression(
    r"(?P<names>[A-Za-z_][\w.]{0,60}(?:,[ ]{0,4}[A-Za-z_][\w.]{0,60}){1,8})[)\]]?[ ]{1,4}=[ ]{1,4}[(\[]?"
)
_BEHIND_ONE = expression(r"(?:[^=,()\[\]{}\"'\n\\]|[(\[{][^()\[\]{}\n]{0,400}[)\]}]){0,400}(?P<comma>,[ ]{0,4})?")
# "--name", "value" | ("NAME", "value")
_LISTED = expression(rf"{_QUOTE}(?:[ \t]{{0,8}},\s{{0,40}}|,?\):[ \t]{{0,8}})(?=[bB]?{_QUOTE})")
# What a module lists of its own: "CredentialsError", "TokenFileError"
_CLASS = expression(r"[A-Z]{0,5}(?:[A-Z][a-z]+){2,8}")
# "project_id", "api_key_id", "model_name": what a program calls things.
_IDENTIFIER = expression(r"[a-z]{2,24}(?:_[a-z]{2,24}){1,8}")
_A_WORD = expression(r"[a-z]{2,15}|[A-Z][A-Za-z]{1,14}|[A-Z]{2,15}(?: [A-Z]{2,15}){1,3}")
_ITEM_BEFORE = expression(r"(?:[\"'`][A-Za-z][\w ]{0,60}[\"'`],|[\[({]|,)\s{0,40}b?[\"'`](?:\w{1,12} )?\Z")
_ITEM_BEHIND = expression(r"[\"'`](?:,|\]|[ ]or\b)")
# [--name, value] as YAML writes a list in one line.
_IN_FLOW = expression(r"[ \t]{0,4},[ \t]{1,4}(?=[^\s,\"'\[\]{}-][^\s,\"'\[\]{}]{0,511}[ \t]{0,4}[,\]])")
_A_FLOW_BEGINS = expression(r"\[[^\[\]\n]{0,400}\Z")
# ("name", "value"), where any password may be; "... name %s", "value"
_PAIR = expression(
    rf"(?P<before>{_QUOTE},[ ]{{0,4}}[bB]?(?P<quote>{_QUOTE}))[^\n]{{1,512}}?(?P<behind>(?P=quote)[)\]])"
)
_FORMATTED = expression(
    rf"[ \t:='\"]{{0,4}}(?:%[sr]|\{{[\w!:]{{0,8}}\}})[^\"'\n]{{0,40}}{_QUOTE}[ \t]{{0,4}},[ \t]{{0,4}}(?=[bB]?{_QUOTE})"
)
# What is no name of a secret by itself is one of who opens something with it: wandb: {key: value}, [wandb]\nkey = value
_IN_BRACES = expression(r"(?P<owner>[A-Za-z_][\w-]{0,40})[\"']?[ \t]{0,4}[:=][ \t]{0,4}(?:dict\()?\{[^{}]{0,320}\Z")
_SUBSCRIBED = expression(r"\[[\"'](?P<owner>[A-Za-z_][\w-]{0,40})[\"']\]\[[\"']\Z")
_INDENTED = expression(
    r"(?:^|\n)[ \t-]{0,40}[\"']?(?P<owner>[A-Za-z_][\w-]{0,40})[\"']?:[ \t]*"
    r"(?:\n[ \t][^\n]{0,199}){0,6}\n[^\n]{0,80}\Z"
)
_IN_A_SECTION = expression(
    r"(?:^|\n)\[{1,2}[\w.\"-]{0,40}?(?P<owner>[A-Za-z_][\w-]{0,40})\"?\]{1,2}\n(?:[^\n\[]{0,120}\n){0,8}[^\n]{0,4}\Z"
)
# name value, alone in the line of a file of settings.
_LINE = expression(r"[ \t]{0,40}(?:(?:config )?set )?", re.IGNORECASE)
_IN_A_LINE = expression(
    rf"[ \t]{{1,40}}(?=(?:{_QUOTE}[^\n]{{1,512}}{_QUOTE}|[^\s\"'=:]{{1,512}})[ \t]{{0,40}}(?:\r?\n|\Z))"
)
_ACCOUNT = expression(
    r"[ \t]{0,40}(?:login|user(?:name)?|account|machine|host|email)[ \t]{1,8}[^\s=:]{1,80}[ \t]{0,8}(?:\r?\n|\Z)"
)
# No word has so many letters without an ending.
_WRITTEN_TOGETHER = expression(
    r"(?![a-z]{0,40}(?:tion|ment|ity|ies|ing|ed|er|able|ible|ness|ance|ence|ure|age|s|al|ive|ly|ful|less|phrase|text|ary)\b)"
    r"[a-z]{11,40}(?=\s|\Z)"
)
# --name value, also in the next line
_SPACED = expression(rf"(?:[ \t]{{0,8}}{_BREAK}|[ \t]{{1,40}})(?![-\s])")
_FURTHER = expression(r"[\"']?[ \t]{1,8}[\"']?(?P<value>[^\s\"'`;|&-][^\s\"'`;|&]{15,512})")
# - name: NAME\n  value: value, with what is said of it between; name="NAME" value="value"; <name>NAME</name><value>;
# reg add ... /v NAME ... /d value
_OTHER = r"(?!\b(?i:name|key|variable)\b)[^\n{}\[\]<>]"
_ENTRY = expression(
    rf"[ \t][^\n]{{0,40}}?[ \t][/_]d[ \t]{{1,4}}|{_QUOTE}?(?:(?:{_OTHER}){{0,80}}\n){{0,3}}?(?:{_OTHER}){{0,80}}?"
    rf"(?<![\w-])(?i:value|content){_QUOTE}?[ \t]{{0,8}}[:=\t][ \t]{{0,8}}"
    rf"|(?:</[\w:-]{{1,40}}|{_QUOTE})>\s{{0,80}}<(?:[\w:-]{{1,40}}[:-])?(?i:value)>"
    r"|,[\w.\[\]]{1,80}\.value="
    rf"|{_QUOTE}(?:\s[^<>\n]{{0,120}})?>\s{{0,40}}(?=[^<>\n]{{1,4096}}</)"
)
_ENTRYS_NAME = expression(
    rf"(?:(?i:name|key|variable|environment|env(?:[_-]?(?:var|name))?|(?P<kind>type|field|label|id|option|setting))"
    rf"{_QUOTE}?[ \t]{{0,8}}[:=>\t]|[ \t][/_]v[ \t])"
    rf"[ \t]{{0,8}}{_QUOTE}?(?:/?[\w.-]{{1,24}}/){{0,6}}\Z"
)
_ENTRYS_VALUE = expression(
    rf"(?<![\w-])(?i:value){_QUOTE}?[ \t]{{0,8}}[:=][ \t]{{0,8}}(?P<value>{_QUOTE}?[^\s\"'`,]{{1,512}}{_QUOTE}?)"
    rf"[ \t]{{0,8}},?\s{{0,80}}{_QUOTE}?\Z"
)
# variable "NAME" { default = value }, add_argument("--name", default=value)
_DEFAULT = expression(
    rf"{_QUOTE}[ \t]{{0,8}}(?:\{{[^{{}}]{{0,400}}?|,[^\n]{{0,160}}?)"
    rf"\b(?:default|value)[ \t]{{0,8}}=[ \t]{{0,8}}(?={_QUOTE})"
)
# sed s/NAME/value/
_SUBSTITUTES = expression(r"(?<!\w)s([/|#,@])[^\w\s]{0,4}\Z")
# name\n  What is wrong with it [type=..., input_value='value', as pydantic says it.
_REFUSED = expression(
    rf"(?:\n[ \t]{{1,80}}|[ \t]{{3,80}})[A-Z][^\n]{{1,400}}\[type=\w{{1,60}}, input_value=(?={_QUOTE})"
)
# name:\n    desc: null\n    value: value, as wandb keeps a run's configuration.
_DESCRIBED = expression(rf"{_QUOTE}?:\s{{1,80}}(?:desc:[^\n]{{0,80}}?\s{{1,80}})?value:[ \t]{{1,8}}")
# <name>value</name>, <namespace:name>; the name of a file has no slash
_ELEMENTS_NAME = expression(r"<(?:\w{1,20}:)?\Z")
_ELEMENT = expression(r"(?P<before>(?:\s[^<>\n]{0,120})?>\s{0,40}(?:<!\[CDATA\[)?)(?=[^<>\n]{1,4096}(?:\]\]>)?</)")
# What is taken in place of the value, is put into it, or comes after it: key or "value", "old" -> "value"
_INSTEAD = expression(rf"{_QUOTE}?[ \t]{{1,4}}(?:or|\|\||\?\?|->|→|%)[ \t]{{1,4}}(?={_QUOTE})")
_OR_ELSE = expression(r"[A-Za-z_][^\n#;]{0,160}?\bor[ ]{1,4}(?=[fFrRbB]?[\"'])")
_FROM = expression(r"\bfrom[ \t]{1,4}[\"'`]?\Z")
_CHANGED = expression(r"[\"'`]?[ \t]{1,4}to[ \t]{1,4}[\"'`]?(?P<value>[^\s\"'`]{4,256})")
# The rest of a value that a terminal or a program broke off where the line was full.
_REST = expression(r"\\?\r?\n(?P<value>[\w+/=.~-]{8,512})(?=[\s\"'`,;)\]}]|\Z)")
# "..." of Python, and the rest of it in the next line.
_WRITTEN_ON = expression(
    r"[\"'](?:(?:[ \t]{0,4}[\\+]){0,2}[ \t]{0,4}(?:\r?\n|[ ]{4})[ \t]{0,120}(?:\+[ ]?)?|[ ]?\+[ ]?)"
    r"[fFrRbB]{0,2}[\"'](?P<value>[^\"'\n]{1,512})(?=[\"'](?![ ]{0,4}(?:=|:[ ]?(?:[\"'\d{\[]|[tfn][a-z]{3,4}\b))))"
)
_OF_PYTHON = expression(r"(?:=|:|\(|\s)\s[\"']\Z")
_CONTINUED = expression(r"(?:\\(?:\r?\n| )|(?:\"\"|''))(?P<value>[^\s\"'`;|&\\-][^\s\"'`;|&\\]{0,511})")
# name:, and its value in a line below that stands further right, as YAML has it; with a tag, an anchor, a comment.
_ABOVE = expression(
    rf"(?P<closed>{_QUOTE})?[ \t]{{0,8}}:(?:[ \t]{{1,4}}[!&][\w/.!-]{{0,64}}){{0,2}}[ \t]{{0,8}}(?:#[^\n]{{0,120}})?"
    rf"\r?\n(?:[ \t]{{0,80}}\r?\n){{0,2}}(?P<indent>[ \t]{{1,80}})(?P<value>[^\s#\[{{|>-][^\n]{{0,{_LONGEST_VALUE}}})"
)
# Names that texts have more often for something else.
_PROSE = (["token"], ["auth"], ["pass"])
_FIRST_IN_A_LINE = expression(r"(?P<indent>[ \t]{0,80}(?:[-?][ \t]{1,8}){0,4})[\"']?")
_ANOTHER_KEY = expression(r"[\"']?[\w./ -]{1,64}[\"']?[ \t]{0,8}:(?:\s|\Z)")
_OF_YAMLS_LINE = expression(r"[ \t]{1,80}#[^\n]*|[ \t\r]+\Z")
_BLOCK_BEGINS = expression(rf"[|>][-+\d]{{0,2}}[ \t]{{0,8}}{_BREAK}")
# The further lines of a block of YAML, also where lines were joined.
_OF_A_BLOCK = expression(r"[|>][-+\d]{0,2}[ \t]{0,8}?(?P<indent>\r?\n[ \t]{1,80}|[ \t]{3,80})\Z")
_BLOCK_LINE = expression(r"(?P<indent>\r?\n[ \t]{1,80}|[ \t]{3,80})(?P<value>\S{8,512})(?=\s|\Z)")
_FULL_LINE = range(60, 512)
_PIECES = expression(r"[A-Za-z]+|\d+")
# What loosely follows the name of somebody's variable.
_MIXED = expression(r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=\D*\d)[A-Za-z0-9_-]{20,512}")
# name = <<END\nvalue\nEND
_HEREDOC = expression(r"<<[-~]?[\"']?(?P<end>\w{1,40})[\"']?\s{1,80}(?P<value>[^\s\0][^\0]{0,4095}?)\s(?P=end)\b")
# What a call, an alternative, a collection or OpenTelemetry's Str(value) holds; a shell's substitution also without
# quotes.
_HELD = expression(r"(?<=[\"'`:=] |.[\"'`]|r\()[^\s\"'`(){}<>,;]{8,512}")
_SUBSTITUTED = expression(r"[^\s\"'`(){}<>,;]{8,512}")
# What a call takes where the variable is not set: os.getenv("NAME", "value")
_ELSE = expression(rf"(?i:get_?env|environ\.get|\benv)\([ ]?{_QUOTE}\w{{1,64}}{_QUOTE},[ ]{{0,4}}(?={_QUOTE})")
# setenv NAME value
_SETS = expression(r"(?:\bsetenv|(?<!\S)-g?env|\bsetx|\bset -g?x|\bconfigure set|\bENV|%env|\bdotenv set)[ \t]{1,8}\Z")
# A word of a sentence, or the path of a file.
_SAID = r"(?:[\w'-]{1,15}|[\w.-]{1,40}@[\w.-]{1,40}|[\"']?[/~][\w/.~-]{1,80}[\"']?)"
# In a table, in a sentence, in the next line: the value has to look like one.
_LOOSE = expression(
    rf"{_QUOTE}?(?:(?P<table>[ \t]{{0,40}}[│┃|][ \t]{{0,8}}|[ \t]{{1,4}}\.{{2,80}}[ \t]{{1,4}}"
    rf"|</t[dh]>\s{{0,40}}<t[dh][^<>\n]{{0,80}}>|[ \t]{{2,60}}|\t"
    rf"|[ \t]{{0,8}}[:=][ \t]{{0,8}}{_BREAK}(?:-[ \t]{{1,4}})?)"
    rf"|[ \t](?i:for)[ \t][\w@'\".%-]{{1,80}}[ \t]=[ \t](?={_QUOTE})"
    rf"|(?:[ \t](?=[A-Za-z])(?:{_SAID} ){{0,5}}{_SAID})?"
    r"(?::|(?<=\w[ \t](?:is|to))|(?<=\w[ \t]was))[ \t]{1,4}"
    r"|(?:[ \t]{1,4}(?:is|was|are|to|set|provided|of|for|from|changed|used|->|→)(?=[ \t:])){0,3}"
    rf"(?:[:,]?[ \t]{{1,4}}\(?|:[ \t]{{0,4}}{_BREAK}))"
)
_NEXT_WORD = expression(r"[ \t]{1,4}(?=\S)")
_SENTENCE = expression(
    rf"(?:[ \t][\w'-]{{1,15}},?){{1,12}}?[ \t](?:got[ \t](?={_QUOTE})|for[ \t](?=[0-9A-Fa-f]{{32,64}}\b)"
    r"|(?:was|with)[ \t]|\()"
)
# What it is the pass of: the second pass, the keystore pass
_OF = expression(r"(?<![\w.-])(\d{0,3}[A-Za-z]{2,16}|\d{1,3}) \Z")
# A word that says of an option what it is, as another word behind it shows: --api-key is ignored
_OF_AN_OPTION = expression(r"[a-z]{2,15}[ \t](?:a|[A-Za-z_]{2,32})[,.;:]?(?=[\s\"'\\]|\Z)")
# What a sentence says a password to be.
_TOLD = expression(r"(?:\b(?:is|was|to|provided)|->|→)[ \t:(]*\Z")
_TELLS = expression(r"(?::|\b(?:is|was)|->|→)[ \t]+\Z")
_OF_IT = expression(
    r"[:,]|[ \t](?:for|of|to|on|at|is|was|are|set|changed|from|used|des|der|von|du|de|del|da|do|di|van|->|→)\b"
    r"|[ \t]{1,4}\Z"
)
_STATE = expression(r"[a-z-]{2,16}(?:ed|er|able|ible|ing|less)\.?")
_LAST_WORD = expression(
    r"[^\s\"'`()<>{}\[\]:=\\]{3,200}"
    r"(?=[ \t]{0,80}(?:\r?\n|\Z)|\\{0,16}[\"'](?:[\s,;)\]}]|\Z)|[ \t]\([^()\n]{1,60}\)[ \t]{0,80}(?:\n|\Z))"
)
_SOMEBODYS = expression(r"\b(?i:the|your|my|our|new)[ \t]\Z")
_SAID_OF_IT = expression(r"[\"'`]?[ \t](?:was|is|has|does|did|could|expired|revoked|rejected)\b")
# A row of a file of columns.
_COLUMN = expression(rf"{_QUOTE}?[,;]{_QUOTE}?(?P<cell>[^\s,;\"'`]{{7,511}}[^\s,;\"'`:]){_QUOTE}?:?(?=[,;\s}}\]]|$)")
# What is shown in the line below of what the line asks for: echo $NAME, print(x["name"]), a cell of a notebook.
_SHOWN_BELOW = expression(
    rf"[\"'`)\]}}]{{0,4}}[ \t]{{0,8}}\r?\n[ \t]{{0,80}}(?:(?:Out\[\d{{1,5}}\]:|\$\d{{1,5}} =)[ \t]{{1,4}})?{_QUOTE}?"
    r"(?P<value>[^\s\"'`]{16,512})(?=[\s\"'`]|$)"
)
_PROMPT = expression(r"[ \t]{0,80}(?:[\w@:~/.-]{0,60}[$#%>][ \t]|>>>[ \t]|In[ ]\[\d{1,5}\]:|\(\w{1,12}\)[ \t]|!)")
_LINE_ENDS = expression(r"[ \t]{0,8}(?:[\"'\\\n│|):]|\(|\Z)")
# A comment up to the name in it, and what no value before it holds.
_COMMENT = expression(r"[ \t\"'`]{0,8}(?:#|//|(?<=[ \t])<?--?>?|←|(?<=[ \t])\()[ \t]{0,4}[^\n#]{0,40}\Z")
_OF_A_LINE = expression(r"[^\s\"'`=:,;()\[\]{}]{16,512}")
_BEFORE_A_VALUE = "\n \t\"'`=:,;()"
_OPENING = expression(rf"(?:[bBrRfFuU]{{1,2}}(?=\\{{0,16}}[\"'])|\$(?='))?(?P<quote>\"\"\"|'''|{_QUOTE})")
# What stood at the end or the beginning of a line before lines were joined to one: a block of YAML, an item, a shell's
# backslash.
_JOINED_LINES = expression(r"(?:[|>][-+\d]{0,2}|-|\\)[ \t]{1,80}")
_LIST = expression(r"\[[^\[\]{}]{0,1024}\]|\([^()\[\]{}]{0,1024}\)|\{[^\[\]{}]{1,1024}\}")
# As ODBC quotes a value.
_BRACED = expression(r"\{(?P<value>(?![\"'{])(?:[^{}\n]|\}\}){1,512})\}(?=[;\s\"']|\Z)")
_HAS_VARIABLES = expression(r"^\{[^\0]*[\"']:[ ]?(?!true|false|null|none|True|False|None)[A-Za-z_]\w{0,60}[,}\n]")
_ITEM = expression(r"(?P<quote>[\"'])(?P<value>[^\"'\n]{0,512})(?P=quote)")
_ITEMS = expression(rf"(?:{_BREAK}|[ \t]{{1,8}})-[ \t]")
_PLAIN = expression(r"[^\s\"'`\x1b]{1,4096}")
_SHORT = expression(r"[^\s\"'`\x1b]{1,200}")
# Where a value without quotes ends before the next space.
_STOP = expression(
    r"[,;&][\w.+-]{1,64}[=:]|[,;](?=\\*$)|&&|\|\||[)\]}>]+[.,;:]*\\*$|\\+$|\\[nrt](?![A-Za-z0-9])|<|%2[267]|&quot;|&amp;|&#|\\u002[267]"
)
# Where one ends in the query of a URL, which has further parts.
_QUERY = expression(r"[\w+]&[\w.-]{1,64}=")
_OF_A_QUERY = expression(r"[&#<>)\]}]|\\+$|&amp;|\\u0026")
_SCHEME = expression(r"(?:bearer|basic|token|digest|apikey|aws4-hmac-sha256)[ \t]{1,4}", re.IGNORECASE)
_VARIABLE = expression(r"[A-Za-z_][A-Za-z_.]*")
# What a line of a program gives a name: an attribute, a constant, a call.
_OF_A_PROGRAM = expression(
    r"[A-Za-z_]+(?:\.[A-Za-z_]+){0,8}[ ]\(|(?:[A-Za-z_]+(?:\.[A-Za-z_]+){1,8}|[A-Z]+(?:_[A-Z]+){1,8})(?=\s|\Z)"
)
_OR_NONE = expression(r"[ \t]{1,4}\|[ \t]{1,4}None\b")
_A_CALL = expression(r"[A-Za-z_][\w.]{0,80}[ ]?\(")
_EXPRESSION = expression(r"[A-Za-z_][\w.]*[\[(]")
# What a shell takes where the variable is not set.
_FALLBACK = expression(r"\$\{\w{1,64}:?[-=+](?!\})")
# A word of a sentence, and the next.
_WORDS = expression(r"[A-Za-z][a-z]{0,14} (?:a|[a-z]{2,15})\b")
# Where lines were joined, the key of the next.
_KEY = expression(r"(?:(?:secret)?Name|name|value|key):")
_HEADERS = frozenset(("authorization", "proxy-authorization", "cookie", "set-cookie"))
# A header has a scheme, a name or what was drawn: authorization: rbac, tls: off
_WORDS_ALONE = expression(r"[a-z]{1,15}(?:[ \t][a-z]{1,15}){0,8}[ \t]{0,80}(?:[\"'`,:()\]}│|\\]|\Z)")
_COLLECTIONS = frozenset(("cookies", "credentials", "secrets", "stringdata"))
# What a collection holds: its bracket, the lines below it that stand further right, or those of its section.
_HELD_TOGETHER = expression(
    rf"{_QUOTE}?[ \t]{{0,8}}[:=][ \t]{{0,8}}(?:[\[{{][^\n]{{1,1024}}"
    rf"|(?:\r?\n[ \t]{{1,80}}[\w.-]{{1,64}}:[ \t][^\n]{{1,512}}){{1,40}})"
    r"|\](?:\s{1,80}[\w.-]{1,64}[ \t]?=[ \t]?[^\n]{1,512}){1,40}"
)
_LINE_OF = expression(r"[^\n]{0,400}")
# To the end, whose line may go on in the next.
_LINES = expression(r"[^\n]*(?:(?<=[;,])[ \t]?\r?\n[ \t]{1,80}[^\n]*){0,20}")
_DIGEST = expression(r"digest[ \t]", re.IGNORECASE)
_SCHEME_ALONE = expression(r"(?:bearer|basic|token)\s*", re.IGNORECASE)


def find(text: str) -> Iterator[Span]:
    """Where values stand that their names make secrets of."""
    position = 0
    for stem in _STEM[text.isascii()].finditer(text):
        if stem.start() < position:
            continue
        before = _BEFORE.search(text, max(position, stem.start() - 104), stem.start())
        after = _AFTER.match(text, stem.end())
        begin = before.start() if before else stem.start()
        end = after.end() if after else stem.end()
        position = end
        for span in _values(text, begin, end):
            position = max(position, span.end)
            yield span


def _values(text: str, begin: int, end: int) -> Iterator[Span]:
    name = text[begin:end].lstrip("-.").rstrip(".-")
    if name == "PWD" and text[begin - 1 : begin] == ";" and text[end + 1 : end + 2] != "/":
        name = name.lower()  # of a connection string: PWD is no folder
    option = text[begin:end].startswith("-") and (not begin or text[begin - 1] not in "})]")
    name = owned(name, _owners(text, begin)) if is_one_of_somebody(name) else name
    certain = _names_a_secret(name)
    if name.lower() in _COLLECTIONS and (together := _HELD_TOGETHER.match(text, end)):
        yield from _held(text, together.start(), together.end(), name)
    if several := _one_of_several(text, begin, end):
        quoted = _OPENING.match(text, several)
        span = _after_a_name(text, several, name, closed=True, joint="=") if quoted else None
        yield from () if span is None else (span,)
        return
    span = _named(text, begin, end, name, option=option)
    points_to_it = text.endswith(("$", "${"), max(0, begin - 2), begin)
    if span is None and certain and not option:
        beside = [*_beside(text, begin, end, name)]
        yield from beside
        span = None if points_to_it or beside else _loose(text, begin, end, name)
    if span is not None and name.lower() == "pass" and _is_a_turn(text, begin, end):
        span = span if looks_made(text[span.start : span.end]) else None
    if span is None:
        if certain and (joined := _JOINED.match(text, end)):
            line = _LINE_OF.match(text, joined.end())
            yield from _held(text, joined.end(), line.end() if line else joined.end(), name)
            if joined[0].strip() == "=" and (otherwise := _OR_ELSE.match(text, joined.end())):
                taken = _after_a_name(text, otherwise.end(), name, closed=True, joint="=")
                yield from () if taken is None else (taken,)
        return
    yield span
    yield from _broken_off(text, span)
    if instead := _INSTEAD.match(text, span.end):
        taken = _after_a_name(text, instead.end(), name, closed=True, joint="=")
        yield from () if taken is None else (taken,)
    # The one that took its place: changed the password from that to this.
    if is_password(name) and (changed := _CHANGED.match(text, span.end)) and _FROM.search(text, end, span.start):
        yield (span := Span(changed.start("value"), changed.end("value"), name))
    # The further values of an option that takes several.
    while option and (word := _FURTHER.match(text, span.end)) and _drawn(word["value"]):
        span = Span(word.start("value"), word.end("value"), name)
        yield span
    # The further items of a list in YAML.
    in_a_list = certain and text[end : span.start].rstrip("\"'`").endswith("- ")
    while in_a_list and (item := _ITEMS.match(text, span.end)):
        following = _after_a_name(text, item.end(), name, closed=True, joint="-")
        if following is None:
            return
        span = following
        yield span


def _owners(text: str, begin: int) -> Iterator[str]:
    """Whose key or token it is: what holds it in braces, in lines that stand further right, or in a section."""
    line = text.rfind("\n", max(0, begin - 80), begin) + 1
    first = _FIRST_IN_A_LINE.fullmatch(text, line, begin)
    below = () if first is None else (_INDENTED,) if first["indent"] else (_IN_A_SECTION,)
    for way in (_IN_BRACES, _SUBSCRIBED, *below):
        if holds := way.search(text, max(0, begin - 400), begin):
            yield holds["owner"]


def _is_a_turn(text: str, begin: int, end: int) -> bool:
    """Whether the word pass tells of a test, or of one of several turns: ``PASS: name``, ``second pass: words``."""
    if text[end : end + 1] not in (":", " "):
        return False
    of = _OF.search(text, max(0, begin - 20), begin)
    return not has_a_password(of[1]) if of else text.startswith("PASS:", begin)


def _broken_off(text: str, span: Span) -> Iterator[Span]:
    """What stands in the next lines of a value that fills its own up to a certain width, or is a block of YAML."""
    # A shell joins words at a backslash that ends a line, where nothing stands before the rest.
    while joined := _CONTINUED.match(text, span.end):
        yield (span := Span(joined.start("value"), joined.end("value"), span.name))
    while (joined := _WRITTEN_ON.match(text, span.end)) and _OF_PYTHON.search(text, max(0, span.start - 3), span.start):
        yield (span := Span(joined.start("value"), joined.end("value"), span.name))
    width = span.end - text.rfind("\n", max(0, span.end - _FULL_LINE.stop), span.end) - 1
    full = width in _FULL_LINE
    end = span.end
    while full and (rest := _REST.match(text, end)) and _goes_on(rest["value"]):
        yield Span(rest.start("value"), end := rest.end("value"), span.name)
        full = len(rest["value"]) == width
    block = _OF_A_BLOCK.search(text, max(0, span.start - 96), span.start)
    while block and (line := _BLOCK_LINE.match(text, end)) and line["indent"] == block["indent"]:
        if not looks_made(line["value"]):
            return
        yield Span(line.start("value"), end := line.end(), span.name)


def _goes_on(rest: str) -> bool:
    """Whether this is no word that a line begins with."""
    pieces = _PIECES.findall(rest)
    return _drawn(rest) or (rest.isalnum() and len(pieces) > 3 and sum(map(str.isdigit, rest)) > 1)


def _named(text: str, begin: int, end: int, name: str, *, option: bool) -> Span | None:
    certain = _names_a_secret(name)
    key = _ENTRYS_NAME.search(text, max(0, begin - 40), begin)
    if key and (is_password(name) or key["kind"] is None):
        if entry := _ENTRY.match(text, end):
            if entry[0].rstrip().endswith(">"):
                return _judged(text, entry.end(), text.find("</", entry.end()), name)
            block = _BLOCK_BEGINS.match(text, entry.end())
            start = block.end() if block else entry.end()
            return _after_a_name(text, start, name, closed=True, joint=":", begin=begin)
        first = key.start()
        if value := _ENTRYS_VALUE.search(text, max(0, first - 640), first):
            return _after_a_name(text, value.start("value"), name, closed=True, joint=":")
    if _ELEMENTS_NAME.search(text, max(0, begin - 24), begin) and (element := _ELEMENT.match(text, end)):
        start, end = element.end("before"), text.find("<", element.end())
        return _judged(text, start, start + len(text[start:end].removesuffix("]]>").rstrip()), name)
    if (inside := _SUBSTITUTES.search(text, max(0, begin - 12), begin)) and (
        until := text.find(inside[1], end, end + 8)
    ) > 0:
        behind = text.find(inside[1], until + 1, until + 1 + _LONGEST_VALUE)
        return _judged(text, until + 1, behind, name) if behind > 0 else None
    if described := _DESCRIBED.match(text, end):
        return _after_a_name(text, described.end(), name, closed=True, joint=":")
    if certain and (below := _below(text, begin, end, name)):
        return below
    if (joined := _JOINED.match(text, end)) and not (
        joined[0].rstrip().endswith("==") and not _OPENING.match(text, joined.end())
    ):
        if joined[0].lstrip()[:1] == ":" and joined[0][:1] == "\n" and text[max(0, begin - 2) : begin] != "? ":
            return None
        closed = joined["closed"] is not None or bool(joined["yaml"])
        span = _after_a_name(text, joined.end(), name, closed=closed, joint=joined[0], begin=begin)
        # What a tokenizer makes of a text is a token, too.
        may_be_a_word = name.lower() == "token" and not option and joined[0].strip("\"'") != "="
        return None if span is not None and may_be_a_word and _is_a_word(text[span.start : span.end]) else span
    if (listed := _LISTED.match(text, end)) and (
        option or name.isupper() or len(words(name)) > 1 or name.lower() in _HEADERS
    ):
        span = _after_a_name(text, listed.end(), name, closed=True, joint=",")
        held = "" if span is None else text[span.start : span.end]
        of_names = _is_a_name(held) or (_CLASS.fullmatch(name) and _CLASS.fullmatch(held))
        one_of_many = span is not None and not option and _is_one_of_many(text, begin, span)
        return None if of_names or one_of_many else span
    if option and (flow := _IN_FLOW.match(text, end)) and _A_FLOW_BEGINS.search(text, max(0, begin - 404), begin):
        return _after_a_name(text, flow.end(), name, closed=True, joint=",")
    if is_password(name) and (pair := _PAIR.match(text, end)) and text[max(0, begin - 2) : begin - 1] in ("(", "["):
        return _judged(text, pair.end("before"), pair.start("behind"), name)
    if default := _DEFAULT.match(text, end) or _REFUSED.match(text, end) or (certain and _FORMATTED.match(text, end)):
        return _after_a_name(text, default.end(), name, closed=True, joint="=")
    sets = not option and _SETS.search(text, max(0, begin - 24), begin)
    if (option or sets) and (spaced := _SPACED.match(text, end)):
        if says_of_it(text[spaced.end() : spaced.end() + 40]) and _OF_AN_OPTION.match(text, spaced.end()):
            return None
        return _after_a_name(text, spaced.end(), name, closed=True, joint=" ")
    line = text.rfind("\n", max(0, begin - 64), begin) + 1
    if certain and (alone := _IN_A_LINE.match(text, end)) and " " not in name and _LINE.fullmatch(text, line, begin):
        quoted = is_password(name) and _OPENING.match(text, alone.end())
        several = len(words(name)) > 1 or name == "masterauth"
        if (quoted or several or _is_the_password(text, line, begin, alone.end())) and not says_of_it(
            text[alone.end() : alone.end() + 40]
        ):
            return _after_a_name(text, alone.end(), name, closed=True, joint=" ")
    return None


def _is_one_of_many(text: str, begin: int, span: Span) -> bool:
    """Whether name and value are two of a list of names. A word is one only between others: ``set("name", "value")``
    has two."""
    item, held = _ITEM_BEFORE.search(text, max(0, begin - 80), begin), text[span.start : span.end]
    if item is None or _IDENTIFIER.fullmatch(held):
        return item is not None
    among = item[0][0] in "\"'`" or (item[0][0] == "[" and _CLASS.fullmatch(span.name) is not None)
    may_be_a_word = is_password(span.name) or words(span.name)[-1] == "secret"
    is_word = _A_WORD.fullmatch(held) is not None and _ITEM_BEHIND.match(text, span.end) is not None
    return among and is_word and not may_be_a_word


def _is_the_password(text: str, line: int, begin: int, start: int) -> bool:
    """Whether what stands behind the word password, alone in a line, is one: below or above the line of who has it, or
    two words that were written together."""
    if text[begin:start].strip() not in ("password", "passwd", "passphrase"):
        return False
    above = text.rfind("\n", max(0, line - 120), max(0, line - 1)) + 1
    below = text.find("\n", start, start + _LONGEST_VALUE) + 1
    beside = _ACCOUNT.match(text, above, line) or (below and _ACCOUNT.match(text, below))
    return bool(beside or _WRITTEN_TOGETHER.match(text, start))


def _one_of_several(text: str, begin: int, end: int) -> int | None:
    """Where the value of a name stands that gets one together with others (``user, password = "a", "b"``), or what all
    of them are taken from."""
    if "," not in (text[end : end + 1], text[begin - 2 : begin - 1], text[begin - 1 : begin]):
        return None
    others = _OTHERS.search(text, max(0, begin - 160), begin)
    several = _SEVERAL.match(text, others.start()) if others else None
    if several is None or several.end("names") < end:
        return None
    at, last = (text.count(",", several.start("names"), to) for to in (begin, several.end("names")))
    start, position = -1, several.end()
    for number in range(last + 1):
        start = position if number == at else start
        if opening := _OPENING.match(text, position):
            position = closing(text, opening.end(), opening["quote"]) + len(opening["quote"])
        behind = _BEHIND_ONE.match(text, position)
        if behind is None or (number < last) != (behind["comma"] is not None):
            return several.end() if not _OPENING.match(text, several.end()) else None
        position = behind.end()
    return start


def _below(text: str, begin: int, end: int, name: str) -> Span | None:
    """The value of a key of YAML that stands below it: a string in quotes, a word, of a password all that the line has;
    but no sentence that tells what the name is for."""
    line = text.rfind("\n", max(0, begin - 120), begin) + 1
    below = _ABOVE.match(text, end)
    first = _FIRST_IN_A_LINE.fullmatch(text, line, begin) if below else None
    # What quotes hold begins a text.
    begins = below and not below["closed"] and text[begin - 1 : begin] in ("'", '"')
    if below is None or not (begins or (first and len(first["indent"]) < len(below["indent"]))):
        return None
    start = below.start("value")
    value = _OF_YAMLS_LINE.sub("", below["value"])
    if opening := _OPENING.match(text, start):
        return _judged(text, opening.end(), closing(text, opening.end(), opening["quote"]), name)
    is_text = is_prose(value) if is_password(name) else " " in value
    is_text = is_text or (words(name) in _PROSE and not looks_made(value))
    return None if is_text or _ANOTHER_KEY.match(value) else _judged(text, start, start + len(value), name)


def _held(text: str, start: int, end: int, name: str) -> Iterator[Span]:
    """What looks like a secret among the words that a call, a substitution or a collection holds."""
    if default := _ELSE.search(text, start, end):
        span = _after_a_name(text, default.end(), name, closed=True, joint="=")
        yield from () if span is None else (span,)
    held = _SUBSTITUTED if text.startswith(("$(", "`", "${"), start) else _HELD
    for word in held.finditer(text, start, end):
        value = word[0].rstrip(":")
        calls = text.startswith("(", word.end())
        if not calls and looks_made(value) and not value.isupper() and is_secret_option(name, value):
            yield Span(word.start(), word.start() + len(value), name)


def _beside(text: str, begin: int, end: int, name: str) -> Iterator[Span]:
    """A value drawn at random that stands before the comment that has the name, or in the line below."""
    if _LINE_ENDS.match(text, end) and (comment := _COMMENT.search(text, max(0, begin - 56), begin)):
        lowest = max(0, comment.start() - _LONGEST_VALUE)
        first = max(text.rfind(one, lowest, comment.start()) for one in _BEFORE_A_VALUE) + 1
        made = looks_made if is_password(name) else _drawn
        if made(text[first : comment.start()]):
            yield Span(first, comment.start(), name)
        line = max(lowest, text.rfind("\n", lowest, comment.start()) + 1)
        for word in _OF_A_LINE.finditer(text, line, comment.start()):
            if _drawn(word[0]):
                yield Span(word.start(), word.end(), name)
    line = text.rfind("\n", max(0, begin - 640), begin) + 1
    below = _SHOWN_BELOW.match(text, end)
    if below is None and _PROMPT.match(text, line) and (newline := text.find("\n", end, end + 40)) > 0:
        below = _SHOWN_BELOW.match(text, newline)
    if below and _drawn(below["value"]):
        yield Span(below.start("value"), below.end("value"), name)


def _loose(text: str, begin: int, end: int, name: str) -> Span | None:
    """A value that is bound to its name by its place alone, where it looks drawn at random."""
    alone = begin == 0 or text[begin - 1] in "\n\"' "
    if alone and (column := _COLUMN.match(text, end)) and looks_made(column["cell"]):
        return Span(column.start("cell"), column.end("cell"), name)
    sentence = _SENTENCE.match(text, end) if len(words(name)) > 1 else None
    gaps = _NEXT_WORD.match(text, end), sentence, _LOOSE.match(text, end)
    found = (_behind(text, begin, gap, name) for gap in gaps if gap is not None and gap.end() > end)
    return next((span for span in found if span is not None), None)


def _behind(text: str, begin: int, gap: re.Match[str], name: str) -> Span | None:
    """The value behind what loosely binds it to its name."""
    opening = _OPENING.match(text, gap.end())
    if is_password(name) and (told_one := _told(text, begin, gap, name)):
        return told_one
    plain = _SHORT.match(text, opening.end() if opening else gap.end())
    if plain is None:
        return None
    stop = _STOP.search(plain[0])
    value = (plain[0][: stop.start()] if stop else plain[0]).partition("|")[0].rstrip(".,:;")
    span = Span(plain.start(), plain.start() + len(value), name)
    in_a_table = gap.groupdict().get("table") is not None
    somebodys = len(words(name)) > 1 or _SOMEBODYS.search(text, max(0, begin - 8), begin)
    said_of_it = name.lower().endswith(("token", "api key")) and _SAID_OF_IT.match(text, span.end)
    announced = is_password(name) or (somebodys and (said_of_it or _TOLD.search(gap[0])))
    mixed = name.isupper() and _MIXED.fullmatch(value)
    return span if mixed or (looks_made if in_a_table or announced else _drawn)(value) else None


def _told(text: str, begin: int, gap: re.Match[str], name: str) -> Span | None:
    """The password that a sentence tells: in quotes, or all that its line has behind a colon or ``is``."""
    opening = _OPENING.match(text, gap.end())
    start = opening.end() if opening else gap.end()
    if says_of_it(text[start : start + 40]) or text[gap.start()] in "\"'`" or "\n" in gap[0]:
        return None
    if opening:
        if words(name)[-1] == "pass" and not _TELLS.search(gap[0]):  # do not pass 'x' to y
            return None
        end = closing(text, start, opening["quote"])
        # The end of a question, getpass("Password: "), or what the password is of: for 'host':
        none = text[begin - 1 : begin] == opening["quote"] or text[opening.start() - 1] == "("
        none = none or text[end + 1 : end + 2] in (":", "=") or gap[0].rstrip().endswith((" for", " of"))
        return None if none or _names_a_secret(text[start:end]) else _judged(text, start, end, name)
    if not _TELLS.search(gap[0]) or not _OF_IT.match(gap[0]):
        return None
    end = phrase(text, begin, start)
    if (
        end == start
        and (word := _LAST_WORD.match(text, start))
        and not _EXPRESSION.match(word[0])
        and not _STATE.fullmatch(word[0])
    ):
        end = word.end()
    return _judged(text, start, end, name) if end > start else None


def _after_a_name(
    text: str, start: int, name: str, *, closed: bool, joint: str, begin: int | None = None
) -> Span | None:
    """The value that starts here, where its name makes it a secret. ``closed``: the quotes of the name end before."""
    if name.lower() in _HEADERS and not closed and not (joint == " = " and _A_CALL.match(text, start)):
        before = text[max(0, start - len(name) - len(joint) - 1) : start][:1]
        quoted = before in ('"', "'", "`") and not _DIGEST.match(text, start)
        line = _LINES.match(text, start)
        held = text[start : closing(text, start, before) if quoted or not line else line.end()].rstrip()
        if held:
            of_a_setting = _WORDS_ALONE.match(held) and not _SCHEME.match(held)
            return None if of_a_setting or is_nothing(held.rstrip(" │|")) else Span(start, start + len(held), name)
    if lines := _JOINED_LINES.match(text, start):
        start = lines.end()
    certain = _names_a_secret(name)
    if certain and (document := _HEREDOC.match(text, start)):
        return Span(document.start("value"), document.end("value"), name)
    if fallback := _FALLBACK.match(text, start):
        start = fallback.end()
    opening = _OPENING.match(text, start)
    if opening:
        inside = opening.end()
        if not closed and text.startswith((")", ",", "; "), inside):  # getpass("Password: ")
            return None
        if begin is not None and text[begin - 1 : begin] == opening[0] and text.startswith(" ", inside):
            return None  # read -p "Password: " name
        end = closing(text, inside, opening["quote"])
        return None if _SCHEME_ALONE.fullmatch(text, inside, end) else _judged(text, inside, end, name)
    if begin is not None and text[begin - 1 : begin] == ";" and (braced := _BRACED.match(text, start)):
        return _judged(text, braced.start("value"), braced.end("value"), name)
    listed = _LIST.match(text, start) if certain else None
    if (
        listed
        and words(listed[0]) != words(name)
        and (
            listed[0][0] == "["
            or (listed[0][0] == "(" and _OPENING.search(listed[0]))
            or (listed[0][0] == "{" and not _COLLECTIONS.isdisjoint(words(name)))
        )
    ):
        items = [item["value"] for item in _ITEM.finditer(listed[0])]
        own = {*words(name)}
        if listed.end() - start == 2 or is_nothing(listed[0]) or _HAS_VARIABLES.search(listed[0]):
            return None
        if items and all(is_nothing(item) or own.issuperset(words(item)) for item in items):
            return None
        return Span(start + 1, listed.end() - 1, name)
    if text.startswith(("{", "[", "(", "$(", "`", "${"), start):
        return None
    scheme = _SCHEME.match(text, start)
    plain = (_PLAIN if certain else _SHORT).match(text, scheme.end() if scheme else start)
    if plain is None or _EXPRESSION.match(plain[0]) or _is_a_key(plain[0]):
        return None
    if not is_password(name) and joint == " = " and _OF_A_PROGRAM.match(text, plain.start()):
        return None
    if joint.startswith("`:") and text.startswith(" ", plain.end()) and not looks_made(plain[0]):  # of a docstring
        return None
    if (
        ":" in joint
        and ((not closed and says_of_it(text[plain.start() : plain.end() + 40])) or text.startswith(' "', plain.end()))
        and not looks_made(plain[0])
    ):
        return None
    any_words = is_password(name) or (certain and _OF_A_BLOCK.search(text, max(0, start - 96), start))
    if begin is not None and any_words and (end := phrase(text, begin, start)) > start:
        return _judged(text, start, end, name)
    in_a_query = _QUERY.search(plain[0]) or text[max(0, (begin or 0) - 1) : begin] in ("?", "&")
    stop = (_OF_A_QUERY if in_a_query else _STOP).search(plain[0])
    goes_on = stop is None or (stop[0] == "\\" and text.startswith(" ", plain.end()))
    end = whole(text, start, plain.end()) if goes_on or not stop else plain.start() + stop.start()
    value = text[start:end].rstrip(":")
    folder, slash, _ = value.partition("/")
    if (
        begin is not None
        and text[begin - 1 : begin] == "/"
        and slash
        and (is_path(value) or not is_long_and_random(value))
    ):
        value = folder  # a folder is called name=value
    end = start + len(value)
    # Prose: "unexpected token: }", "the key: a, b".
    prose = ":" in joint and not closed and words(name) in _PROSE
    in_a_sentence = ":" in joint and not closed and not is_password(name) and _WORDS.match(text, start)
    if ((prose or in_a_sentence) and not looks_made(value)) or _is_variable(value, name) or _OR_NONE.match(text, end):
        return None
    return _judged(text, start, end, name)


def _is_variable(value: str, name: str) -> bool:
    """Whether a program's own variable of this name is handed on: ``api_key=self.judge_api_key``."""
    return bool(_VARIABLE.fullmatch(value)) and value.lower().endswith(name.lower().rpartition(".")[2].strip("_"))


def _is_a_name(value: str) -> bool:
    return value.replace("-", "_").isidentifier() and not any(map(str.isdigit, value)) and _names_a_secret(value)


def _is_a_key(value: str) -> bool:
    """Whether lines were joined, and this is the name in the next."""
    return bool(_KEY.fullmatch(value)) or (value.endswith(":") and _is_a_name(value[:-1]))


def _drawn(value: str) -> bool:
    """Whether a value that stands loosely by a certain name looks like a secret; keys may look like digests."""
    return looks_drawn(value) or is_digest(value)


def _is_a_word(value: str) -> bool:
    return len(value) < 16 and not any(character.isdigit() for character in value)


def _judged(text: str, start: int, end: int, name: str) -> Span | None:
    value = text[start:end]
    # A program's constants have their own names for values: EXPIRED_TOKEN = "expired_token".
    said, own = words(value), words(name)
    its_name = (
        said == own
        or (not is_password(name) and _is_a_name(value))
        or (len(said) > 0 and not is_password(name) and set(said) <= set(own))
    )
    its_type = len(own) < len(said) and set(own) <= set(said) and _CLASS.fullmatch(value.rpartition(".")[2])
    is_secret = any(map(str.isalnum, value)) and not (its_name or its_type) and is_secret_option(name, value.strip())
    return Span(start, end, name) if is_secret else None


@lru_cache(maxsize=4096)
def _names_a_secret(name: str) -> bool:
    """Whether any text under this name is a secret, not only what looks drawn at random."""
    return is_secret_option(name, "open sesame")
