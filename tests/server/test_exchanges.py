r"""Requests to a server and its answers, each a story in ``exchanges``.

``== TITLE`` begins a story. A card is published, with an extended card for ``staff``, who have a
token. Then come, in any order:

* ``METHOD PATH``, a request; ``+staff`` behind the path sends their token. Below it, indented,
  headers (``Name: value``, with ``\s`` for a space; in capitals of WSGI's environment), and a body:
  as it is if it begins as JSON does, else ``"\xff"``, the bytes of a literal of Python;
* ``-> STATUS``, how all requests since the last answer are answered; ``= FILE`` with the bytes of a
  published file, ``empty`` with none, ``echo`` with method and body. Below it, indented: headers,
  ``Name: -`` for one that is not there, ``Name: VALUE | VALUE`` for one that is there twice,
  ``Name: > 0`` with a number, ``only`` where there are no others but Date; ``~ TEXT`` and
  ``!~ TEXT``, what the body holds and does not; members that its JSON has, among others;
  ``== JSON`` and ``error.data == JSON``, exactly; ``members NAMES``, no others;
  ``Access-Control-*: -`` for no header that begins so;
* ``@ extended AUDIENCES``, ``@ settings TOML``, ``@ provider TOML``, members of one more, which may
  be on this machine; ``@ tokens AUDIENCES``, also of a server that runs (``none`` for no table);
  ``@ card JSON``, members that the card has in place of its own (null for none), ``@ card 0.3``;
  ``@ older JSON``, a document for clients of 0.3. With ``@ agent NAME`` there are several agents,
  each with an interface at ``/NAME/a2a``, and what follows is about that one;
* ``@ fault TEXT``: the server does not start, and says this; the variable ``PROXY`` is "s3cret";
* ``@ policy``: the server is that of `verify --serve`, which trusts the publisher as ``harbour``;
  later it makes the policy anew;
* ``@ mounted``: the cards stand before an agent, once of WSGI and once of ASGI, which answers 202
  and says what came to it; both have to answer as the story says;
* ``@ publish JSON``, ``@ withdraw``: a newer generation, which the server takes up;
* ``@ file NAME TEXT``: a file beside the settings, from now on; without a text it is removed;
* ``@ answers PATH STATUS JSON``: what an issuer of OpenID Connect answers from now on, who is a
  server on this machine; ``@ asked PATHS``, all that it was asked since; ``@ key KID``, one more of
  its keys, ``@ key -KID`` one less, ``@ key`` as they were;
* ``@ clock +SECONDS``; ``@ log LINE``, the next line for the operator, which goes on
  after ``...``, ``@ log`` for no more;
  ``@ event JSON``, fields of the next event, ``@ event`` likewise.

``{token}`` is the token of the staff, ``{token crew}`` of others, ``{basic}`` that as somebody's
password, ``{file FILE}`` the text of a published file, ``{tag FILE}`` its ETag, ``{size FILE}`` its
length, ``{time}`` when it was published, ``{time +1}`` an hour later, ``{etag}`` the ETag of the
answer before, ``{kid}`` that of the key, ``{pad}`` the 64 KiB that are read of a call, all
spaces, and ``{pad -1}`` one less.
``{issuer}`` is the origin of the issuer, and ``{jwt}`` a token of ten minutes by it; ``{jwt
NAME=JSON; NAME=}`` says something else, or leaves it out: ``exp`` and ``nbf`` count from now, and
with ``is_forged=true`` a key of nobody signs it. ``{sts URL}`` is a request as a token of AWS, at
the issuer's origin if it is a path. ``{file FILE OLD=NEW}`` is a text of which a word was changed,
and ``{certificate URIS}`` what nginx hands on of a client's certificate; ``ended`` before them is
for one that is over, ``twice`` for one with an extension twice.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import json
import re
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from flask import Response, request_finished
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.http import http_date
from werkzeug.test import Client, TestResponse

from cardsign.batch import Batch
from cardsign.errors import CardsignError
from cardsign.jose.jwk import encode_base64url
from cardsign.jose.keys import PrivateKey
from cardsign.publish.publication import publish_statements
from cardsign.server.a2a import MAX_CALL_BYTES
from cardsign.server.mount import mount_cards
from cardsign.server.run import create_verdict_app
from cardsign.server.settings import read_server_settings
from cardsign.server.site import Publications
from cardsign.server.tokens import create_token
from cardsign.verify.verifier import Verifier
from tests.net.authorities import Authority
from tests.publish.publications import NOW, PUBLIC, PUBLIC_0_3, publish_cards, sign
from tests.server.identity import Issuer, counterpart
from tests.server.served import (
    AGENTS_OWN,
    agent,
    async_agent,
    exchange,
    hearing,
    look,
    serve,
    write_tokens,
)

FOLDER = Path(__file__).with_name("exchanges")
EXACT = re.compile(r"([a-z.]*) ?== ([\[{].*)")  # the JSON of an answer, or a member of it
NAMED = re.compile(
    r"\{(token|basic|etag|kid|pad|time|tag|size|file|issuer|jwt|sts|certificate)((?: [^{}]+)?)\}"
)
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
POLICY = """format = 1
[[issuer]]
name = "harbour"
origins = ["https://tides.example"]
freshness = "waived"
[issuer.anchor]
keys = [{ holder = "harbour", public = { KEYS } }]
"""
KEY_USAGE, BASIC_CONSTRAINTS = b"\x06\x03\x55\x1d\x0f", b"\x06\x03\x55\x1d\x13"
Line = tuple[int, str]


def stories() -> Iterator[Any]:
    """Each story with its lines, numbered as in their file."""
    for path in sorted(FOLDER.glob("*.txt")):
        title, lines = "", list[Line]()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            if line.startswith("== "):
                if title:
                    yield pytest.param(lines, id=f"{path.stem}: {title}")
                title, lines = line.removeprefix("== "), []
            elif line.strip() and not line.startswith("#"):
                lines.append((number, line))
        yield pytest.param(lines, id=f"{path.stem}: {title}")


class Story:
    """A server, what is asked, and how that was answered."""

    def __init__(
        self, folder: Path, key: PrivateKey, log: list[str], events: list[str], stack: ExitStack
    ) -> None:
        self.folder, self.key, self.messages, self.events = folder, key, log, events
        self.stack = stack  # which ends the issuer
        self.members, self.older_members, self.name = PUBLIC, dict[str, Any](), ""
        self.audiences, self.holders, self.lines = ["staff"], ["staff"], "format = 1\n"
        self.providers: list[str] = []
        self.secrets: dict[str, tuple[str, str]] = {}  # tokens, and their lines in the file
        self.doors: list[Client] = []
        self.is_mounted = self.has_policy = False
        self.ahead, self.said = 0.0, 0
        self.requests: list[dict[str, Any]] = []
        self.replies: list[TestResponse] = []
        self.named: set[str] = set()  # headers of them
        self.etag = ""

    @cached_property
    def authority(self) -> Authority:
        """Who certifies clients."""
        (self.folder / "tls").mkdir()
        return Authority(self.folder / "tls")

    @cached_property
    def issuer(self) -> Issuer:
        """An issuer of OpenID Connect, which runs from its first mention on."""
        return Issuer(self.stack.enter_context(counterpart()))

    def publish(self) -> None:
        """Publish what the story says, as the next generation."""
        older = sign(self.older_members, self.key) if self.older_members else None
        # Mounted, the time is the real one.
        exp = None if self.is_mounted else NOW + timedelta(days=30)
        place = self.folder / "pub" / self.name
        self.generation = publish_cards(
            place, self.key, self.members, *self.audiences, exp=exp, older=older
        )

    def serve(self) -> list[Client]:
        """The servers, which are started by the first request."""
        if not self.doors:
            self.publish()
            self.write_tokens()
            if self.providers:
                self.lines += f"provider = [{', '.join(self.providers)}]\n"
            if self.holders != ["none"] and "provider" not in self.lines:
                self.lines = self.lines.replace("\n", '\ntoken_file = "tokens"\n', 1)
            (self.folder / "serve.toml").write_text(self.lines)
            settings = read_server_settings(self.folder / "serve.toml")
            published, now = self.folder / "pub", NOW.timestamp()
            if self.has_policy:
                policy = self.folder / "trust.toml"
                self.doors = [Client(create_verdict_app(lambda: Batch(Verifier(policy))))]
            elif self.is_mounted:
                apps = (
                    mount_cards(agent, published, settings),
                    as_wsgi(mount_cards(async_agent, published, settings)),
                )
                self.doors = [*map(Client, apps)]
            else:
                self.doors = [serve(published, settings, now=lambda: now + self.ahead)]
        return self.doors

    def write_tokens(self) -> None:
        """Write the token file of these audiences."""
        for audience in self.holders:
            self.secrets.setdefault(audience, create_token(audience))
        if self.holders != ["none"]:
            write_tokens(self.folder, *(self.secrets[audience][1] for audience in self.holders))

    def fill_in(self, text: str) -> str:
        """A line with what stands for its names in braces."""

        def value(match: re.Match[str]) -> str:
            word, rest = match[1], match[2].strip()
            if word in ("token", "basic"):
                secret = self.secrets[rest or "staff"][0]
                return secret if word == "token" else b64encode(f"peer:{secret}".encode()).decode()
            if word == "pad":
                return " " * (MAX_CALL_BYTES + int(rest or 0))
            if word in ("etag", "kid"):
                return self.etag if word == "etag" else str(self.key.public.kid)
            if word == "time":
                return http_date(NOW + timedelta(hours=int(rest or 0)))
            if word == "issuer":
                return self.issuer.url
            if word == "jwt":
                members = dict(member.split("=", 1) for member in rest.split("; ") if member)
                said = {name: json.loads(text or "null") for name, text in members.items()}
                return self.issuer.token(now=NOW.timestamp() + self.ahead, **said)
            if word == "sts":
                url = f"{self.issuer.url}{rest}" if rest.startswith("/") else rest
                return f"forge-aws-v1.{encode_base64url(url.encode())}"
            if word == "certificate":
                return self.make_certificate(rest)
            self.serve()
            name, _, edit = rest.partition(" ")
            data = self.generation.files[name]
            if word == "file":
                return data.decode().strip().replace(*(edit or "=").split("="))
            return str(len(data)) if word == "size" else f'"{hashlib.sha256(data).hexdigest()}"'

        return NAMED.sub(value, text)

    def make_certificate(self, names: str) -> str:
        """A client certificate for these names, as nginx hands it on."""
        is_over, has_twice = names.startswith("ended "), names.startswith("twice ")
        years = (-10, -9) if is_over else (-10, 10)
        uris = names.removeprefix("ended ").removeprefix("twice ").split()
        days = (365 * years[0], 365 * years[1])
        pem = self.authority.certificate(*uris, days=days).read_bytes()
        der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
        if has_twice:  # one extension twice, which no builder makes
            der = der.replace(KEY_USAGE, BASIC_CONSTRAINTS)
        return quote(ssl.DER_cert_to_PEM_cert(der))

    def take(self, line: str) -> None:
        """Do what a line says."""
        word, _, rest = line.strip().partition(" ")
        if line.startswith(" "):
            (self.check if self.replies else self.complete)(self.fill_in(line.strip()))
        elif word.upper() in METHODS:
            if self.replies:
                self.etag = self.replies[-1].headers.get("ETag", "")
                self.replies, self.requests = [], []
            self.serve()
            path, _, audience = self.fill_in(rest).partition(" +")
            bearer = {"Authorization": f"Bearer {self.secrets[audience][0]}"} if audience else {}
            path, _, query = path.partition("?")
            # As it is, which a client would make another of.
            environ = {"PATH_INFO": unquote(path).encode().decode("latin-1")}
            request = {"method": word, "query_string": query, "headers": bearer}
            self.requests.append({**request, "environ_overrides": environ})
        elif word == "->":
            asked = list(product(self.requests, self.serve()))
            self.replies = [ask(door, request) for request, door in asked]
            self.named.clear()
            for answer, (request, _) in zip(self.replies, asked, strict=True):
                self.compare(answer, request, *rest.split())
        else:
            assert word == "@", "unknown line"
            action, _, rest = self.fill_in(rest).partition(" ")
            getattr(self, f"do_{action}")(rest)

    def complete(self, line: str) -> None:
        """Add a header or the body to the last request."""
        if line[0] in '{["':
            is_bytes = line[0] == '"'
            self.requests[-1]["data"] = ast.literal_eval(f"b{line}") if is_bytes else line.encode()
        else:
            name, _, value = line.partition(":")
            kind = "environ_overrides" if name.isupper() else "headers"
            given = self.requests[-1].setdefault(kind, {})
            given[name] = value.strip().replace("\\s", " ")

    def compare(
        self, answer: TestResponse, request: dict[str, Any], status: str, *body: str
    ) -> None:
        """Compare the first line of what is expected."""
        assert answer.status_code == int(status), f"{answer.request.url}: {answer.text[:999]}"
        if body == ("empty",):
            assert answer.data == b""
        elif body == ("echo",):
            assert answer.data == request["method"].encode() + b" " + request.get("data", b"")
        elif body:
            assert answer.data == self.generation.files[body[1]]

    def check(self, line: str) -> None:
        """Compare each answer with a further line."""
        name, _, value = line.partition(":")
        for answer in self.replies:
            if line[0] == "{":
                assert_within(json.loads(line), answer.json)
            elif exact := EXACT.fullmatch(line):
                value_there = answer.json
                for member in filter(None, exact[1].split(".")):
                    value_there = value_there[member]
                assert value_there == json.loads(exact[2])
            elif line.startswith("members "):
                assert list(answer.json) == line.split()[1:]
            elif line.endswith("-*: -"):
                prefix = line.removesuffix("*: -").lower()
                assert not any(key.lower().startswith(prefix) for key, _ in answer.headers)
            elif line.startswith(("~ ", "!~ ")):
                assert (line.partition(" ")[2] in answer.text) is (line[0] == "~")
            elif line == "only":
                assert set(answer.headers.keys()) - {"Date"} == self.named
            else:
                expected = [] if value.strip() == "-" else value.strip().split(" | ")
                values = answer.headers.getlist(name)
                if expected == ["> 0"]:
                    assert [int(text) > 0 for text in values] == [True]
                else:
                    assert values == expected
        self.named.add(name)

    # `@ WORD REST` calls `do_WORD(REST)`.

    def do_extended(self, rest: str) -> None:
        self.audiences = rest.split()

    def do_tokens(self, rest: str) -> None:
        self.holders = rest.split()
        if self.doors:
            self.write_tokens()

    def do_card(self, rest: str) -> None:
        self.members = PUBLIC_0_3 if rest == "0.3" else merged(self.members, rest)

    def do_older(self, rest: str) -> None:
        self.older_members = merged(PUBLIC_0_3, rest)

    def do_agent(self, rest: str) -> None:
        if self.name and not self.doors:
            self.publish()
        self.name = rest
        interface = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        interface |= {"url": f"https://x.example/{rest}/a2a"}
        self.members = {**PUBLIC, "name": rest, "supportedInterfaces": [interface]}

    def do_settings(self, rest: str) -> None:
        self.lines += f"{rest}\n"

    def do_provider(self, rest: str) -> None:
        self.providers.append(f"{{ {rest}, insecure_loopback_http = true }}")

    def do_mounted(self, _: str) -> None:
        self.is_mounted = True

    def do_policy(self, _: str) -> None:
        self.has_policy = True
        keys = ", ".join(f'{k} = "{v}"' for k, v in self.key.public.jwk().items())
        (self.folder / "trust.toml").write_text(POLICY.replace("KEYS", keys))

    def do_fault(self, rest: str) -> None:
        with pytest.raises(CardsignError) as fault:
            self.serve()
        assert rest in str(fault.value)

    def do_file(self, rest: str) -> None:
        name, _, text = rest.partition(" ")
        self.serve()
        (self.folder / name).write_text(f"{text}\n")
        if not text:
            (self.folder / name).unlink()
        self.look()

    def do_publish(self, rest: str) -> None:
        self.serve()
        self.members = merged(self.members, rest)
        self.publish()
        self.look()

    def do_withdraw(self, _: str) -> None:
        self.serve()
        place = self.folder / "pub" / self.name
        withdrawn = publish_statements(None, place, now=NOW, withdraws=True)
        assert withdrawn is not None
        self.generation = withdrawn
        self.look()

    def do_answers(self, rest: str) -> None:
        path, status, value = rest.split(" ", 2)
        self.issuer.served.answers[path] = (int(status), json.loads(value))

    def do_asked(self, rest: str) -> None:
        assert self.issuer.served.asked == rest.split()
        self.issuer.served.asked.clear()

    def do_key(self, rest: str) -> None:
        if rest.startswith("-"):
            del self.issuer.keys[rest[1:]]
        elif rest:
            self.issuer.add_key(rest)
        self.issuer.publish()

    def do_clock(self, rest: str) -> None:
        self.ahead += float(rest)

    def do_log(self, rest: str) -> None:
        lines = self.messages[self.said :][:1]
        if rest.endswith("..."):
            lines = [line[: len(rest) - 3] + "..." for line in lines]
        assert lines == ([rest] if rest else [])
        self.said += len(lines)

    def do_event(self, rest: str) -> None:
        self.serve()
        assert bool(self.events) == bool(rest)
        if rest:
            assert_within(json.loads(rest), json.loads(self.events.pop(0))["fields"])

    def look(self) -> None:
        """Take up what was published; a mount does so before each request."""
        for client in () if self.is_mounted or self.has_policy else self.doors:
            look(client)


def as_wsgi(app: Any) -> Any:
    """An application of ASGI, as werkzeug's client asks it."""

    def answer(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        names = {name: name.removeprefix("HTTP_").replace("_", "-").lower() for name in environ}
        fields = [name for name in environ if name.startswith(("HTTP_", "CONTENT_"))]
        path = environ["SCRIPT_NAME"] + environ["PATH_INFO"]
        scope = {
            "type": "http",
            "method": environ["REQUEST_METHOD"],
            "path": path.encode("latin-1").decode(),
            "root_path": environ["SCRIPT_NAME"],
            "query_string": environ["QUERY_STRING"].encode(),
            "headers": [(names[name].encode(), environ[name].encode()) for name in fields],
        }
        body = {"type": "http.request", "body": environ["wsgi.input"].read()}
        sent = asyncio.run(exchange(app, scope, body))
        headers = [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]
        start_response(f"{sent[0]['status']} X", headers)
        return [message.get("body", b"") for message in sent[1:]]

    return answer


def ask(door: Client, request: dict[str, Any]) -> TestResponse:
    """The answer to a request; an application's fault that begins late is an answer too.

    Flask gives every answer but the agent's own (Q71): nothing answers past it.
    """
    statuses = list[int]()

    def note(sender: object, response: Response) -> None:
        statuses.append(response.status_code)

    with request_finished.connected_to(note):
        try:
            answer = door.open("/", **request)
        except RequestEntityTooLarge as fault:
            answer = Client(fault).open("/")
    assert statuses == ([] if answer.status_code == AGENTS_OWN else [answer.status_code])
    return answer


def merged(card: dict[str, Any], patch: str) -> dict[str, Any]:
    """A card with other members; null removes one (RFC 7396)."""
    members = {**card, **json.loads(patch)}
    return {name: value for name, value in members.items() if value is not None}


def assert_within(expected: Any, answer: Any) -> None:
    """Each member that is expected is there; a list has no other elements."""
    if isinstance(expected, dict) and isinstance(answer, dict):
        assert expected.keys() <= answer.keys()
        for name, value in expected.items():
            assert_within(value, answer[name])
    elif isinstance(expected, list) and isinstance(answer, list) and len(expected) == len(answer):
        for one, other in zip(expected, answer, strict=True):
            assert_within(one, other)
    else:
        assert (answer, type(answer)) == (expected, type(expected))


@pytest.mark.parametrize("lines", [*stories()])
def test_a_server_answers_as_its_story_says(
    tmp_path: Path,
    key: PrivateKey,
    log: list[str],
    monkeypatch: pytest.MonkeyPatch,
    lines: list[Line],
) -> None:
    """From a publication on disk to the last header."""
    monkeypatch.setattr(Publications, "start_watching", Publications.look_at_all)
    monkeypatch.setattr("cardsign.server.run.FRESH_SECONDS", 1e-9)
    monkeypatch.setenv("PROXY", "s3cret")
    with hearing("cardsign.events") as events, ExitStack() as stack:
        story = Story(tmp_path, key, log, events, stack)
        for number, line in lines:
            try:
                story.take(line)
            except Exception as wrong:
                raise AssertionError(f"line {number}: {line.strip()}\n{wrong}") from wrong
    assert story.replies or not story.requests, "the last request has no answer"
