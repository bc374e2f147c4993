"""Attacks 34 and 35 as transcripts: URLs that are no https, or not what they seem."""

from __future__ import annotations

from corpus import Corpus, issuer, pinned
from crafting import ORIGIN
from stage import EVIL_HOME, EVIL_HOST, HOME, HOST, INDETERMINATE, Stage, tls
from statements import URL

PATH = "/.well-known/agent-card.json"


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_schemes, _spellings):
        make(corpus)


def _schemes(corpus: Corpus) -> None:
    attack = corpus.attack(
        34,
        "schemes",
        "A URL that is not https",
        "What opens any URL reads files, speaks to a mail server in the words of the attacker, or "
        "takes a card that everybody on the way has had in his hands. Only https is asked.",
    )
    stage = Stage(attack)
    pin = stage.pinned()
    attack.standard = pin
    for id_, url in (
        ("http", f"http://{HOST}{PATH}"),
        ("http-443", f"http://{HOST}:443{PATH}"),
        ("http-loopback", f"http://127.0.0.1{PATH}"),
        ("http-metadata", "http://169.254.169.254/latest/meta-data/"),
        ("file", "file:///etc/passwd"),
        ("file-host", f"file://{HOST}{PATH}"),
        ("ftp", f"ftp://{HOST}{PATH}"),
        ("gopher", f"gopher://{HOST}:25/_HELO"),
        ("dict", f"dict://{HOST}:6379/INFO"),
        ("ldap", f"ldap://{HOST}/o=x"),
        ("unix", f"http+unix://%2Frun%2Fdocker.sock{PATH}"),
        ("websocket", f"wss://{HOST}{PATH}"),
        ("jar", f"jar:https://{HOST}/a.zip!{PATH}"),
        ("view-source", f"view-source:https://{HOST}{PATH}"),
        ("data", 'data:application/json,{"name":"x"}'),
        ("javascript", "javascript:alert(1)"),
        ("blob", f"blob:https://{HOST}/1"),
        ("about", "about:blank"),
        ("none", f"//{HOST}{PATH}"),
        ("none-at-all", PATH),
        ("empty", ""),
    ):
        stage.refused(
            id_,
            f"`{url}`",
            INDETERMINATE,
            "fetch.url",
            url=url,
            policy=pin,
            asked=[],
            servers={f"{HOME}:80": {}, "127.0.0.1:80": {}},
            answers={f"http://{HOST}{PATH}": stage.said(stage.card)},
            expecting={"reached": []},
        )
    stage.honest("https", "The same by https", policy=pin)


