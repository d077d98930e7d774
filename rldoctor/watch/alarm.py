"""``--exec`` and ``--webhook``: a command and an address of the user's that hear of every new finding."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import urllib.error
import urllib.request
from email.message import Message
from typing import IO, Any
from urllib.parse import urlsplit

import msgspec

from rldoctor import __version__, redact
from rldoctor.errors import InputError
from rldoctor.facts.deadline import within
from rldoctor.io.streams import progress
from rldoctor.model import Finding

TIME_LIMIT = 60.0
# A run is watched by one thread, which waits for nobody longer than this.
POST_LIMIT = 10.0


def sound(command: str, finding: Finding) -> None:
    """Runs the command in a shell of its own, the finding as JSON on its standard input and in RLDOCTOR_CODE,
    RLDOCTOR_SEVERITY and RLDOCTOR_MESSAGE; text from a log never becomes a part of the command."""
    reported = redact.tree(finding)
    variables = {
        "RLDOCTOR_CODE": reported.code,
        "RLDOCTOR_SEVERITY": reported.severity.value,
        "RLDOCTOR_MESSAGE": " ".join(reported.message.replace("\0", " ").split()),
    }
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **variables},
        start_new_session=True,
    )
    try:
        process.communicate(msgspec.json.encode(reported), timeout=TIME_LIMIT)
    except BaseException as reason:  # Ctrl-C among them
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(reason, subprocess.TimeoutExpired):
            raise
        progress(f"--exec was ended after {TIME_LIMIT:.0f} s: {command}")
        return
    if process.returncode != 0:
        progress(f"--exec ended with status {process.returncode}: {command}")


def address(url: str) -> str:
    """The host of a webhook, which is all of it that is ever printed: the path of many is a key.

    Raises :class:`InputError` for what is no http address."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or not url.isascii() or not url.isprintable() or " " in url:
        raise InputError("--webhook: an address that begins with http:// or https:// is expected")
    return f"{parts.scheme}://{host}"


def post(url: str, run: str, finding: Finding) -> None:
    """Sends the finding as JSON: ``text`` and ``content``, the line that chat programs show, ``run`` and ``finding``.
    Redirects are not followed; what goes wrong is said and ends nothing."""
    reported = redact.tree(finding)
    line = redact.text(f"{run}: {reported.severity.value} {reported.code}: {reported.message}")
    # Text from a log calls nobody (Discord) and is no link or mention (Slack).
    shown = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    message = {"text": shown, "content": line[:2000], "allowed_mentions": {"parse": []}}
    body = msgspec.json.encode({**message, "run": redact.text(run), "finding": reported})
    request = urllib.request.Request(
        url, body, {"Content-Type": "application/json", "User-Agent": f"rldoctor/{__version__}"}, method="POST"
    )
    try:
        within(POST_LIMIT, lambda: _OPENER.open(request, timeout=POST_LIMIT).close())
    except urllib.error.HTTPError as error:
        progress(f"the webhook at {address(url)} answered {error.code}: {finding.code} was not delivered")
    except (OSError, TimeoutError, ValueError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or error
        progress(f"the webhook at {address(url)} did not take {finding.code}: {redact.text(str(why))}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Any:
        """A finding goes where the user sent it, and nowhere else."""
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)
