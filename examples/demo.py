"""The whole story on this machine: sign, publish, serve, verify, attack; then rotate and revoke.

Run by ``make demo``. Everything happens in a temporary folder and on 127.0.0.1; nothing stays.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from rotation import keys_that_change
from steps import cardsign, expect, say, serving, tell

from cardsign import Policy, verify_card

CARDS = Path(__file__).parent / "cards"
#: The id of the partners, whom the extended card is for; random, so that it cannot be guessed.
PARTNERS = secrets.token_hex(8)


def main() -> None:
    """Tell the story; any step that does not end as told stops it with an error."""
    with tempfile.TemporaryDirectory(prefix="cardsign-demo-") as folder:
        home = Path(folder)
        os.environ["CARDSIGN_PASSPHRASE"] = secrets.token_urlsafe(16)
        for kind in ("CONFIG", "STATE", "CACHE"):
            os.environ[f"XDG_{kind}_HOME"] = folder
        for variable in ("CARDSIGN_KEYSTORE", "CARDSIGN_TRUST"):
            os.environ.pop(variable, None)
        enter(home / "simple")
        sign_and_publish()
        create_token()
        with serving("pub", "--token-file", "tokens.txt") as address:
            meet_as_a_peer(address)
            ask_for_the_extended_card(address)
            attack(address)
        let_the_official_sdk_verify()
        keys_that_change(enter(home / "harbour"), enter(home / "peer"), CARDS / "harbour.json")
        os.chdir("/")
    tell("That is all. Everything was in a temporary folder, which is gone now.")


def enter(folder: Path) -> Path:
    """Go on in a new folder."""
    folder.mkdir()
    os.chdir(folder)
    return folder


def sign_and_publish() -> None:
    """What Weather Desk does when it releases a card."""
    tell("1. Weather Desk makes two keys, ES256 and RS256, and signs its two cards with both")
    say("The public card is for everyone. The extended card is for partners who log in.")
    cardsign("keys", "generate")
    cardsign("keys", "generate", "--alg", "RS256")
    for card in ("weather", "weather-extended"):
        shutil.copy(CARDS / f"{card}.json", f"{card}-unsigned.json")
    cardsign("sign", "weather-unsigned.json", "-o", "weather.json")
    sign_extended = ("sign", "weather-extended-unsigned.json", "-o", "weather-extended.json")
    in_a_month = f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%d}"
    extended = ("--extended", PARTNERS, "--seq", "1", "--expires", in_a_month)
    cardsign(*sign_extended, *extended, only=("cardsign: signed",))
    tell("2. Weather Desk publishes both cards, and the key set that verifies them")
    cardsign("keys", "jwks", "-o", "jwks.json")
    cardsign(
        "publish", "weather.json", "--extended", f"{PARTNERS}=weather-extended.json", "-o", "pub"
    )


def create_token() -> None:
    """What a partner is given; the server keeps only a digest of it."""
    tokens = ("tokens", "create", "--audience", PARTNERS, "--token-file", "tokens.txt")
    Path("token").write_text(cardsign(*tokens, quiet=True))


def meet_as_a_peer(address: str) -> None:
    """What a developer does who was given jwks.json by Weather Desk."""
    tell("3. A peer has the key set from Weather Desk. It fetches the card and verifies it")
    cardsign("verify", address, "--jwks", "jwks.json", "--insecure-loopback-http")


def ask_for_the_extended_card(address: str) -> None:
    """The extended card is for authenticated callers only."""
    tell("4. The extended card is refused without a token")
    url = f"{address}/extendedAgentCard"
    refused = httpx.get(url)
    say(f"GET {url}: {refused.status_code}, {refused.headers['www-authenticate']}")
    expect(refused.status_code == 401, "the extended card is guarded")
    tell("   With a token it is served, and it is signed too")
    token = Path("token").read_text().strip()
    answer = httpx.get(url, headers={"Authorization": f"Bearer {token}"})
    public = httpx.get(f"{address}/.well-known/agent-card.json").json()
    more = {skill["id"] for skill in answer.json()["skills"]} - {s["id"] for s in public["skills"]}
    say(f"{answer.status_code}, skills that the public card lacks: {sorted(more)}")
    expect(answer.status_code == 200 and bool(more), "the extended card says more")
    Path("received-extended.json").write_bytes(answer.content)
    policy = Policy.from_jwks(Path("jwks.json").read_bytes())
    verify_card(answer.content, policy=policy, audience=PARTNERS)
    say("verified in Python: trusted as the extended card of the partners")
    tell("   It does not pass for the public card")
    cardsign("verify", "received-extended.json", "--jwks", "jwks.json", status=1)


def attack(address: str) -> None:
    """Somebody between Weather Desk and its peer changes the card."""
    card: dict[str, Any] = httpx.get(f"{address}/.well-known/agent-card.json").json()
    tell("5. An attacker deletes the login requirement from the card")
    del card["securityRequirements"]
    Path("no-login.json").write_text(json.dumps(card))
    cardsign("verify", "no-login.json", "--jwks", "jwks.json", status=1)
    tell("6. An attacker changes one byte of the agent's URL")
    changed = Path("weather.json").read_bytes().replace(b"weather.example", b"weathen.example", 1)
    Path("one-byte.json").write_bytes(changed)
    cardsign("verify", "one-byte.json", "--jwks", "jwks.json", status=1)


def let_the_official_sdk_verify() -> None:
    """The same card under the A2A project's own Python SDK, if it is installed."""
    tell("7. The official a2a-sdk verifies the same three cards")
    try:
        from a2a.client.card_resolver import parse_agent_card
        from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
        from jwt import PyJWK
    except ImportError:
        say("Left out: a2a-sdk is not installed here. To see it: pip install '.[a2a]'")
        return
    keys = {key["kid"]: PyJWK(key) for key in json.loads(Path("jwks.json").read_text())["keys"]}
    verifier = create_signature_verifier(lambda kid, jku: keys[str(kid)], ["ES256", "RS256"])
    for name in ("weather.json", "one-byte.json", "no-login.json"):
        try:
            verifier(parse_agent_card(json.loads(Path(name).read_text())))
            verdict = "accepted"
        except InvalidSignaturesError:
            verdict = "refused"
        say(f"a2a-sdk: {verdict:<9} {name}")
        expect(verdict == "refused" if name == "one-byte.json" else verdict == "accepted", name)
    say("a2a-sdk accepts the card without the login requirement: its signature never covered it.")


if __name__ == "__main__":
    main()
