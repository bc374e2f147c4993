"""The public functions: one line for each common case, and misuse that shows the right call."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import logging
import pickle
import pkgutil
import re
import subprocess
import sys
import textwrap
import tomllib
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import cardsign
from cardsign import (
    CardRefused,
    JwkSet,
    KeyRefused,
    NotTrusted,
    NoVerdict,
    Policy,
    PrivateKey,
    Signer,
    VerificationError,
)
from cardsign.errors import CardsignError, SigningRefused, UsageFault
from cardsign.keys import agenda
from cardsign.keys.store import create_store
from cardsign.statements.keyset import read_keyset
from cardsign.testing import FakeIssuer
from cardsign.trust import Memory
from cardsign.trust.policy import KeysetAnchor, Subject, SubjectNames, TrustedIssuer
from cardsign.urls import parse_place, parse_url

NOW = datetime.now(UTC)
TIDES = FakeIssuer(NOW)
CARD = TIDES.card_members()
KEYS = TIDES.jwks()
SIGNED = TIDES.signed_card(CARD)
TAMPERED = SIGNED.replace(b"Tides", b"Tidal")


def policy_of(anchor: Any) -> Policy:
    """The policy of an issuer at tides.example."""
    return Policy((TrustedIssuer("tides", anchor, (parse_place("https://tides.example"),)),))


POLICY = policy_of(parse_url("https://tides.example/jwks.json"))


# ------------------------------------------------------------------ one line each


def test_keys_in_any_form_verify_a_card() -> None:
    """A set as JwkSet, bytes, text or dict, or a single JWK, as people hand keys over."""
    data = KEYS.to_bytes()
    jwk = dict(TIDES.key("card").public.jwk())
    forms: tuple[Any, ...] = (KEYS, data, data.decode(), json.loads(data), jwk)
    for jwks in forms:
        assert cardsign.verify_card(SIGNED, jwks=jwks)["skills"][0]["id"] == "high"
        with pytest.raises(NotTrusted):
            cardsign.verify_card(TAMPERED, jwks=jwks)


def test_a_verified_card_is_a_mapping_that_nobody_can_change() -> None:
    """What a caller does to its copies changes nothing of what was verified."""
    card: Any = cardsign.verify_card(SIGNED, jwks=KEYS)
    assert dict(card) == {**card} == CARD == card.document == card.report.card
    assert (list(card), "name" in card, "nam" in card) == (list(CARD), True, False)
    assert (card.get("name"), card.get("nam"), len(card)) == ("Tides", None, len(CARD))
    with pytest.raises(TypeError):
        card["name"] = "Evil"
    card.document["name"] = card.document["skills"][0]["id"] = "evil"
    card["skills"][0]["id"] = dict(card)["skills"][0]["id"] = "evil"
    assert dict(card) == CARD == card.document == card.report.card
    assert dict(pickle.loads(pickle.dumps(card))) == CARD


@pytest.mark.parametrize(
    ("purpose", "fix"),
    [({"use": "enc"}, "`use`"), ({"key_ops": ["sign"]}, "`key_ops`"), ({"kty": "X"}, "P-256")],
    ids=["use", "key_ops", "type"],
)
def test_a_key_for_another_purpose_says_which_member_is_wrong(
    purpose: dict[str, Any], fix: str
) -> None:
    """Not that its type is, where it is not."""
    jwk = {**TIDES.key("card").public.jwk(), **purpose}
    with pytest.raises(NotTrusted, match=r"key\.unsupported.* used: .*expected") as caught:
        cardsign.verify_card(SIGNED, jwks={"keys": [jwk]})
    assert fix in caught.value.hint


def test_the_report_and_the_error_say_the_same() -> None:
    """One returns what the other raises; `if examine_card(...)` would trust an invalid card."""
    report = cardsign.examine_card(TAMPERED, jwks=KEYS, now=NOW)
    with pytest.raises(VerificationError) as caught:
        cardsign.verify_card(TAMPERED, jwks=KEYS, now=NOW)
    assert (report.verdict, caught.value.report) == ("invalid", report)
    with pytest.raises(TypeError, match=r'report\.verdict == "trusted".*verify_card'):
        bool(report)


def test_a_policy_by_issuer_or_url(tmp_path: Path) -> None:
    """Policy.load reads trust.toml and the floors beside it; the subject is named."""
    (key,) = json.loads(KEYS.to_bytes())["keys"]
    members = ", ".join(f"{name} = {json.dumps(value)}" for name, value in key.items())
    file = tmp_path / "trust.toml"
    file.write_text(
        'format = 1\n[[issuer]]\nname = "tides"\norigins = ["https://tides.example"]\n'
        f'freshness = "waived"\n[issuer.anchor]\nkeys = [{{ public = {{ {members} }} }}]\n'
    )
    policy = Policy.load(file)
    assert cardsign.verify_card(SIGNED, policy=policy, issuer="tides").subject == "tides"
    assert cardsign.verify_card(SIGNED, policy=policy, url=TIDES.url).subject == "tides"
    assert Policy.load(str(file)) == policy
    with pytest.raises(NoVerdict):
        cardsign.verify_card(SIGNED, policy=policy, url="https://geo.example/card.json")


def test_statements_are_handed_over_as_a_program_has_them(tmp_path: Path) -> None:
    """As bytes in any order, or as a folder; what is none of these speaks against the card."""
    keyset = TIDES.keyset()
    release = TIDES.release(keyset, **TIDES.listing(CARD, seq=6))
    (tmp_path / "a.json").write_bytes(keyset)
    (tmp_path / "b.json").write_bytes(release)
    policy = policy_of(KeysetAnchor(read_keyset(keyset).id))

    def verify(statements: Any) -> str:
        verifier = cardsign.Verifier(policy, lock=Memory(), clock=lambda: NOW)
        how: Any = {"issuer": "tides", "statements": statements}
        assert verifier.verify(SIGNED, **how)["name"] == "Tides"
        return verifier.examine(SIGNED, **how).verdict

    for statements in ([release, keyset], (keyset, release), tmp_path, str(tmp_path)):
        assert verify(statements) == "trusted"
    for statements in ([], [release], [keyset, b"{"], [keyset.replace(b"a", b"b"), release]):
        with pytest.raises(VerificationError):
            verify(statements)
    wrong: tuple[Any, ...] = (None, keyset, [keyset, None], {"keyset": keyset}, [tmp_path])
    for statements in wrong:
        with pytest.raises(TypeError, match=r"statements=\[keyset, release\]"):
            verify(statements)


def test_signing_and_explaining_in_one_line(tmp_path: Path) -> None:
    """A key, several, or a key store; the result verifies."""
    key, other = PrivateKey.generate("ES256"), PrivateKey.generate("ES256")
    data = json.dumps(CARD).encode()
    signed = cardsign.sign_card(data, key)
    both = cardsign.sign_card(data, [key, other])
    assert cardsign.verify_card(signed, jwks=JwkSet.of([key.public]))
    assert len(json.loads(both)["signatures"]) == 2 * len(json.loads(signed)["signatures"])
    assert cardsign.inspect_card(signed, jwks=JwkSet.of([key.public])).signatures
    assert cardsign.lint_card(data) == ()
    assert cardsign.lint_card(json.dumps({**CARD, "capabilities": None}).encode())
    assert [one.code for one in cardsign.lint_card(b"{")] == ["json.syntax"]


def test_a_policy_by_url_takes_what_a_policy_file_takes() -> None:
    """No keys that anyone on the way could change; where no name is given it is the host's."""
    origin = "https://tides.example"
    with pytest.raises(CardRefused, match="begins with https://"):
        Policy.from_jwks_url("http://keys.example/jwks.json", origin=origin)
    assert Policy.from_jwks_url("http://localhost:8080/jwks.json", origin=origin).issuers
    policy = Policy.from_jwks_url("https://keys.example/jwks.json", origin=origin)
    assert (policy.issuers[0].name, policy.issuers[0].freshness) == ("tides.example", "waived")


