"""A route that is switched off is a 404; the others stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from served import serve
from stating import ISSUED, KEYSET, ONE, RELEASE, document

from cardsign.jose.jwks import JwkSet
from cardsign.keys.drafts import ReleasePlan, card_digest
from cardsign.publish.checks import Issued
from cardsign.publish.publication import Documents, publish_generation
from cardsign.server.settings import read_server_settings
from tests.keys.issuing import NOW, URL, key, released
from tests.support import PORTABLE, dump
from tests.support import signed as signed_card

CARD = "/.well-known/agent-card.json"
LEGACY = "/.well-known/agent.json"
JWKS = "/.well-known/jwks.json"
METADATA = "/.well-known/oauth-protected-resource/a2a"
SWITCHES = {
    "legacy = false": (LEGACY,),
    'catalogue = ""': ("/a2a/agents",),
    "page = false": ("/",),
}
STAYING = (CARD, JWKS, KEYSET, RELEASE, METADATA, "/healthz", "/readyz")
PATHS = (*STAYING, *(path for paths in SWITCHES.values() for path in paths))


@pytest.fixture(scope="module")
def publication(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A card with OpenID Connect, and the issuer's statements."""
    directory = tmp_path_factory.mktemp("switches") / "public"
    url = "https://login.example/.well-known/openid-configuration"
    schemes = {"sso": {"openIdConnectSecurityScheme": {"openIdConnectUrl": url}}}
    card = dump(
        signed_card(
            {**PORTABLE, "securitySchemes": schemes, "securityRequirements": []}, key("card")
        )
    )
    release = released(ONE, None, ReleasePlan(((URL, card_digest(card)),)))
    publish_generation(
        Documents(
            card, JwkSet.of([key("card").public]), issued=Issued(ISSUED.keysets, document(release))
        ),
        directory,
        now=NOW,
    )
    return directory


def answered(publication: Path, folder: Path, line: str) -> set[str]:
    """What answers with these settings."""
    (folder / "serve.toml").write_text(f"format = 1\n{line}\n")
    settings = read_server_settings(folder / "serve.toml")
    client = serve(publication, settings, now=NOW.timestamp)
    html = {"Accept": "text/html"}
    return {path for path in PATHS if client.get(path, headers=html).status_code == 200}


def test_every_route_answers(publication: Path, tmp_path: Path) -> None:
    """As long as nothing is switched off; else the table below would prove nothing."""
    assert answered(publication, tmp_path, "") == set(PATHS)


@pytest.mark.parametrize(("line", "paths"), SWITCHES.items(), ids=SWITCHES)
def test_a_route_that_is_off_is_not_there(
    line: str, paths: tuple[str, ...], publication: Path, tmp_path: Path
) -> None:
    """And it alone."""
    assert answered(publication, tmp_path, line) == set(PATHS) - set(paths)


def test_no_card_answers_where_none_is_enabled(publication: Path, tmp_path: Path) -> None:
    """Nor does anything else of the agent; the host itself is well."""
    (tmp_path / "serve.toml").write_text("format = 1\nenabled = false\n")
    client = serve(publication, read_server_settings(tmp_path / "serve.toml"))
    assert {path for path in PATHS if client.get(path).status_code == 200} == {
        "/healthz",
        "/a2a/agents",
    }
