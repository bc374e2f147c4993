"""Rules about secrets: keys, tokens, passwords, internal addresses.

The patterns are those of the usual secret scanners. Nothing is fetched, and nothing inside a card
can suppress a finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from cardsign.lint.rules import Breach, LintedCard, Spot

# fmt: off
_TOKENS: Final[dict[str, re.Pattern[str]]] = {
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a GitHub token": re.compile(r"\b(?:gh[opsur]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60,})"),
    "a GitLab token": re.compile(r"\bglpat-[A-Za-z0-9_-]{20}"),
    "a Slack token": re.compile(r"\bxox[abprs]-[0-9A-Za-z-]{20,}"),
    "a Stripe key": re.compile(r"\b[rs]k_live_[0-9A-Za-z]{20,}"),
    "an OpenAI or Anthropic key": re.compile(r"\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}"),
    "a Google API key": re.compile(r"\bAIza[0-9A-Za-z_-]{35}"),
    "an npm token": re.compile(r"\bnpm_[A-Za-z0-9]{36}"),
    "a PyPI token": re.compile(r"\bpypi-AgEI[A-Za-z0-9_-]{50,}"),
    "a SendGrid key": re.compile(r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    "a Twilio key": re.compile(r"\bSK[0-9a-f]{32}\b"),
    "an Azure storage key": re.compile(r"AccountKey=[A-Za-z0-9+/=]{60,}"),
    # The first part is bounded where it may begin within a word, so that the time stays linear.
    "a signed JSON Web Token": re.compile(
        r"(?:(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+|(?<=-)eyJ[A-Za-z0-9_-]{8,200}+)"
        r"\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{20}"),
}
# fmt: on
_MIN_TOKEN: Final = 16  # characters
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_SECRET_NAME: Final = re.compile(
    r"(?:^|_)(?:password|passwd|pwd|secret|client_?secret|api_?key|private_?key|access_?token|"
    r"auth_?token|refresh_?token|token|secret_?key)$"
)
_QUERY_NAME: Final = re.compile(
    r"(?:.*[_-])?(?:token|key|secret|password|sig|signature|access_token|api_?key)", re.IGNORECASE
)
# Placeholders for secrets.
_STAND_IN: Final = re.compile(
    r"[<{$\[].*|.*\.\.\.|x{3,}|\*{3,}|(?:your|my|the|optional|required|none|null|example|bearer|"
    r"api[-_ ]?key|token|true|false|header|query|cookie)\b.*",
    re.IGNORECASE,
)
_INTERNAL_HOST: Final = re.compile(
    r"localhost|.*\.(?:local|internal|intranet|lan|corp|home|localdomain|svc|cluster\.local)"
)
_IN_TEXT: Final = re.compile(
    r"\bhttps?://(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)|"
    r"(?<![\d.])(?P<address>(?:10|127|192\.168|172\.(?:1[6-9]|2\d|3[01])|169\.254)"
    r"(?:\.\d{1,3}){2,3})(?![\d.])"
)
_LOCAL_PATH: Final = re.compile(r"file:///|(?:^|[\s\"'(=])(?:/(?:home|Users|root)/|[A-Z]:\\)\S")
_INTERNAL_NAMES: Final = frozenset(
    {"egressallowlist", "allowedegress", "egressdomains", "deniedtools", "guardrails"}
    | {"systemprompt", "secretref", "trusthints", "promptref"}
)


def is_secret_name(name: str) -> bool:
    """Return whether the name of a member suggests a secret."""
    words = re.sub(r"(?<=[a-z0-9])[A-Z]", lambda m: "_" + m[0], name).replace("-", "_").lower()
    return bool(_SECRET_NAME.search(words))


def _text(spot: Spot) -> str:
    return spot.value if isinstance(spot.value, str) else ""


def private_key(spot: Spot) -> str | None:
    """Say that a text or object is a private key, in PEM or as a JWK."""
    if _PRIVATE_KEY.search(_text(spot)):
        return "a private key in PEM"
    value = spot.value
    is_private = isinstance(value, dict) and "kty" in value and {"d", "k", "p"} & value.keys()
    return "a JSON Web Key with its private member" if is_private else None


def token(spot: Spot) -> str | None:
    """Say which tokens a text holds, by the forms of their issuers."""
    text = _text(spot)
    tokens = (name for name, form in _TOKENS.items() if form.search(text))
    return " and ".join(tokens) if len(text) >= _MIN_TOKEN else None


def password(spot: Spot) -> str | None:
    """Say that a member, which is none of A2A's, has the name of a secret and holds one."""
    text = _text(spot)
    if spot.name is None or spot.field or spot.old_field or not is_secret_name(spot.name):
        return None
    if len(text) < 8 or not re.search(r"\d", text) or re.search(r"\s|://", text):
        return None
    return None if _STAND_IN.fullmatch(text) else f"{spot.name[:40]} holds a text"


def url(spot: Spot) -> str | None:
    """Say that a URL holds a password, a user name, or a parameter named as a secret."""
    text = _text(spot)
    if "://" not in text or re.search(r"\s", text):
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    if parts.password:
        return "a user and password"
    if parts.username and parts.scheme in ("http", "https", "ws", "wss"):
        return None if _STAND_IN.fullmatch(unquote(parts.username)) else "a user name, or a token"
    for name, value in parse_qsl(f"{parts.query}&{parts.fragment.rpartition('?')[2]}"):
        if _QUERY_NAME.fullmatch(name) and len(value) >= 8 and not _STAND_IN.fullmatch(value):
            return f"the parameter {name[:40]}"
    return None


def internal_address(spot: Spot) -> str | None:
    """Say which host or address in a text cannot be reached from outside."""
    text = _text(spot)
    for match in _IN_TEXT.finditer(text) if text else ():
        host = (match["host"] or match["address"]).lower().strip("[]").rstrip(".")
        if _is_internal(host):
            return f"{host[:80]} is not reachable from outside"
    return None


def _is_internal(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return bool(_INTERNAL_HOST.fullmatch(host))
    documentation = str(address).startswith(("192.0.2.", "198.51.100.", "203.0.113.", "2001:db8"))
    return not documentation and (address.is_private or address.is_link_local)


def local_path(spot: Spot) -> str | None:
    """Say that a text names a home folder, a drive or a file URL."""
    return "a path of a machine" if _LOCAL_PATH.search(_text(spot)) else None


def internal_member(spot: Spot) -> str | None:
    """Say that a member is internal, by its name."""
    if spot.name is None or spot.field or spot.old_field or not spot.value:
        return None
    folded = re.sub(r"[_-]", "", spot.name).lower()
    return f"{spot.name[:40]} is internal" if folded in _INTERNAL_NAMES else None


_FINDERS: Final = {
    "secrets.private-key": private_key,
    "secrets.token": token,
    "secrets.password": password,
    "secrets.url": url,
    "secrets.internal-address": internal_address,
    "secrets.local-path": local_path,
    "secrets.internal-member": internal_member,
}


def secrets(subject: LintedCard) -> Iterator[Breach]:
    """Yield the values that are secret or internal, and the members that hold such."""
    for spot in subject.spots:
        for code, find in _FINDERS.items():
            if message := find(spot):
                yield code, spot.tokens, message