# ------------------------------------------------------------------ misuse

#: The calls and the texts of misuse.toml, and the names that they use.
ROWS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("misuse.toml").read_text())
NAMES: dict[str, Any] = {name: getattr(cardsign, name) for name in cardsign.__all__}
NAMES |= {"CARD": CARD, "DATA": json.dumps(CARD).encode(), "SIGNED": SIGNED, "KEYS": KEYS}
NAMES |= {"POLICY": POLICY, "KEY": TIDES.key("card"), "URL": TIDES.url, "Subject": Subject}
NAMES |= {"Path": Path, "b64encode": b64encode, "import_module": importlib.import_module}


def awaited(result: Any) -> Any:
    """What a call returns, or the coroutine that it returned."""
    return asyncio.run(result) if inspect.isawaitable(result) else result


class Wrong:
    """Of no type that any argument has."""


def wrong_values(call: str) -> Iterator[tuple[str, str, object]]:
    """Each argument of a call with what it must not be; anything has a truth value, as a flag."""
    for name, parameter in inspect.signature(eval(call, NAMES)).parameters.items():
        is_subject = parameter.kind is parameter.VAR_KEYWORD
        for argument in SubjectNames.__annotations__ if is_subject else [name]:
            if parameter.annotation != "bool":
                yield call, argument, Wrong()
            if not is_subject and not re.search("None|bool", str(parameter.annotation)):
                yield call, argument, None


