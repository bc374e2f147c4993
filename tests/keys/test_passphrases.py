"""A secret comes from where it was said to be, or from a person; what signers may do; envelopes.

An envelope opens with its passphrase, unaltered, and in no other way.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.files import user_folder
from cardsign.jose.jwk import decode_base64url
from cardsign.keys.passphrases import (
    MAX_ENVELOPE_BYTES,
    MAX_FILE_BYTES,
    SCRYPT_N,
    PassphraseSource,
    check_strength,
    open_envelope,
    read_passphrase,
    seal,
    terminal_prompt,
)
from cardsign.keys.signers import Access, SignerPolicy, user_policy, user_secrets
from tests.keys.elsewhere import fault, refusal
from tests.keys.states import FIRST, SECOND
from tests.support import cheap_envelopes, dump, each_case, edited

ENVIRONMENT = {"CARDSIGN_PASSPHRASE": "from the environment"}


def answers(*texts: str) -> Callable[[str], str]:
    """A person who types these, one after the other."""
    rest = iter(texts)
    return lambda question: next(rest)


def nobody(question: str) -> str:
    """A person who must not be asked."""
    pytest.fail(f"asked {question!r}")


def end_of_file(question: str) -> str:
    raise EOFError


def write(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    """A passphrase file."""
    path = folder / "passphrase"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("secret", [b"passphrase", b" pass phrase ", b"\xff\xfe\xfd passphrase"])
@pytest.mark.parametrize("rest", [b"", b"\n", b"\r\nnote\n"])
def test_the_first_line_of_a_file_or_pipe_counts(
    secret: bytes, rest: bytes, tmp_path: Path
) -> None:
    """Byte for byte, without the end of the line; nobody is asked."""
    reading, writing = os.pipe()  # as `--passphrase-file <(pass show cards)` gives it
    os.write(writing, secret + rest)
    os.close(writing)
    for file in (write(tmp_path, secret + rest), Path(f"/dev/fd/{reading}")):
        assert read_passphrase(PassphraseSource(file, ENVIRONMENT, nobody), is_new=True) == secret
    os.close(reading)


def test_the_environment_goes_before_the_terminal() -> None:
    """As os.environ holds it: bytes that are no text are escaped."""
    source = PassphraseSource(environment=ENVIRONMENT, prompt=nobody)
    assert read_passphrase(source) == b"from the environment"
    assert "from the environment" not in repr(source)
    source = PassphraseSource(environment={"CARDSIGN_PASSPHRASE": os.fsdecode(b"\xff\xfe")})
    assert read_passphrase(source) == b"\xff\xfe"


def test_a_person_is_asked_once_for_what_exists_and_twice_for_what_is_new() -> None:
    """Nobody can see what is typed. The answer's UTF-8 counts."""
    assert read_passphrase(PassphraseSource(prompt=answers("ünicode"))) == "ünicode".encode()
    twice = PassphraseSource(prompt=answers("long enough", "long enough"))
    assert read_passphrase(twice, is_new=True) == b"long enough"


@pytest.mark.parametrize("typed", [["long enough", "long enogh"], ["hunter2"], [""]])
def test_a_new_passphrase_must_be_typed_twice_and_long_enough(typed: list[str]) -> None:
    """Else nothing is made with it; what is short is not asked for again, and never repeated."""
    check_strength(b"8 letter")
    assert refusal(check_strength, b"7 lette") == "passphrase.unfit"
    source = PassphraseSource(prompt=answers(*typed))
    unfit = fault(read_passphrase, source, is_new=True)
    assert (unfit.code, unfit.exit_status) == ("passphrase.unfit", 2)
    assert "hunter2" not in str(unfit)


NOTHING = {
    "nobody to ask": PassphraseSource(),
    "Control-D": PassphraseSource(prompt=end_of_file),
    "no text": PassphraseSource(prompt=lambda _: b"\xff".decode()),
    "empty in the environment": PassphraseSource(environment={"CARDSIGN_PASSPHRASE": ""}),
    "empty at the terminal": PassphraseSource(prompt=answers("")),
}


@pytest.mark.parametrize("source", NOTHING.values(), ids=NOTHING)
def test_what_gives_nothing_gives_no_passphrase(source: PassphraseSource) -> None:
    """An unset secret of a pipeline comes as an empty one, and must not fall through."""
    assert refusal(read_passphrase, source) == "passphrase.none"


