"""Attack 30 as transcripts: every address inside, from the resolver and as a URL spells it."""

from __future__ import annotations

from corpus import Attack, issuer, pinned
from crafting import ORIGIN
from stage import (
    HOME,
    HOST,
    INDETERMINATE,
    Stage,
    at,
    tls,
    turns,
)
from statements import URL

FORBIDDEN = "fetch.forbidden_address"

#: Answers of a resolver that end inside, or nowhere.
INSIDE = (
    ("loopback", "127.0.0.1"),
    ("loopback-last", "127.255.255.254"),
    ("loopback-v6", "::1"),
    ("unspecified", "0.0.0.0"),
    ("this-network", "0.1.2.3"),
    ("unspecified-v6", "::"),
    ("ten", "10.0.0.1"),
    ("ten-last", "10.255.255.255"),
    ("one-seven-two", "172.16.0.1"),
    ("one-seven-two-last", "172.31.255.255"),
    ("one-nine-two", "192.168.1.1"),
    ("shared-space", "100.64.0.1"),
    ("shared-space-last", "100.127.255.255"),
    ("metadata", "169.254.169.254"),
    ("metadata-v6", "fd00:ec2::254"),
    ("metadata-azure", "168.63.129.16"),
    ("link-local-v6", "fe80::1"),
    ("unique-local", "fc00::1"),
    ("site-local", "fec0::1"),
    ("protocols", "192.0.0.8"),
    ("documentation-1", "192.0.2.1"),
    ("documentation-2", "198.51.100.1"),
    ("documentation-3", "203.0.113.1"),
    ("documentation-v6", "2001:db8::1"),
    ("documentation-v6-new", "3fff::1"),
    ("benchmark", "198.18.0.1"),
    ("benchmark-last", "198.19.255.255"),
    ("relay-6to4", "192.88.99.1"),
    ("multicast", "224.0.0.1"),
    ("multicast-last", "239.255.255.255"),
    ("multicast-v6", "ff02::1"),
    ("reserved", "240.0.0.1"),
    ("broadcast", "255.255.255.255"),
    ("discard", "100::1"),
    ("segment-routing", "5f00::1"),
    ("mapped-loopback", "::ffff:127.0.0.1"),
    ("mapped-metadata", "::ffff:169.254.169.254"),
    ("mapped-ten", "::ffff:10.0.0.1"),
    ("compatible-loopback", "::127.0.0.1"),
    ("translated", "::ffff:0:127.0.0.1"),
    ("nat64-loopback", "64:ff9b::127.0.0.1"),
    ("nat64-metadata", "64:ff9b::169.254.169.254"),
    ("nat64-local", "64:ff9b:1::1"),
    ("six-to-four-loopback", "2002:7f00:1::"),
    ("six-to-four-ten", "2002:a00:1::1"),
    ("teredo", "2001:0:7f00:1::1"),
    ("orchid", "2001:20::1"),
)
#: Hosts that are addresses inside, as a URL may spell them and a policy may enrol them.
LITERALS = (
    ("loopback", "127.0.0.1"),
    ("metadata", "169.254.169.254"),
    ("ten", "10.0.0.1"),
    ("loopback-v6", "[::1]"),
    ("unspecified-v6", "[::]"),
    ("mapped", "[::ffff:127.0.0.1]"),
    ("mapped-hex", "[::ffff:7f00:1]"),
    ("nat64", "[64:ff9b::7f00:1]"),
    ("unique-local", "[fd00:ec2::254]"),
    ("link-local-v6", "[fe80::1]"),
)
#: The same addresses as only some parsers read them.
SPELLINGS = (
    ("decimal", "2130706433"),
    ("hex", "0x7f000001"),
    ("hex-short", "0x7f.1"),
    ("octal", "0177.0.0.1"),
    ("octal-long", "0000177.0.0.1"),
    ("short", "127.1"),
    ("three-parts", "127.0.1"),
    ("zero", "0"),
    ("trailing-dot", "127.0.0.1."),
    ("five-parts", "127.0.0.0.1"),
    ("overflow", "127.0.0.256"),
    ("fullwidth", "１２７.0.0.1"),
    ("circled", "①②⑦.⓪.⓪.①"),
    ("ideographic-dot", "127。0。0。1"),
    ("escaped", "127.0.0.%31"),
    ("zone", "[fe80::1%25eth0]"),
    ("v6-unbracketed", "::1"),
    ("v6-leading-zeros", "[0000:0000:0000:0000:0000:0000:0000:00001]"),
    ("v-future", "[v1.127.0.0.1]"),
)
PUBLIC = (
    ("v4", "93.184.215.14"),
    ("v6", "2606:2800:21f::14"),
    ("mapped", "::ffff:93.184.215.14"),
    ("nat64", "64:ff9b::93.184.215.14"),
)


def reached_inside(attack: Attack) -> None:
    """Attack 30: every address inside, from the resolver and as the URL has it."""
    stage = Stage(attack)
    pin = stage.pinned()
    nowhere = {"reached": []}
    for id_, address in INSIDE:
        # Something listens there, with a good certificate and the honest card.
        stage.refused(
            f"resolved-{id_}",
            f"The host has the address {address}",
            INDETERMINATE,
            FORBIDDEN,
            policy=pin,
            names={HOST: [address]},
            servers={at(address): tls()},
            expecting=nowhere,
        )
    enrolled = attack.policy(
        issuer(
            pinned(stage.house.key("card")),
            origins=[ORIGIN, *(f"https://{host}" for id_, host in LITERALS if id_ != "mapped-hex")],
        ),
        name="by-pin-inside.toml",
    )
    for kind, code, hosts in (("literal", FORBIDDEN, LITERALS), ("spelt", "fetch.url", SPELLINGS)):
        for id_, host in hosts:
            url = f"https://{host}/.well-known/agent-card.json"
            stage.refused(
                f"{kind}-{id_}",
                f"The URL has the host {host}",
                INDETERMINATE,
                code,
                url=url,
                policy=enrolled,
                servers={at("127.0.0.1"): tls(), at("::1"): tls()},
                answers={url: stage.said(stage.card)},
                asked=[],
                expecting=nowhere,
            )
    inside = {f"{HOST}": turns([HOME], ["169.254.169.254"])}
    stage.refused(
        "key-set-inside",
        "Only the key set's host is inside",
        INDETERMINATE,
        "trust.no_keys",
        policy=stage.by_url("by-url-elsewhere.toml", "https://keys.example/"),
        names={"keys.example": ["10.0.0.1"]},
        servers={"10.0.0.1:443": tls("keys.example")},
        answers={"https://keys.example/": stage.said(stage.jwks)},
        asked=[URL, "https://keys.example/"],
        expecting={"reached": [at(HOME)]},
    )
    stage.refused(
        "statements-inside",
        "The host moves inside before the statements are asked for",
        INDETERMINATE,
        "trust.no_keys",
        policy=stage.by_keyset(),
        names=inside,
        servers={at("169.254.169.254"): tls()},
        expecting={"reached": [at(HOME)]},
    )
    for id_, address in PUBLIC:
        stage.honest(
            f"public-{id_}",
            f"The host has the address {address}",
            policy=pin,
            names={HOST: [address]},
            servers={at(address): tls()},
            expecting={"reached": [at(address)]},
        )
