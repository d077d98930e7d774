"""What a log shows to be secret, of all its lines: a secret may stand under its name in one line and alone in the line
that leaves."""

from __future__ import annotations

from functools import cache

from rldoctor import redact
from rldoctor.logs.literals import Find, finder

# In lower case: what makes a closer look at a line worth while, among the many of a log.
_TELLING = (
    *("api_key", "api-key", "apikey", "api key", "access_key", "access-key", "accesskey", "auth_key", "private key"),
    *("authkey", "authtoken", "accesstoken", "密码", "口令", "密钥", "令牌", "パスワード", "비밀번호", "토큰"),
    *("пароль", "токен", "contraseña", "mot de passe", "senha", "hasło", ".ftqq.com/", "api.day.app/"),
    *("secret", "passw", "passphrase", "credential", "authorization", "bearer ", "cookie:", "webhook", "login"),
    *("_token=", "_token:", '_token"', "_token'", "_token ", "-token=", "-token:", "-token ", '-token"', "-token'"),
    *("token=", '"token"', "'token'", "auth_token", "_key=", "_pass=", "_pat=", "_pat:", "_pwd=", "sig=", "signature="),
    *("hf_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", " sk-", '"sk-', "'sk-", "=sk-", "eyj", "akia", "xoxb-"),
    *("-token\0", "_token\0"),  # words of a command line
    "://",
)
_URL = _TELLING.index("://")
_CREDENTIALS = 200
# So much of a line around it is read.
_BEFORE, _AFTER = 512, 4096
# The value may stand in the lines that follow.
_FOLLOWING = 512
# Where so many bytes around it were seen before, it says nothing new; there are so many looks in a log.
_SAME_BEFORE, _SAME_AFTER = 16, 48
_MOST = 20_000


class Secrets:
    """Learns from the blocks of one log."""

    def __init__(self) -> None:
        self._find = _finder()
        self._seen: set[bytes] = set()

    def learn(self, data: bytes) -> None:
        """Reads a block, which ends at the end of a line."""
        read = 0
        for end, sign in self._find(data.lower()):
            if end <= read or (sign == _URL and data.find(b"@", end, end + _CREDENTIALS) < 0):
                continue
            what = data[max(0, end - _SAME_BEFORE) : end + _SAME_AFTER]
            if what in self._seen or len(self._seen) >= _MOST:
                continue
            self._seen.add(what)
            start = max(0, end - _BEFORE, data.rfind(b"\n", 0, end) + 1)
            newline = data.find(b"\n", end, end + _AFTER)
            read = newline if newline >= 0 else min(len(data), end + _AFTER)
            redact.learn(data[start : read + (_FOLLOWING if newline >= 0 else 0)])


@cache
def _finder() -> Find:
    return finder(_TELLING)