def _spellings(corpus: Corpus) -> None:
    attack = corpus.attack(
        35,
        "spellings",
        "A URL that two readers read differently",
        "If who checks a URL and who asks for it take different parts of it for the host, the "
        "check is worth nothing. One strict grammar refuses what readers disagree about, before "
        "a name is asked for.",
    )
    stage = Stage(attack)
    key = stage.house.key("card")
    pin = attack.policy(
        issuer(pinned(key), origins=[ORIGIN, f"{ORIGIN}:8443", "https://xn--tid-bma.example"]),
        name="by-pin.toml",
    )
    attack.standard = pin
    stranger = {
        "names": {EVIL_HOST: [EVIL_HOME]},
        "servers": {f"{EVIL_HOME}:443": tls(EVIL_HOST, HOST)},
    }
    for id_, title, url in (
        ("userinfo", "A user's name", f"https://me@{HOST}{PATH}"),
        ("password", "A name and a password", f"https://me:secret@{HOST}{PATH}"),
        (
            "host-as-user",
            "Our host as a user's name elsewhere",
            f"https://{HOST}@{EVIL_HOST}{PATH}",
        ),
        ("two-at", "Two hosts, two `@`", f"https://a@{HOST}@{EVIL_HOST}{PATH}"),
        ("backslash", "A backslash", f"https://{EVIL_HOST}\\@{HOST}{PATH}"),
        ("backslash-slash", "Backslashes for slashes", f"https:\\\\{HOST}{PATH}"),
        ("backslash-path", "A backslash in the path", f"{ORIGIN}\\.well-known\\agent-card.json"),
        (
            "fragment-at",
            "A fragment that looks like userinfo",
            f"https://{EVIL_HOST}#@{HOST}{PATH}",
        ),
        ("query-at", "A query that looks like userinfo", f"https://{EVIL_HOST}?@{HOST}\\{PATH}"),
        ("escaped-slash", "An escaped slash in userinfo", f"https://{EVIL_HOST}%2f@{HOST}{PATH}"),
        ("escaped-at", "An escaped `@`", f"https://{EVIL_HOST}%40{HOST}{PATH}"),
        ("escaped-host", "An escaped letter in the host", f"https://tides%2eexample{PATH}"),
        ("tab", "A tab in the host", f"https://tides.\texample{PATH}"),
        ("newline", "A line break in the host", f"https://tides.exa\nmple{PATH}"),
        ("carriage-return", "A header in the path", f"{URL}\r\nX-Secret: 1"),
        ("space-before", "A space before it", f" {URL}"),
        ("space-behind", "A space behind it", f"{URL} "),
        ("space-inside", "A space in the path", f"{ORIGIN}/agent card.json"),
        ("null", "A null character", f"https://{HOST}\0.{EVIL_HOST}{PATH}"),
        ("trailing-dot", "A dot behind the host", f"https://{HOST}.{PATH}"),
        ("two-dots", "Two dots in the host", f"https://tides..example{PATH}"),
        ("upper-case-host", "The host in capitals", f"https://TIDES.EXAMPLE{PATH}"),
        ("upper-case-scheme", "The scheme in capitals", f"HTTPS://{HOST}{PATH}"),
        ("one-slash", "One slash", f"https:/{HOST}{PATH}"),
        ("three-slashes", "Three slashes", f"https:///{HOST}{PATH}"),
        ("no-host", "No host", f"https://{PATH}"),
        ("port-zero", "Port 0", f"{ORIGIN}:0{PATH}"),
        ("port-high", "Port 65536", f"{ORIGIN}:65536{PATH}"),
        ("port-zeros", "A port with zeros before it", f"{ORIGIN}:00443{PATH}"),
        ("port-empty", "A colon and no port", f"{ORIGIN}:{PATH}"),
        ("port-sign", "A port with a sign", f"{ORIGIN}:+443{PATH}"),
        ("fragment", "A fragment", f"{URL}#card"),
        ("dots", "Dot segments", f"{ORIGIN}/agents/..{PATH}"),
        ("escaped-dots", "Escaped dot segments", f"{ORIGIN}/agents/%2e%2e{PATH}"),
        (
            "escaped-segment",
            "An escaped slash in the path",
            f"{ORIGIN}/.well-known%2fagent-card.json",
        ),
        ("bad-escape", "A per cent sign that escapes nothing", f"{ORIGIN}/agent%zz.json"),
        ("unicode-host", "A host that is not in ASCII", f"https://tidé.example{PATH}"),
        ("fullwidth-host", "A host in letters that fold to ASCII", f"https://ｔides.example{PATH}"),
        ("fullwidth-dot", "A full stop of another script", f"https://tides。example{PATH}"),
        ("soft-hyphen", "A soft hyphen in the host", f"https://ti\u00addes.example{PATH}"),
        ("zero-width", "A zero-width space in the host", f"https://tides\u200b.example{PATH}"),
        ("underscore", "An underscore in the host", f"https://ti_des.example{PATH}"),
        ("long-label", "A label of 64 letters", f"https://{'a' * 64}.example{PATH}"),
        ("long-host", "A host of 254 characters", f"https://{'a.' * 123}example0{PATH}"),
        ("long", "A URL of 3,000 characters", f"{ORIGIN}/{'a' * 3000}"),
    ):
        stage.refused(
            id_,
            title,
            INDETERMINATE,
            "fetch.url",
            url=url,
            policy=pin,
            asked=[],
            **stranger,
            expecting={"reached": []},
        )
    stage.honest("plain", "The URL", policy=pin)
    default = f"https://{HOST}:443{PATH}"
    stage.honest("default-port", "With the default port", url=default, policy=pin)
    for id_, title, host, url in (
        ("other-port", "Another port that the policy names", HOST, f"{ORIGIN}:8443{PATH}"),
        (
            "punycode",
            "A name of another script, as DNS has it",
            "xn--tid-bma.example",
            f"https://xn--tid-bma.example{PATH}",
        ),
    ):
        stage.honest(
            id_,
            title,
            url=url,
            policy=pin,
            names={host: [HOME]},
            asked=[url],
            servers={f"{HOME}:8443": tls(), f"{HOME}:443": tls(HOST, host)},
            answers={url: stage.said(stage.card)},
        )
