"""The way into a Ray that runs: whether something answers at its address, whether it takes this process, and what it
was started with. Ray itself asks for minutes where nothing answers, ends the process where a token is missing, and says
of a refusal that it failed to connect."""

from __future__ import annotations

import json
import os
import socket

from report import emit

# The scheme of Ray's client.
CLIENT = "ray://"
CONNECT = 5.0
TIME_LIMIT = 10
# What the head wrote of itself: ray/_private/ray_constants.py (KV_NAMESPACE_CLUSTER).
METADATA, CLUSTER = b"CLUSTER_METADATA", b"cluster"
_KEPT = "RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"


def found(address: str) -> str:
    """The head's own address: ``auto`` is looked up as Ray does it, which then uses the token that it finds."""
    if address not in ("auto", "local"):
        return address
    from ray._private import services

    running = services.find_gcs_addresses()
    named = os.environ.get("RAY_ADDRESS", "") not in ("", "auto")
    if len(running) > 1 and not named and services.find_bootstrap_address(None) is None:
        listed = ", ".join(sorted(running))
        emit("several", sorted(running))
        raise ConnectionError(f"several Rays run on this machine, and auto takes any of them: name one ({listed})")
    try:
        known: str | None = services.canonicalize_bootstrap_address("auto")
    except ConnectionError:
        known = None
    if known is None:
        raise ConnectionError("no Ray runs on this machine")
    try:
        from ray._private.authentication import authentication_token_setup

        authentication_token_setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    except (ImportError, AttributeError, TypeError):  # a release that does not
        pass
    return known


def reach(address: str) -> None:
    """Raises :class:`ConnectionError` where nothing answers, or something that does not speak as Ray's servers do."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal():
        if address.startswith(CLIENT):
            return  # a name alone has the usual port
        raise ConnectionError(f"{address} is no address of a Ray: HOST:PORT is expected, or auto")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT) as connection:
            speaks = os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true") or _speaks(connection)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", "") or error
        raise ConnectionError(f"nothing answers at {host}:{port} ({why}): name the head's own address") from None
    if not speaks:
        raise ConnectionError(f"what answers at {host}:{port} is no Ray head, or one that wants TLS (RAY_USE_TLS)")


def _speaks(connection: socket.socket) -> bool:
    """Whether the other side greets as HTTP/2 does, which gRPC rests on: RFC 9113, 3.4."""
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
    try:
        return connection.recv(9)[3:4] == b"\x04"
    except OSError:
        return False


def started(address: str) -> dict[str, str]:
    """With which releases the head at its own address was started. Raises :class:`ConnectionError` in a line where it
    is no head, or does not take this process."""
    try:
        from ray._raylet import GcsClient
    except ImportError:  # an early release
        return {"ray": "", "python": ""}
    _token()
    try:
        reported = GcsClient(address=address).internal_kv_get(METADATA, namespace=CLUSTER, timeout=TIME_LIMIT)
    except Exception as error:
        raise ConnectionError(_refused(error, address)) from None
    said = json.loads(reported) if reported else {}
    return {name: str(said.get(f"{name}_version") or "") for name in ("ray", "python")}


def _token() -> None:
    """Where a token is asked of Ray and there is none, Ray ends the process."""
    if _mode() != "token":
        return
    if not _knows_tokens():
        return
    from ray._raylet import AuthenticationTokenLoader

    try:
        there = AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True)
    except Exception as error:
        raise ConnectionError(str(error).partition(". ")[0]) from None
    if not there:
        raise ConnectionError(f"RAY_AUTH_MODE is token, and there is no token in {_KEPT}")


def _knows_tokens() -> bool:
    import ray._raylet

    return hasattr(ray._raylet, "AuthenticationTokenLoader")


def _mode() -> str:
    return os.environ.get("RAY_AUTH_MODE", "").lower()


def _refused(error: Exception, address: str) -> str:
    if "InvalidAuthToken" in str(error):
        if not _knows_tokens():
            return f"the cluster at {address} asks for a token, of which this Ray knows nothing: it came with 2.52"
        if _mode() == "token":
            return f"the cluster at {address} does not take the token that is found in {_KEPT}"
        return (
            f"the cluster at {address} asks for a token, and RAY_AUTH_MODE is not token here: Ray refuses to join; set "
            f"it, with the cluster's token in {_KEPT}"
        )
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return f"what answers at {address} is no Ray head, or one of another release ({first[:200]})"
