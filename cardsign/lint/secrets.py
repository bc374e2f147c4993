"""What must not leave the house: keys, tokens, passwords, internal addresses.

A card is public. The patterns are those of the usual detectors of secrets; nothing is asked on a
network, and no list inside the card can excuse a finding.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from cardsign.card.members import Spot
from cardsign.lint.rules import Example, rule

_NAME: Final = "/description"

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
    "a signed JSON Web Token": re.compile(
        r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{20,}"),
}
# fmt: on
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_SECRET_NAME: Final = re.compile(
    r"(?:^|_)(?:password|passwd|pwd|secret|client_?secret|api_?key|private_?key|access_?token|"
    r"auth_?token|refresh_?token|token|secret_?key)$"
)
_QUERY_NAME: Final = re.compile(
    r"(?:.*[_-])?(?:token|key|secret|password|sig|signature|access_token|api_?key)", re.IGNORECASE
)
# What stands for a secret, and is none.
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
    """Whether a member of that name holds a secret, by the words of the name."""
    return bool(_SECRET_NAME.search(_snake(name)))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda m: "_" + m[0], name).replace("-", "_").lower()


def _text(spot: Spot) -> str:
    return spot.value if isinstance(spot.value, str) else ""


@rule(
    "secrets.private-key",
    "error",
    summary="A private key stands in the card.",
    why="Anyone who has the card can sign in the owner's name.",
    fix="Remove it, and revoke the key: it is known now.",
    reference="RFC 7518 6.2.2",
    bad=Example({"/key": {"kty": "oct", "k": "c2VjcmV0"}}),
    good=Example({"/key": {"kty": "EC", "x": "AA", "y": "AA"}}),
)
def private_key(spot: Spot) -> str | None:
    """As PEM, or as a JWK with its private member."""
    if _PRIVATE_KEY.search(_text(spot)):
        return "a private key in PEM"
    value = spot.value
    if isinstance(value, dict) and "kty" in value and {"d", "k", "p"} & value.keys():
        return "a JSON Web Key with its private member"
    return None


@rule(
    "secrets.token",
    "error",
    summary="A credential of a known form stands in the card.",
    why="A card is public, and is copied by registries and caches.",
    fix="Remove it, and revoke it: it is known now.",
    reference="A2A 0.3 5.4",
    bad=Example({_NAME: "AKIA" + "IOSFODNN7EXAMPLE"}),
    good=Example({_NAME: "Set AWS_ACCESS_KEY_ID"}),
)
def token(spot: Spot) -> str | None:
    """By the form that its issuer gives it."""
    text = _text(spot)
    if len(text) < 16:
        return None
    return " and ".join(name for name, form in _TOKENS.items() if form.search(text)) or None


@rule(
    "secrets.password",
    "error",
    summary="A member with the name of a secret holds a text that looks like one.",
    why="A card is public, and is copied by registries and caches.",
    fix="Remove it. A card says how to authenticate, never with what.",
    reference="A2A 0.3 5.4",
    bad=Example({"/clientSecret": "qv81-Xw0-plo9"}),
    good=Example({"/clientSecret": "<your secret>"}),
)
def password(spot: Spot) -> str | None:
    """Letters and digits without white space, under such a name; no name of A2A's is one."""
    text = _text(spot)
    if spot.name is None or spot.field or spot.old_field or not is_secret_name(spot.name):
        return None
    if len(text) < 8 or re.search(r"\s", text) or _STAND_IN.fullmatch(text):
        return None
    is_url_or_word = "://" in text or not re.search(r"\d", text)
    return None if is_url_or_word else f"{spot.name[:40]} holds a text"


@rule(
    "secrets.url",
    "error",
    summary="A URL holds a credential.",
    why="A card is public; and URLs end up in logs.",
    fix="Remove the user and password, or the parameter, and revoke what stood there.",
    reference="RFC 9110 4.2.4",
    bad=Example({"/documentationUrl": "https://tides.example/d?api_key=qv81Xw0plo9"}),
    good=Example({"/documentationUrl": "https://tides.example/d?page=2"}),
)
def url(spot: Spot) -> str | None:
    """A password, a user over HTTP, or a parameter of query or fragment named as a secret."""
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


@rule(
    "secrets.internal-address",
    "warning",
    summary="An address of a private network, or of this machine.",
    why="Nobody outside can call it, and it tells how the network is built. Clients that follow "
    "it can be led to their own machines.",
    fix="Name the public address. A card for a company network alone needs a waiver.",
    reference="RFC 1918; A2A 0.3 5.4; row F10",
    bad=Example({"/supportedInterfaces/0/url": "https://10.1.2.3/a2a"}),
    good=Example({"/supportedInterfaces/0/url": "https://192.0.2.3/a2a"}),
)
def internal_address(spot: Spot) -> str | None:
    """In a URL or by itself, in any text."""
    text = _text(spot)
    for found in _IN_TEXT.finditer(text) if text else ():
        host = (found["host"] or found["address"]).lower().strip("[]").rstrip(".")
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


@rule(
    "secrets.local-path",
    "warning",
    summary="A path of somebody's machine.",
    why="It tells user names and how machines are set up, and means nothing to a caller.",
    fix="Remove it.",
    bad=Example({_NAME: "see file:///srv/agent/README"}),
    good=Example({_NAME: "see /docs/agent"}),
)
def local_path(spot: Spot) -> str | None:
    """Home folders, drives, file URLs."""
    return "a path of a machine" if _LOCAL_PATH.search(_text(spot)) else None


@rule(
    "secrets.internal-member",
    "error",
    summary="A setting of the agent that is no business of its callers.",
    why="It tells an attacker what is allowed, what is guarded, or what the agent was told.",
    fix="Remove it. Only members of A2A belong into a card.",
    reference="row F26, L3, L23",
    bad=Example({"/deniedTools": ["shell"]}),
    good=Example({"/toolsOffered": ["shell"]}),
)
def internal_member(spot: Spot) -> str | None:
    """By its name, wherever it stands."""
    if spot.name is None or spot.field or spot.old_field or not spot.value:
        return None
    folded = re.sub(r"[_-]", "", spot.name).lower()
    return f"{spot.name[:40]} is internal" if folded in _INTERNAL_NAMES else None