@pytest.mark.parametrize(("stdin", "stderr"), [(True, True), (True, False), (False, True)])
def test_a_prompt_needs_a_terminal_on_both_sides(
    stdin: bool, stderr: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pipeline a question would hang for ever."""
    for name, answer in (("stdin", stdin), ("stderr", stderr)):
        monkeypatch.setattr(f"sys.{name}", SimpleNamespace(isatty=lambda answer=answer: answer))
    assert (terminal_prompt() is not None) == (stdin and stderr)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_passphrase_file_open_to_others_is_refused(mode: int, tmp_path: Path) -> None:
    """It is no secret any more; nor is a long file one that was meant."""
    source = PassphraseSource(write(tmp_path, b"passphrase", mode))
    assert refusal(read_passphrase, source) == "file.permissions"
    write(tmp_path, b"x" * (MAX_FILE_BYTES + 1))
    assert refusal(read_passphrase, source) == "file.unreadable"


def test_each_secret_comes_from_its_own_place_and_once() -> None:
    """A passphrase is no PIN, and a PIN no token."""
    asked = list[str]()

    def prompt(question: str) -> str:
        asked.append(question)
        return "typed"

    environment = {"CARDSIGN_PASSPHRASE": "phrase", "CARDSIGN_PIN": "pin", "VAULT_TOKEN": "token"}
    by_name = user_secrets(PassphraseSource(environment=environment, prompt=prompt))
    secrets = [by_name(kind, "x") for kind in ("passphrase", "pin", "token")]
    assert (secrets, asked) == ([b"phrase", b"pin", b"token"], [])
    typed = user_secrets(PassphraseSource(prompt=prompt))
    for kind, of in (("pin", "a"), ("pin", "a"), ("pin", "b"), ("passphrase", "a")) * 2:
        assert typed(kind, of) == b"typed"  # type: ignore[arg-type]
    assert asked == ["PIN of a: ", "PIN of b: ", "Passphrase of the a: "]
    assert "typed" not in repr(typed)


@pytest.mark.parametrize(("kind", "hint"), [("pin", "CARDSIGN_PIN"), ("token", "BAO_TOKEN")])
def test_a_secret_that_is_not_to_be_had(kind: Any, hint: str) -> None:
    """The hint names its own place; a passphrase is not taken for it."""
    missing = fault(Access.by_passphrase(b"a passphrase").secrets, kind, "the token")
    assert (missing.code, hint in missing.hint) == ("passphrase.none", True)
    assert f"no {kind}" in missing.message.lower()


# The user's own file, which gives leave.


FILE = 'format = 1\nallow = ["exec:/bin/sign?arg=2"]\ninsecure_loopback_http = true\n'
FILE += 'passphrase_files = { card = "/c" }'


def read_policy(home: Path, text: str, mode: int = 0o600) -> SignerPolicy:
    """Write the user's own file, and read it."""
    file = home / "cardsign/signers.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(home))
        return user_policy()


def test_the_users_own_file_gives_leave(tmp_path: Path) -> None:
    """Exactly what it lists."""
    nothing, leave = SignerPolicy(format=1), frozenset({"exec:/bin/sign?arg=2"})
    given = nothing.model_copy(update={"allow": leave, "passphrase_files": {"card": Path("/c")}})
    assert read_policy(tmp_path, FILE) == given.model_copy(update={"insecure_loopback_http": True})
    assert read_policy(tmp_path, "format = 1") == nothing
    assert refusal(read_policy, tmp_path, FILE, 0o644) == "file.permissions"


@each_case(__file__, "no_leave", "text")
def test_a_file_that_gives_no_leave(text: str, tmp_path: Path) -> None:
    """What is not understood allows nothing, nor does a relative path."""
    assert refusal(read_policy, tmp_path, text) == "config.malformed"


def test_where_the_users_own_file_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never relative to where a command is run."""
    for home, base, folder in (("/h", "", "/h/.config"), ("/h", "/c", "/c"), ("h", "c", "")):
        monkeypatch.setenv("HOME", home)
        monkeypatch.setenv("XDG_CONFIG_HOME", base)
        assert user_folder("CONFIG") == (Path(folder, "cardsign") if folder else None)


# ------------------------------------------------------------------ envelopes

LABEL = {name: getattr(FIRST.public, name) for name in ("kid", "alg", "thumbprint")}
SECRET = FIRST.to_pkcs8_der()


def sealed(passphrase: bytes = b"passphrase", *, secret: bytes = SECRET, **label: str) -> bytes:
    """An envelope with this label around these bytes, as a holder of the passphrase can make it."""
    public = SimpleNamespace(**{**LABEL, **label})
    key: Any = SimpleNamespace(to_pkcs8_der=lambda: secret, public=public)
    with pytest.MonkeyPatch.context() as patch:
        cheap_envelopes(patch)
        return seal(key, passphrase)


def altered(path: str, value: Any) -> bytes:
    """An envelope of which one member has been replaced, or with None taken out."""
    return dump(edited(json.loads(sealed()), [(path,) if value is None else (path, value)]))


@given(
    st.binary(min_size=1), st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1)
)
def test_what_was_sealed_comes_out(passphrase: bytes, kid: str) -> None:
    """Under any passphrase and kid."""
    private = open_envelope(sealed(passphrase, kid=kid), passphrase)
    assert (private.to_pkcs8_der(), private.public.kid) == (SECRET, kid)


def test_the_file_is_readable_and_says_its_format() -> None:
    """Its members are those of the documentation, its cost OWASP's; the secret is not in it."""
    document, other = json.loads(sealed()), json.loads(sealed())
    assert {**LABEL, "format": 1}.items() <= document.items()
    kdf = document["kdf"]
    assert (SCRYPT_N, kdf["name"], kdf["r"], kdf["p"]) == (2**17, "scrypt", 8, 1)
    assert SECRET[36:68] not in decode_base64url(document["ciphertext"])
    assert (kdf["salt"] != other["kdf"]["salt"], document["nonce"] != other["nonce"]) == (True,) * 2


@pytest.mark.parametrize("passphrase", [b"", b"Passphrase", b"passphrase ", b"passphrase\n"])
def test_a_wrong_passphrase_opens_nothing(passphrase: bytes) -> None:
    """Close is not enough."""
    wrong = fault(open_envelope, sealed(), passphrase)
    assert (wrong.code, wrong.exit_status) == ("passphrase.wrong", 2)


ALTERED = {
    **{"/kid": "card-2027", "/alg": "RS256", "/thumbprint": "u" * 43, "/kdf/n": 4},
    **{"/kdf/salt": "A" * 22, "/nonce": "A" * 16, "/ciphertext": "A" * 80},
}


@pytest.mark.parametrize(("path", "value"), [*ALTERED.items(), ("/ciphertext", "")])
def test_an_altered_file_does_not_open(path: str, value: Any) -> None:
    """Every member is bound; the alteration looks like a wrong passphrase."""
    words = "or its file was changed"
    code = refusal(open_envelope, altered(path, value), b"passphrase", match=words)
    assert code == "passphrase.wrong"


MALFORMED: dict[str, list[Any]] = {
    **{"/kid": [None, 1], "/thumbprint": [None], "/extra": ["member"]},
    **{"/format": [None, 0, "1", True], "/kdf": ["scrypt"], "/kdf/name": ["argon2id"]},
    **{"/kdf/salt": [None, "AA=="], "/kdf/extra": [1], "/cipher": ["AES-256-CBC", "NONE"]},
    **{"/nonce": ["AA", "+" * 16], "/ciphertext": [[1]]},
    # An unreasonable cost, too.
    "/kdf/n": ["2", 2.0, True, 2**30, 2**18, 3, 1, 0, -2],
    **{"/kdf/r": [9, 0, 2**30, 8.0], "/kdf/p": [2, 0, True]},
}
FILES = [altered(path, value) for path, values in MALFORMED.items() for value in values]
FILES += [b"", b"{", b"[]", b'{"format": 1, "format": 1}', b"0\x82"]
FILES += [b" " * (MAX_ENVELOPE_BYTES + 1)]


@pytest.mark.parametrize("untrusted_bytes", FILES, ids=range(len(FILES)))
def test_a_malformed_file_is_refused(
    untrusted_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the key derivation is so much as prepared; no fallback to a weaker reading."""
    monkeypatch.setattr("cardsign.keys.passphrases.Scrypt", lambda **_: pytest.fail("a derivation"))
    refused = fault(open_envelope, untrusted_bytes, b"passphrase")
    assert (refused.code, refused.exit_status) == ("keystore.corrupt", 2)


def test_an_envelope_opens_for_its_own_key_alone() -> None:
    """Neither under another label, nor with another private key beneath its own."""
    assert open_envelope(sealed(), b"passphrase").public == FIRST.public
    other = {"thumbprint": SECOND.public.thumbprint}
    for envelope in (sealed(**other), sealed(secret=SECOND.to_pkcs8_der()), sealed(secret=b"no")):
        assert refusal(open_envelope, envelope, b"passphrase") == "signer.wrong_key"


def test_a_newer_format_is_not_guessed_at() -> None:
    """The person is told to upgrade, not that the file is broken."""
    assert refusal(open_envelope, altered("/format", 2), b"passphrase") == "keystore.newer_format"


@given(st.binary())
def test_random_bytes_raise_only_our_errors(untrusted_bytes: bytes) -> None:
    """Whatever the file holds, a person gets a code."""
    assert refusal(open_envelope, untrusted_bytes, b"passphrase") == "keystore.corrupt"