@pytest.mark.parametrize(
    ("call", "argument", "value"), [row for call in ROWS["calls"] for row in wrong_values(call)]
)
def test_an_argument_of_a_wrong_type_is_refused(call: str, argument: str, value: object) -> None:
    """Before anything is read or asked, with a call that is right."""
    arguments = eval(f"dict({ROWS['calls'][call]})", NAMES)
    places = [value] if argument == "sources" else []
    arguments |= {} if places else {argument: value}
    with pytest.raises(TypeError, match=rf"takes .*, not {type(value).__name__}: .*[({{=]"):
        awaited(eval(call, NAMES)(*places, **arguments))


def test_no_function_or_method_of_the_reference_is_without_its_row() -> None:
    """But those without arguments, and a protocol's."""
    called = {eval(call, NAMES).__qualname__ for call in ROWS["calls"]}
    for name in cardsign.__all__:
        value = NAMES[name]
        if inspect.isfunction(value):
            assert name in called
        for member in vars(value) if isinstance(value, type) and value is not Signer else ():
            method = getattr(value, member)
            if not member.startswith("_") and callable(method):
                has_arguments = inspect.signature(method).parameters.keys() - {"self"}
                assert f"{name}.{member}" in called or not has_arguments


OF_THE_SDK = [call for call in ROWS["misuse"] if "import_module" in call]
MISUSE = [call for call in ROWS["misuse"] if call not in OF_THE_SDK]


@pytest.mark.parametrize(
    "call", [*MISUSE, *(pytest.param(call, marks=pytest.mark.needs_a2a) for call in OF_THE_SDK)]
)
def test_misuse_is_told_with_the_right_call(call: str) -> None:
    """Nothing is read or asked before."""
    with pytest.raises(TypeError) as caught:
        awaited(eval(call, NAMES))
    assert ROWS["misuse"][call] in str(caught.value)


@pytest.mark.parametrize("call", ROWS["hints"])
def test_the_hint_of_an_error_is_the_way_of_a_program(call: str) -> None:
    """Not an option of the command line, which nobody can type there."""
    with pytest.raises(CardsignError) as caught:
        eval(call, NAMES)
    assert ROWS["hints"][call] in caught.value.hint
    assert not re.search(r"--[a-z]|\bcardsign [a-z]", caught.value.hint)
    assert caught.value.code in repr(caught.value)


def test_a_console_completes_the_public_names() -> None:
    """Though none is loaded yet."""
    program = "import cardsign; print(set(cardsign.__all__) < {*dir(cardsign)})"
    assert subprocess.check_output([sys.executable, "-c", program]) == b"True\n"


def test_what_is_wrong_in_a_question_is_no_verdict() -> None:
    """A slip of the pen in a name; a time without a zone, which could be any of 26 hours."""
    for ask, subject in (
        ("verify_card", SIGNED),
        ("examine_card", SIGNED),
        ("discover", TIDES.url),
    ):
        for name, words in (("tiedes", r".*did you mean 'tides'\?"), ("xq", ".*no issuer 'xq'$")):
            with pytest.raises(UsageFault, match=rf"policy\.unknown_issuer: {words}"):
                NAMES[ask](subject, policy=POLICY, issuer=name)
    with pytest.raises(ValueError, match=r"datetime\.now\(UTC\)"):
        cardsign.verify_card(SIGNED, jwks=KEYS, now=datetime(2026, 11, 22))


