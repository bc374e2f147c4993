"""Attack 29 as transcripts: all that a card names is there, and waits to be asked."""

from __future__ import annotations

from typing import Any

from corpus import Attack, jwk_set
from crafting import CARD, Json, Key, ec_key, header_of, signed, with_entry
from stage import (
    EVIL,
    EVIL_HOME,
    EVIL_HOST,
    UNTRUSTED,
    Stage,
    tls,
)
from statements import URL


def jku_followed(attack: Attack) -> None:
    """Attack 29: everything that the card names is there, and waits to be asked."""
    stage = Stage(attack)
    pin, by_url = stage.pinned(), stage.by_url()
    key, evil = stage.house.key("card"), ec_key("evil-1")
    theirs = f"{EVIL}/jwks.json"
    # A verifier that follows finds what it needs there, over good TLS.
    lure: Json = {
        "names": {EVIL_HOST: [EVIL_HOME]},
        "servers": {f"{EVIL_HOME}:443": tls(EVIL_HOST)},
    }

    def card(signer: Key, jku: str, **members: Any) -> Json:
        return signed(CARD, signer, header_of(signer, jku=jku, **members))

    for id_, title, document, verdict, code in (
        ("jku", "`jku` names a stranger's key set", card(evil, theirs), UNTRUSTED, "key.unknown"),
        (
            "jku-claimed",
            "The same under the honest name",
            card(evil, theirs, kid=key.kid),
            "invalid",
            "sig.bad",
        ),
        (
            "jku-unprotected",
            "In the unprotected header",
            with_entry(signed(CARD, evil), header={"jku": theirs}),
            UNTRUSTED,
            "key.unknown",
        ),
        (
            "x5u",
            "`x5u` names a stranger's certificate",
            signed(CARD, evil, header_of(evil, x5u=theirs)),
            UNTRUSTED,
            "key.unknown",
        ),
    ):
        for policy, how in ((pin, "pinned"), (by_url, "fetched")):
            answers = {
                URL: stage.said(document, id_),
                theirs: stage.said(jwk_set(evil, evil.called(key.kid)), "theirs"),
            }
            stage.refused(
                f"{id_}-{how}",
                f"{title}; keys are {how}",
                verdict,
                code,
                policy=policy,
                **lure,
                answers=answers,
            )
    elsewhere = card(key, theirs)
    for policy, how in ((pin, "pinned"), (by_url, "fetched")):
        answers = {URL: stage.said(elsewhere, "elsewhere"), theirs: stage.said(jwk_set(evil))}
        stage.honest(
            f"elsewhere-{how}",
            f"The honest key names the stranger's set; keys are {how}",
            policy=policy,
            **lure,
            answers=answers,
        )
    talkative = _talkative()
    answers = {URL: stage.said(signed(talkative, key), "talkative")}
    stage.honest(
        "everything-named",
        "A card that names ten URLs: none of them is asked",
        policy=pin,
        **lure,
        answers=answers,
    )
    unknown = {URL: stage.said(signed(talkative, evil), "talkative-unknown")}
    stage.refused(
        "everything-named-unknown",
        "The same by an unknown key",
        UNTRUSTED,
        "key.unknown",
        policy=by_url,
        **lure,
        answers=unknown,
    )


def _talkative() -> Json:
    """A card that names a stranger wherever a card may name anybody."""
    flow: Json = {"authorizationUrl": f"{EVIL}/authorize", "tokenUrl": f"{EVIL}/token"}
    flow |= {"scopes": {"read": "Reads"}}
    return {
        **CARD,
        "iconUrl": f"{EVIL}/icon.png",
        "documentationUrl": f"{EVIL}/documentation",
        "provider": {"url": f"{EVIL}/about", "organization": "Harbour office"},
        "capabilities": {"streaming": True, "extensions": [{"uri": f"{EVIL}/extension"}]},
        "securitySchemes": {
            "oidc": {
                "openIdConnectSecurityScheme": {
                    "openIdConnectUrl": f"{EVIL}/.well-known/openid-configuration"
                }
            },
            "oauth": {
                "oauth2SecurityScheme": {
                    "flows": {"authorizationCode": flow},
                    "oauth2MetadataUrl": f"{EVIL}/metadata",
                }
            },
        },
        "securityRequirements": [{"schemes": {"oidc": {"list": ["read"]}}}],
    }