@pytest.mark.parametrize("room", ["", ".testing"])
def test_a_type_checker_sees_the_names_that_there_are(room: str) -> None:
    """Each name is imported for it from the module in which it is found."""
    module = importlib.import_module(f"cardsign{room}")
    tree = ast.parse(Path(str(module.__file__)).read_text())
    seen = {
        name.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.asname
    }
    assert seen == module._MODULES
    assert all(getattr(module, name) is not None for name in module.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing


def error_kinds(base: type[Exception]) -> Iterator[type[Exception]]:
    """Every class of error of the package below one, but what a server answers HTTP requests by."""
    for kind in base.__subclasses__():
        room = kind.__module__.split(".")
        if room[0] == "cardsign" and room[1] != "server":
            yield kind
        yield from error_kinds(kind)


@pytest.mark.needs_a2a
def test_every_error_survives_another_process() -> None:
    """One bad card in a process pool is one error, and breaks nothing."""
    for module in pkgutil.walk_packages(cardsign.__path__, "cardsign."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    from cardsign.card.rules import RuleRefusal
    from cardsign.integrations.a2a_sdk import CardNotTrusted
    from cardsign.net.fetch import OtherStatus
    from cardsign.net.guarded import GuardRefused
    from cardsign.programs import ProgramError

    report = cardsign.examine_card(TAMPERED, jwks=KEYS, now=NOW)
    arguments: dict[type[Exception], tuple[Any, ...]] = {
        VerificationError: (report,),
        CardNotTrusted: (VerificationError.of(report),),
        OtherStatus: ("https://a.example", 401, ["Bearer"]),
        ProgramError: ("exited with status 3", b"no such key"),
        CardsignError: ("card.malformed", "no card"),
    }
    kinds = set(error_kinds(Exception)) - {RuleRefusal}  # which never leaves card/
    assert {NotTrusted, NoVerdict, KeyRefused, CardNotTrusted, GuardRefused} < kinds
    for kind in kinds:
        base = next((base for base in arguments if issubclass(kind, base)), Exception)
        error = kind(*arguments.get(base, ("why",)))
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), copy.args) == (type(error), str(error), error.args)
        assert repr(vars(copy)) == repr(vars(error))
        assert getattr(copy, "report", None) == getattr(error, "report", None)


def test_a_store_needs_its_passphrase(tmp_path: Path) -> None:
    """And signs with its active keys when it has it."""
    store, now = create_store(tmp_path / "keys"), datetime.now(UTC)
    key = PrivateKey.generate("ES256").public
    store.commit(agenda.enter, key, custody="exec:/x", now=now)
    store.commit(agenda.revoke, key.kid, reason="ceased", now=now)
    with pytest.raises(TypeError, match="needs its passphrase"):
        cardsign.sign_card(SIGNED, store)
    with pytest.raises(SigningRefused, match=r"sign\.no_key"):
        cardsign.sign_card(SIGNED, tmp_path / "keys", passphrase=b"a long enough one")


def test_a_refusal_is_logged_with_its_subject_and_code(caplog: pytest.LogCaptureFixture) -> None:
    """At INFO, so that a service tells why it called nobody; a trusted card logs nothing.

    What is logged as an error has a NullHandler; nothing has a level of its own.
    """
    program = "import logging; from cardsign.verify import verifier; "
    program += "log = logging.getLogger('cardsign'); print(log.level, *log.handlers)"
    command = [sys.executable, "-c", program]  # in this process, others set handlers as well
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout == "0 <NullHandler (NOTSET)>\n"
    policy = Policy.from_jwks(KEYS, name="the\nholder")
    with caplog.at_level(logging.INFO, logger="cardsign"):
        cardsign.examine_card(SIGNED, policy=policy, now=NOW)
        assert caplog.records == []
        cardsign.examine_card(TAMPERED, policy=policy, now=NOW)
    assert caplog.messages == ["'the\\nholder': invalid (sig.bad)"]


def test_the_test_in_the_docstring_of_fake_issuer_passes() -> None:
    """A reader who copies it has a test that runs."""
    text = inspect.getdoc(FakeIssuer) or ""
    code = textwrap.dedent(text.partition("::\n")[2].partition("\nAttributes:")[0])
    names: dict[str, Any] = {}
    exec(code, names)
    names["test_a_changed_card_is_refused"]()
