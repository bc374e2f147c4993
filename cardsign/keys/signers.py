"""Signers by URI: tokens, key services and programs, and keys that this process reads itself.

Every signer but ``env:`` and ``file:`` is bound to a public key that is known beforehand, with
which each of its answers is verified.

A key store is in a repository, where a stranger may propose changes. So its word is enough
to name a key, but not to choose code that runs here: that takes the user's own leave.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import shlex
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, NoReturn, TypeAlias
from urllib.parse import unquote, unquote_to_bytes

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key
from pydantic import AfterValidator, Field

from cardsign import errors, programs
from cardsign.errors import CardRefused, KeyRefused, SignerFault, check_types, of_the_user
from cardsign.files import USER_FILE, read_secret, user_folder
from cardsign.jose.jwk import STATEMENT_ALGORITHMS, encode_base64url, jwk_of
from cardsign.jose.jws import Signer, sign_payload
from cardsign.jose.keys import JwkSet, PrivateKey, PublicKey, check_answer, raw_from_der
from cardsign.keys import passphrases
from cardsign.keys.imports import MAX_KEY_FILE_BYTES, import_private_key, import_public_key
from cardsign.keys.ledger import ROLES
from cardsign.keys.passphrases import PassphraseSource
from cardsign.tomltext import Table, read_settings
from cardsign.urls import is_this_machine, parse_url

# What signers may use.

PIN_VARIABLE: Final = "CARDSIGN_PIN"
TOKEN_VARIABLES: Final = ("BAO_TOKEN", "VAULT_TOKEN")

SecretKind = Literal["passphrase", "new passphrase", "pin", "token"]

#: Gives the passphrase, PIN or access token of what is named, such as ``card keys``; raises
#: PassphraseFault where it has none.
Secrets: TypeAlias = Callable[[SecretKind, str], bytes]


def _check_absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("is not an absolute path")
    return path


_AbsolutePath = Annotated[Path, Field(strict=False), AfterValidator(_check_absolute)]
_Role = Annotated[str, Field(pattern=f"^(?:{'|'.join(ROLES)})$")]


class SignerPolicy(Table):
    """What the user has allowed in their own file, ``signers.toml``, or on the command line.

    Attributes:
        allow: Signers that run the program that their URI names; compared as they are spelt.
        insecure_loopback_http: A service on this machine may be asked without TLS.
        folders: Folders outside a project that its committed file may name, with what is below.
        passphrase_files: The file with the passphrase of each role that has one of its own.
    """

    format: int = Field(ge=1, le=1)
    allow: Annotated[frozenset[str], Field(strict=False)] = frozenset()
    insecure_loopback_http: bool = False
    folders: Annotated[frozenset[_AbsolutePath], Field(strict=False)] = frozenset()
    passphrase_files: dict[_Role, _AbsolutePath] = Field(default={})


NOTHING_ALLOWED: Final = SignerPolicy(format=1)


@dataclass(frozen=True, slots=True)
class Access:
    """What signers may use.

    Attributes:
        secrets: Asked when a passphrase, a PIN or a token is needed.
        policy: What of the dangerous is allowed.
        environment: Where services' addresses are looked up, and what programs may inherit of.
        by_role: Asked instead of `secrets` for the passphrases of keys of a role.
        opened: The passphrases that have opened a custody, so that each is typed once.
    """

    secrets: Secrets
    policy: SignerPolicy = NOTHING_ALLOWED
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    by_role: Mapping[str, Secrets] = field(default_factory=dict, repr=False)
    opened: dict[tuple[Secrets, str], bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def by_passphrase(cls, passphrase: bytes) -> Access:
        """Return what opens keys in files by one passphrase, and nothing else."""
        environment = {passphrases.PASSPHRASE_VARIABLE: os.fsdecode(passphrase)}
        return cls(user_secrets(PassphraseSource(environment=environment)))

    def for_role(self, role: str) -> Access:
        """Return the same for keys of a role, which may have a source of its own."""
        return replace(self, secrets=self.by_role.get(role, self.secrets))

    def passphrase(self, custody: str, of: str) -> bytes:
        """Return the passphrase of a custody, which is asked for by the name of its keys."""
        return self.opened.get((self.secrets, custody)) or self.secrets("passphrase", of)

    def remember(self, custody: str, passphrase: bytes) -> None:
        """Remember what has opened a custody."""
        self.opened[self.secrets, custody] = passphrase

    def variable(self, *names: str) -> str | None:
        """Return the first of these environment variables that is set and not empty."""
        return next((value for name in names if (value := self.environment.get(name))), None)


# The secrets of a user's signers: each from its own place, asked for once.


def user_secrets(source: PassphraseSource) -> Secrets:
    """Return what asks the environment, then a terminal; for passphrases `source` first.

    One passphrase that nobody types is for all files; any other secret is of what it is asked for.
    Each is asked for once.
    """
    is_typed = source.file is None and source.variable not in source.environment

    @cache
    def secret(kind: SecretKind, of: str) -> bytes:
        if kind.endswith("passphrase"):
            question, is_new = f"{kind.capitalize()} of the {of}: ", kind == "new passphrase"
            return passphrases.read_passphrase(source, question=question, is_new=is_new)
        name, variables = ("PIN", (PIN_VARIABLE,)) if kind == "pin" else (kind, TOKEN_VARIABLES)
        if value := next(filter(None, map(source.environment.get, variables)), None):
            return os.fsencode(value)
        hint = f"Set {' or '.join(variables)}."
        return passphrases.ask(source.prompt, f"{name} of {of}: ", name=name, hint=hint)

    def get(kind: SecretKind, of: str) -> bytes:
        if is_typed or not kind.endswith("passphrase"):
            return secret(kind, of)
        passphrase = secret("passphrase", "")
        if kind == "new passphrase":
            passphrases.check_strength(passphrase)
        return passphrase

    return get


# ``signers.toml``: what this user allows signers on this machine, in any project.


def user_policy() -> SignerPolicy:
    """Read what the user's own file allows: nothing where there is none.

    Raises:
        UsageFault: ``config.malformed``.
        FileFault: ``file.permissions``: others have access to it;
            ``file.unreadable``.
    """
    folder = user_folder("CONFIG")
    file = folder and folder / USER_FILE
    if file is None or not os.path.exists(file):
        return NOTHING_ALLOWED
    return read_settings(read_secret(file, max_bytes=MAX_KEY_FILE_BYTES), file, SignerPolicy)


# What a URI is made of.

# What a message shows of a value that may be the private key itself, given by mistake:
# ``--key "$(cat key.pem)"``. Of keys only Ed25519 in base64 has fewer than 80 characters, 64; DER,
# a sequence, begins with MA to MP there.
NOT_SHOWN: Final = "not shown: it may be a key"
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]{1,31}):")
_SHOWN: Final = re.compile(r"(?!.*(?:-----|:M[A-P][A-Za-z0-9+/=]{38}))[a-z][a-z0-9+.-]+:[^\s{]*")


def scheme_of(uri: str) -> str:
    """Return the scheme with which a value begins, or an empty text."""
    match = _SCHEME.match(uri)
    return match[1] if match else ""


def is_shown(uri: str) -> bool:
    """Say whether a message may repeat what a user gave as the URI of a private key."""
    return len(uri) < 80 and bool(scheme_of(uri) and _SHOWN.fullmatch(uri))


def refuse_uri(uri: str, problem: str, hint: str = "") -> NoReturn:
    """Raise ``signer.uri``, which repeats the URI only where it cannot be a key."""
    path = uri if is_shown(uri) else f"{scheme_of(uri) or 'a value'}:... ({NOT_SHOWN})"
    raise SignerFault("signer.uri", problem, path=path, hint=hint)


MAX_URI_CHARS: Final = 2048
#: A part of a URI in printable ASCII, without a space, '#', '?' or a lone '%'.
ENCODED: Final = r"(?:[!\"$&->@-~]|%[0-9A-Fa-f]{2})*"


def decode_part(uri: str, part: str) -> str:
    """Percent-decode a part of a URI, which must be printable UTF-8."""
    decoded = unquote(part, errors="surrogateescape")
    if not decoded.isprintable():
        refuse_uri(uri, "expected printable UTF-8")
    return decoded


def read_attributes(
    uri: str, text: str, separator: str, names: Collection[str]
) -> list[tuple[str, str]]:
    """Read the ``NAME=VALUE`` pairs of a part of a URI; the values are still encoded."""
    pairs = []
    for pair in text.split(separator) if text else ():
        name, equals, value = pair.partition("=")
        if not equals or name not in names:
            refuse_uri(uri, f"expected attributes NAME=VALUE, of the names {', '.join(names)}")
        pairs.append((name, value))
    return pairs


#: Import a library that a signer needs, or raise SignerFault.
require: Final = partial(errors.require, kind=SignerFault)


class RemoteKey(ABC):
    """A signer whose private key is elsewhere; each kind is a subclass.

    Making one takes the URI apart (``signer.uri`` if that cannot be done), and asks nobody.

    Attributes:
        FORM: What a URI of this kind is, as a whole.
        EXPECTED: The same in words, for a message.
        parts: The groups of `FORM`, as they stand in the URI.
        public: The key that it is known by; set before it is opened to sign.
    """

    FORM: ClassVar[re.Pattern[str]]
    EXPECTED: ClassVar[str]

    public: PublicKey

    def __init__(self, uri: str, access: Access) -> None:
        match = self.FORM.fullmatch(uri)
        if match is None or len(uri) > MAX_URI_CHARS:
            refuse_uri(uri, f"expected a percent-encoded URI: {self.EXPECTED}")
        self.uri, self.access, self.parts = uri, access, match.groupdict()

    def sign(self, signing_input: bytes) -> bytes:
        """Let the private key sign ``protected.payload``, as JWS wants it.

        For ES256 that is r and s, 32 bytes each; for RS256 PKCS #1 v1.5.

        Raises:
            SignerFault: ``signer.wrong_key``; as :meth:`connected`.
            PassphraseFault: A secret is not available.
        """
        with self.connected() as service:
            answer = self.request_signature(service, signing_input)
        # A wrong key, version, padding or form is found here, and not by a peer.
        check_answer(self.public, signing_input, answer)
        return answer

    def fetch_public(self, kid: str | None = None) -> PublicKey:
        """Return the public key that the signer shows.

        Raises:
            SignerFault: ``signer.no_public``; as :meth:`connected`.
            KeyRefused: It is weak, or for neither ES256 nor RS256.
        """
        with self.connected() as service:
            shown = self.request_public(service)
        if isinstance(shown, bytes):
            load = load_pem_public_key if shown.startswith(b"-----") else load_der_public_key
            try:
                shown = jwk_of(load(shown))
            except (ValueError, UnsupportedAlgorithm) as exc:
                message = "the signer shows no public key on P-256 (Vault: ecdsa-p256) or of RSA"
                raise SignerFault("signer.no_public", message, path=self.uri) from exc
        return PublicKey.from_jwk(shown, kid=kid, algorithms=STATEMENT_ALGORITHMS)

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Yield the client of the key's service, and convert what its library raises.

        Raises:
            SignerFault: ``usage.not_installed``, ``signer.uri``, ``config.not_allowed``,
                ``signer.unreachable``, ``signer.credentials``, ``signer.no_key``,
                ``signer.failed``.
            PassphraseFault: A secret is not available.
        """
        yield None

    @abstractmethod
    def request_public(self, service: Any) -> bytes | Mapping[str, str]:
        """Ask for the public key: a SubjectPublicKeyInfo in PEM or DER, or a JWK without kid.

        Raises:
            SignerFault: ``signer.no_public`` where it is not available this way;
                ``signer.no_key``.
        """

    @abstractmethod
    def request_signature(self, service: Any, signing_input: bytes) -> bytes:
        """Ask for a signature of ``protected.payload`` as JWS wants it; nothing is believed.

        Raises:
            SignerFault: ``config.not_allowed``, ``signer.unreachable``, ``signer.no_key``,
                ``signer.failed``.
        """


# Tokens: smart cards, HSMs and SoftHSM, by python-pkcs11.


MODULE_VARIABLE: Final = "CARDSIGN_PKCS11_MODULE"

_DIGEST_INFO: Final = bytes.fromhex("3031300d060960864801650304020105000420")  # RFC 8017 9.2
_TOKEN: Final = ("token", "manufacturer", "model", "serial")
_KEY_TYPES: Final = {"ES256": "EC", "RS256": "RSA"}
_LOGGED_IN: Final = threading.Lock()  # a login is the process's, not the session's


class TokenKey(RemoteKey):
    """A private key on a token; a session lasts for one signature, so nobody stays logged in.

    ES256 is CKM_ECDSA over our own SHA-256, which gives r and s as JWS wants them; RS256 is
    CKM_RSA_PKCS over our own DigestInfo.

    Attributes:
        token: Label, manufacturer, model and serial number of the token, as far as given.
        label: CKA_LABEL of the key, or None.
        id: CKA_ID of the key, or None.
    """

    FORM = re.compile(rf"pkcs11:(?P<path>{ENCODED})")
    EXPECTED = "pkcs11:token=TOKEN;object=KEY"

    def __init__(self, uri: str, access: Access) -> None:
        """Take the URI apart; every attribute counts, an unknown one is refused (RFC 7512 2.3)."""
        if "?" in uri:  # it may be a PIN, and is not repeated
            hint = f"Set {MODULE_VARIABLE} to the library, and {PIN_VARIABLE} to the PIN."
            refuse_uri("pkcs11:...", "a token's URI names no library and no PIN here", hint)
        super().__init__(uri, access)
        pairs = read_attributes(uri, self.parts["path"], ";", (*_TOKEN, "object", "id", "type"))
        encoded = dict(pairs)
        if len(encoded) < len(pairs):
            refuse_uri(uri, "an attribute is there twice")
        self.id = unquote_to_bytes(encoded.pop("id")) if "id" in encoded else None
        values = {name: decode_part(uri, value) for name, value in encoded.items()}
        if values.get("type", "private") != "private":
            refuse_uri(uri, "expected type=private, or no type")
        self.token = {name: value for name, value in values.items() if name in _TOKEN}
        self.label = values.get("object")
        if not self.token or (self.label is None and self.id is None):
            refuse_uri(uri, "expected a token or its serial, and the object or id of a key")

    def request_public(self, service: tuple[Any, Any]) -> bytes:
        """Read the public key object that stands beside the private one; empty if there is none."""
        library, session = service
        key = self._find(library, session, "PUBLIC_KEY")
        if key is None:  # but the private one should be there
            self._find(library, session, "PRIVATE_KEY")
        if key and key.key_type == library.KeyType.RSA:
            return bytes(library.util.rsa.encode_rsa_public_key(key))
        if key and key.key_type == library.KeyType.EC:
            return bytes(library.util.ec.encode_ec_public_key(key))
        return b""

    def request_signature(self, service: tuple[Any, Any], signing_input: bytes) -> bytes:
        library, session = service
        digest, alg = hashlib.sha256(signing_input).digest(), self.public.alg
        key_type = library.KeyType[_KEY_TYPES[alg]]
        key = self._find(library, session, "PRIVATE_KEY", KEY_TYPE=key_type)
        if alg == "ES256":
            return bytes(key.sign(digest, mechanism=library.Mechanism.ECDSA))
        return bytes(key.sign(_DIGEST_INFO + digest, mechanism=library.Mechanism.RSA_PKCS))

    def _find(self, library: Any, session: Any, kind: str, **of_type: Any) -> Any:
        """Return the only key of a kind that fits; None where the private one stands alone."""
        of_kind = {library.Attribute.CLASS: library.ObjectClass[kind]}
        named = {"LABEL": self.label, "ID": self.id, **of_type}
        named = {library.Attribute[name]: named[name] for name in named if named[name] is not None}
        # All of them, because of several get_key leaves the search open.
        keys = list(session.get_objects(of_kind | named))
        if len(keys) > 1:
            message = f"{len(keys)} keys on the token fit; name both object and id"
            raise SignerFault("signer.no_key", message, path=self.uri)
        if not keys and kind == "PRIVATE_KEY":
            keys = session.get_objects(of_kind)
            names = ", ".join(f"{key.key_type.name} {key.label!r}" for key in keys)[:_MAX_WORDS]
            message = f"no such private key is there, but: {names or 'none'}"
            raise SignerFault("signer.no_key", message, path=self.uri)
        return keys[0] if keys else None

    @contextmanager
    def connected(self) -> Iterator[tuple[Any, Any]]:
        """Log in with the library that the user names, and yield it with the session."""
        module = self.access.variable(MODULE_VARIABLE) or ""
        if not os.path.isabs(module):  # a relative one would be the repository's
            message = "no PKCS#11 library is named by the user, by its absolute path"
            hint = f"Set {MODULE_VARIABLE}=/LIBRARY.so."
            raise SignerFault("config.not_allowed", message, path=self.uri, hint=hint)
        library = require("pkcs11", extra="pkcs11")
        with _LOGGED_IN, _converted(self.uri, module, library.PKCS11Error, words="args"):
            try:
                token = self._token(library, module)
                with token.open(user_pin=self._pin(library, token)) as session:
                    yield library, session
            finally:
                _forget_errors_of_openssl()

    def _token(self, library: Any, module: str) -> Any:
        fitting = []
        for token in library.lib(module).get_tokens():
            attributes = {  # as a URI would spell them
                "token": str(token.label),
                "serial": bytes(token.serial).decode(errors="replace").strip(),
                "manufacturer": str(token.manufacturer_id),
                "model": str(token.model),
            }
            if self.token.items() <= attributes.items():
                fitting.append(token)
        if not fitting:
            message = "no token of this description is present"
            hint = "Insert it, or see what is there: pkcs11-tool --module LIBRARY --list-slots."
            raise SignerFault("signer.unreachable", message, path=self.uri, hint=hint)
        if len(fitting) > 1:
            message = f"{len(fitting)} tokens fit; add their serial to the URI"
            raise SignerFault("signer.no_key", message, path=self.uri)
        return fitting[0]

    def _pin(self, library: Any, token: Any) -> Any:
        if token.flags & library.TokenFlag.PROTECTED_AUTHENTICATION_PATH:
            return library.PROTECTED_AUTH  # typed on the device itself
        # A PIN that is not UTF-8 is a wrong one, and the token says so.
        return self.access.secrets("pin", f"token {token.label!r}").decode(errors="replace")


def _forget_errors_of_openssl() -> None:
    """Empty this thread's queue of errors, which a token's library may share with ours.

    SoftHSM leaves one there, and the next read of an open TLS connection would take it for its
    own. Python empties the queue when no cipher fits.
    """
    with suppress(ssl.SSLError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers("NONE")


# Key services, and programs. A service is always sent the SHA-256 of the signing input, by the
# library that it gives out. What that library raises is converted in one place.

MAX_SECONDS: Final = 30  # for one request, of which a library makes up to three
_MAX_WORDS: Final = 200  # characters of a server's own words in a message

#: What the services and their libraries call a refusal, by what it means for the user.
_REFUSALS: Final[Mapping[str, re.Pattern[str]]] = {
    "signer.credentials": re.compile(
        "AccessDenied|Expired|Incomplete|InvalidClientToken|InvalidSignature|Unrecognized"
        "|Credentials|Refresh|PermissionDenied|Forbidden|Unauth|ClientAuthentication|Pin"
    ),
    "signer.no_key": re.compile(
        "NotFound|InvalidKeyUsage|Disabled|InvalidState|FailedPrecondition|InvalidPath"
        "|InvalidRequest"
    ),
    "signer.unreachable": re.compile(
        "DeadlineExceeded|Retry|Unavailable|Transport|ServiceRequest|ServiceResponse|VaultDown"
        "|NotInitialized|BadGateway|Connect|Timeout|SSL|Proxy|Endpoint"
        # The last is of a library that cannot be loaded, and no other.
        "|TokenNotPresent|DeviceRemoved|PKCS11Error"
    ),
    "signer.uri": re.compile("Region"),
}
#: What to do about a refusal of which the text of its code says too little.
_HINTS: Final = {
    "NoRegionError": "Set AWS_DEFAULT_REGION, or name the key by its ARN.",
    "NoCredentialsError": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or assume an IAM role.",
    "SSLError": "Name the CA of its certificate: BAO_CACERT, VAULT_CACERT or AWS_CA_BUNDLE=FILE.",
    "DefaultCredentialsError": "Name the file of credentials in GOOGLE_APPLICATION_CREDENTIALS.",
    "ClientAuthenticationError": "No credentials for Azure were accepted. Set AZURE_TENANT_ID, "
    "AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or sign in: az login",
}


@contextmanager
def _converted(
    uri: str, service: str, *faults: type[Exception], words: str = "errors"
) -> Iterator[None]:
    """Convert what a service's library raises.

    Args:
        uri: The key's.
        service: What the message calls the service.
        faults: The library's exceptions; ``signer.failed`` where :data:`_REFUSALS` has no code.
        words: The attribute in which they have what else the message says.
    """
    try:
        yield
    except faults as exc:
        name = _name_refusal(exc)
        codes = (code for code, names in _REFUSALS.items() if names.search(name))
        text = "; ".join(map(str, getattr(exc, words, None) or ()))
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        # The service may be the long path of a library, which is named twice where it is absent.
        text = text.replace(service, "it").replace("it: it:", "it:")[:_MAX_WORDS]
        message = f"{service} cannot be used: {name}" + (f": {text}" if text else "")
        code, hint = next(codes, "signer.failed"), _HINTS.get(name, "")
        raise SignerFault(code, message, path=uri, hint=hint) from exc
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as exc:
        raise SignerFault("signer.failed", f"the answer is not one of {service}", path=uri) from exc


def _name_refusal(exc: Any) -> str:
    """Return the service's own name for a refusal, or that of the exception."""
    response = getattr(exc, "response", None)
    if isinstance(response, dict):  # botocore's
        return str(response.get("Error", {}).get("Code", ""))
    if "KeyDisabled" in str(getattr(exc, "error", "")):  # Azure's
        return "KeyDisabled"
    return "Forbidden" if getattr(exc, "status_code", 0) == 403 else type(exc).__name__


def _raw_signature(answer: bytes, alg: str) -> bytes:
    """Return the signature of a service that answers in DER, in the form of JWS."""
    return raw_from_der(answer) if alg == "ES256" else answer


_AWS_ID: Final = r"(?:mrk-[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_AWS_ARN: Final = r"arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):[0-9]{12}:key/"
#: boto3 itself reads the first alone, AWS's other libraries the second.
_AWS_REGION: Final = ("AWS_DEFAULT_REGION", "AWS_REGION")
_AWS_ALGORITHMS: Final = {"ES256": "ECDSA_SHA_256", "RS256": "RSASSA_PKCS1_V1_5_SHA_256"}


class AwsKey(RemoteKey):
    """A key of AWS KMS, by boto3, whose credentials, region and endpoint serve.

    The digest is sent as such: KMS takes 4,096 bytes of a message, and a card may have more.
    """

    FORM = re.compile(rf"awskms:///(?P<id>(?:{_AWS_ARN})?{_AWS_ID})")
    EXPECTED = "awskms:///KEY, the id or ARN of a key; an alias may move to another key"

    def request_public(self, service: Any) -> bytes:
        return bytes(service.get_public_key(KeyId=self.parts["id"])["PublicKey"])

    def request_signature(self, service: Any, signing_input: bytes) -> bytes:
        answer = service.sign(
            KeyId=self.parts["id"],
            Message=hashlib.sha256(signing_input).digest(),
            MessageType="DIGEST",
            SigningAlgorithm=_AWS_ALGORITHMS[self.public.alg],
        )
        return _raw_signature(bytes(answer["Signature"]), self.public.alg)

    @contextmanager
    def connected(self) -> Iterator[Any]:
        boto3 = require("boto3", extra="aws")
        config = require("botocore.config", extra="aws").Config(
            connect_timeout=MAX_SECONDS, read_timeout=MAX_SECONDS, retries={"total_max_attempts": 3}
        )
        raised = require("botocore.exceptions", extra="aws")
        with _converted(self.uri, "KMS", raised.ClientError, raised.BotoCoreError):
            region = self.parts["region"] or self.access.variable(*_AWS_REGION)
            client = boto3.session.Session().client("kms", region_name=region, config=config)
            with closing(client):
                yield client


#: Only Microsoft's own: the access token that is sent there opens more than one vault.
_AZURE_HOSTS: Final = (
    r"vault\.azure\.net|managedhsm\.azure\.net|vault\.azure\.cn|vault\.usgovcloudapi\.net"
)


class AzureKey(RemoteKey):
    """One version of a key of Azure Key Vault, with the credentials that azure-identity finds."""

    FORM = re.compile(
        rf"azurekms://(?P<vault>[a-z0-9](?:-?[a-z0-9]){{2,23}})(?:\.(?P<host>{_AZURE_HOSTS}))?"
        r"/(?P<name>[0-9A-Za-z-]{1,127})/(?P<version>[0-9a-f]{32})"
    )
    EXPECTED = "azurekms://VAULT/KEY/VERSION, the version of 32 hex digits"

    def request_public(self, service: Any) -> dict[str, str]:
        key = service.get_key(self.parts["name"], self.parts["version"]).key
        members = {name: getattr(key, name) for name in ("x", "y", "n", "e")}
        jwk = {name: encode_base64url(value) for name, value in members.items() if value}
        return {**jwk, "kty": key.kty.removesuffix("-HSM"), "crv": key.crv or ""}

    def request_signature(self, service: Any, signing_input: bytes) -> bytes:
        crypto = require("azure.keyvault.keys.crypto", extra="azure")
        name, version = self.parts["name"], self.parts["version"]
        client = service.get_cryptography_client(name, key_version=version)
        algorithm = crypto.SignatureAlgorithm(self.public.alg)
        return bytes(client.sign(algorithm, hashlib.sha256(signing_input).digest()).signature)

    @contextmanager
    def connected(self) -> Iterator[Any]:
        keys = require("azure.keyvault.keys", extra="azure")
        raised = require("azure.core.exceptions", extra="azure")
        identity = require("azure.identity", extra="azure")
        host = self.parts["host"] or "vault.azure.net"
        vault = f"https://{self.parts['vault']}.{host}"
        patience = {"connection_timeout": MAX_SECONDS, "read_timeout": MAX_SECONDS}
        with (
            _converted(self.uri, "Key Vault", raised.AzureError),
            closing(identity.DefaultAzureCredential()) as credential,
            keys.KeyClient(vault, credential, retry_total=2, **patience) as client,
        ):
            try:
                yield client
            except raised.ServiceRequestError:
                # A machine without credentials often has no way to the vault either: they come
                # first. Where there are some, the fault is the network's.
                credential.get_token(f"https://{host}/.default")
                raise


_GOOGLE_PART: Final = r"[A-Za-z0-9_.:-]+"
_GOOGLE_FOLDERS: Final = ("projects", "locations", "keyRings", "cryptoKeys")


class GoogleKey(RemoteKey):
    """One version of a key of Google Cloud KMS, with Google's default credentials."""

    FORM = re.compile(
        "gcpkms://(?P<name>"
        + "".join(f"{folder}/{_GOOGLE_PART}/" for folder in _GOOGLE_FOLDERS)
        + "cryptoKeyVersions/[1-9][0-9]{0,8})"
    )
    EXPECTED = "gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/N"

    def request_public(self, service: Any) -> bytes:
        return str(service.get_public_key(request=self.parts, timeout=MAX_SECONDS).pem).encode()

    def request_signature(self, service: Any, signing_input: bytes) -> bytes:
        digest = {"sha256": hashlib.sha256(signing_input).digest()}
        request = {**self.parts, "digest": digest}
        answer = service.asymmetric_sign(request=request, timeout=MAX_SECONDS)
        return _raw_signature(bytes(answer.signature), self.public.alg)

    @contextmanager
    def connected(self) -> Iterator[Any]:
        kms = require("google.cloud.kms", extra="gcp")
        api = require("google.api_core.exceptions", extra="gcp").GoogleAPIError
        identity = require("google.auth.exceptions", extra="gcp").GoogleAuthError
        with _converted(self.uri, "KMS", api, identity), kms.KeyManagementServiceClient() as client:
            yield client


_VAULT_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
#: What is asked for; by itself the engine answers in DER, and pads RSA by PSS.
_VAULT_FORMS: Final = {
    "ES256": {"marshaling_algorithm": "jws"},
    "RS256": {"signature_algorithm": "pkcs1v15"},
}


class VaultKey(RemoteKey):
    """One version of a key in the transit engine of Vault or OpenBao, by hvac.

    The user's environment says which server is asked, never the URI. The version is part of the
    URI: a key that is rotated there would else sign with one that nobody has published.
    """

    FORM = re.compile(
        rf"hashivault://(?P<mount>{_VAULT_NAME}(?:/{_VAULT_NAME})*)/(?P<name>{_VAULT_NAME})"
        r"\?version=(?P<version>[1-9][0-9]{0,8})"
    )
    EXPECTED = "hashivault://MOUNT/KEY?version=N, a number from 1 on"

    def request_public(self, service: Any) -> bytes:
        key = service.read_key(self.parts["name"], self.parts["mount"])["data"]["keys"]
        version = key.get(self.parts["version"])
        if version is None:
            message = f"the key there has no version {self.parts['version']}"
            raise SignerFault("signer.no_key", message, path=self.uri)
        return str(version.get("public_key", "") if isinstance(version, dict) else "").encode()

    def request_signature(self, service: Any, signing_input: bytes) -> bytes:
        digest = hashlib.sha256(signing_input).digest()
        answer = service.sign_data(
            self.parts["name"],
            mount_point=self.parts["mount"],
            key_version=int(self.parts["version"]),
            hash_input=base64.b64encode(digest).decode(),
            hash_algorithm="sha2-256",
            prehashed=True,
            **_VAULT_FORMS[self.public.alg],
        )
        encoded = str(answer["data"]["signature"]).rpartition(":")[2]  # vault:v1:...
        # The JWS form is base64url. Anything else fails to verify afterwards.
        return base64.urlsafe_b64decode(f"{encoded}==")

    @contextmanager
    def connected(self) -> Iterator[Any]:
        hvac = require("hvac", extra="vault")
        address = self._address()
        authority = self.access.variable("BAO_CACERT", "VAULT_CACERT", "BAO_CAPATH", "VAULT_CAPATH")
        if authority and not os.path.exists(authority):
            message = "BAO_CACERT or VAULT_CACERT, the CA of the server, names no file"
            raise SignerFault("signer.uri", message, path=authority)
        faults = hvac.exceptions.VaultError, OSError
        client = hvac.Client(
            url=address,
            token=self.access.secrets("token", address).decode("latin-1"),  # as headers are
            namespace=self.access.variable("BAO_NAMESPACE", "VAULT_NAMESPACE"),
            verify=authority or True,
            timeout=MAX_SECONDS,
            allow_redirects=False,  # the token must not travel on
        )
        with closing(client.adapter), _converted(self.uri, address, *faults):
            yield client.secrets.transit

    def _address(self) -> str:
        address = self.access.variable("BAO_ADDR", "VAULT_ADDR") or ""
        scheme, _, rest = address.partition("//")
        host, slash, path = rest.partition("/")
        url = None
        with suppress(CardRefused):
            url = parse_url(f"{scheme}//{host.lower()}{slash}{path}")
        if url is None or url.query:
            message = "BAO_ADDR or VAULT_ADDR names no server by its https URL"
            hint = "Set it: export VAULT_ADDR=https://vault.example:8200."
            raise SignerFault("signer.uri", message, path=self.uri, hint=hint)
        is_allowed = self.access.policy.insecure_loopback_http and is_this_machine(url.origin.host)
        if url.origin.scheme == "http" and not is_allowed:
            message = f"{address} is asked without TLS, which would show the token to the network"
            hint = "Use https; for a test server on this machine allow insecure_loopback_http."
            raise SignerFault("config.not_allowed", message, path=self.uri, hint=hint)
        return address


class ProgramKey(RemoteKey):
    """A program, by its path and its arguments. It always needs the user's leave.

    ``exec:/absolute/path?arg=A&arg=B&env=NAME`` runs ``/absolute/path A B``: no shell, the root as
    working directory, and of the environment only what every program inherits
    (:data:`cardsign.programs.INHERITED`), the variables that ``env=`` names, and CARDSIGN_ALG,
    CARDSIGN_KID and CARDSIGN_THUMBPRINT, which say what is wanted.

    On stdin comes ``protected.payload``, ASCII. On stdout go the bytes of the JWS signature and
    nothing else, without base64, newline or DER: r and s, 32 bytes each, or PKCS #1 v1.5.
    """

    FORM = re.compile(rf"exec:(?P<path>/(?!/){ENCODED})(?:\?(?P<query>{ENCODED}))?")
    EXPECTED = "exec: and the absolute path of a program"
    MAX_SECONDS: Final = 60.0  # a person may have to touch a device
    MAX_SIGNATURE_BYTES: Final = 1024  # the signature of an RSA key of 8192 bits

    def __init__(self, uri: str, access: Access) -> None:
        super().__init__(uri, access)
        pairs = read_attributes(uri, self.parts["query"] or "", "&", ("arg", "env"))
        values = [(name, decode_part(uri, value)) for name, value in pairs]
        self.path = decode_part(uri, self.parts["path"])
        self.arguments = tuple(value for name, value in values if name == "arg")
        self.variables = [value for name, value in values if name == "env"]

    def request_public(self, service: None) -> bytes:
        """Refuse: a program only signs."""
        message = "a program cannot be asked for its public key"
        raise SignerFault("signer.no_public", message, path=self.uri)

    def request_signature(self, service: None, signing_input: bytes) -> bytes:
        """Run the program, once for each signature, and never by a key store's word alone."""
        if self.uri not in self.access.policy.allow:
            message = "the user has not allowed the program that this signer would run"
            hint = "Give the URI as --key, or allow it in your own signers.toml."
            raise SignerFault("config.not_allowed", message, path=self.uri, hint=hint)
        environment = {
            **programs.inherited(self.access.environment, *self.variables),
            "CARDSIGN_ALG": self.public.alg,
            "CARDSIGN_KID": self.public.kid,
            "CARDSIGN_THUMBPRINT": self.public.thumbprint,
        }
        try:
            return programs.run(
                (self.path, *self.arguments),
                environment,
                signing_input,
                max_seconds=self.MAX_SECONDS,
                max_answer=self.MAX_SIGNATURE_BYTES,
            )
        except programs.ProgramError as exc:
            code = "signer.failed" if exc.was_started else "signer.unreachable"
            words = f"; it said: {exc.complaint}" if exc.complaint else ""
            raise SignerFault(code, f"the program {exc}{words}", path=self.path) from exc


# Keys that this process reads itself: ``file:PATH`` and ``env:NAME``.

#: What a PEM says that no one reads without its passphrase.
_ENCRYPTED: Final = (b"BEGIN ENCRYPTED PRIVATE", b"Proc-Type: 4,ENCRYPTED")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # POSIX, Base Definitions 8.1


def read_local_key(uri: str, access: Access, kid: str | None) -> PrivateKey:
    """Read the private key that ``env:NAME`` or ``file:PATH`` names.

    It is PEM, PKCS #12, a JWK, or a JWK Set of which `kid` names one. A variable may hold the
    base64 of any of these, as some CI systems mask only values of one line.

    Raises:
        SignerFault: ``signer.uri``; ``signer.no_key``: the variable is not set, or empty.
        UsageFault: As :func:`import_private_key` refuses.
        PassphraseFault: As :func:`import_private_key`.
        FileFault: Such as ``file.permissions``: others can read a key that is not encrypted.
    """
    data = _read_local(uri, access)
    name = uri.removeprefix("env:")
    with of_the_user(uri):
        try:
            password = partial(access.secrets, "passphrase", uri)
            return import_private_key(data, kid=kid, password=password)
        except KeyRefused as refusal:
            if name != uri and b"-----BEGIN" in data and b"\n" not in data.strip():
                hint = f'Keep them by quotes: export {name}="$(cat key.pem)"; or give one line '
                hint += f'of base64: export {name}="$(base64 -w 0 key.pem)".'
                message = "this PEM has lost its line breaks, or has \\n (two characters) for each"
                raise KeyRefused("key.malformed", message, hint=hint) from refusal
            raise


def _is_public(data: bytes) -> bool:
    """Say whether a key file is meant as public; what is read as such is refused if it is not."""
    if data.lstrip().startswith(b"{"):
        return not re.search(rb'"d"\s*:', data)
    is_of_public = re.search(rb" (?:PUBLIC KEY|CERTIFICATE)-----", data)
    return bool(is_of_public) and b" PRIVATE KEY-----" not in data


def _read_local(uri: str, access: Access) -> bytes:
    if uri.startswith("env:"):
        return _read_variable(uri, uri.removeprefix("env:"), access.environment)
    path = Path(uri.removeprefix("file:"))
    if uri == "file:" or not (is_shown(uri) or os.path.exists(path)):
        refuse_uri(uri, "there is no such file; expected file:PATH, as file:card-key.pem")

    def may_be_shared(data: bytes) -> bool:
        return _is_public(data) or any(mark in data for mark in _ENCRYPTED)

    return read_secret(path, max_bytes=MAX_KEY_FILE_BYTES, is_encrypted=may_be_shared)


def _read_variable(uri: str, name: str, environment: Mapping[str, str]) -> bytes:
    if not _VARIABLE.fullmatch(name) or (name not in environment and not is_shown(uri)):
        # Not repeated: someone may have written the key itself where its variable's name goes.
        message = "expected env: and the name of an environment variable, without its `$`"
        raise SignerFault("signer.uri", message)
    value = environment.get(name, "").strip()
    if not value:
        problem = "is empty" if name in environment else "is not set"
        message = f"the environment variable {name} {problem}"
        hint = f'Set it: export {name}="$(cat key.pem)". In CI the job must name the secret, '
        hint += "and a pull request from a fork gets none."
        raise SignerFault("signer.no_key", message, path=uri, hint=hint)
    if os.path.isfile(value):  # as a variable of type File in GitLab CI
        message = f"the environment variable {name} holds the name of a file"
        hint = f'Name the file: --key file:"${name}".'
        raise SignerFault("signer.no_key", message, path=uri, hint=hint)
    data = os.fsencode(value)
    try:
        decoded = base64.b64decode(b"".join(data.split()), validate=True)
    except binascii.Error:
        return data
    return decoded if decoded.lstrip().startswith((b"-----BEGIN", b"{", b"\x30")) else data


# What a URI names.

SCHEMES: Final[Mapping[str, type[RemoteKey]]] = {
    "awskms": AwsKey,
    "azurekms": AzureKey,
    "exec": ProgramKey,
    "gcpkms": GoogleKey,
    "hashivault": VaultKey,
    "pkcs11": TokenKey,
}

#: Signed when a key is enrolled, to see that it can: no JWS has such a protected header.
CHALLENGE: Final = b"cardsign: does this signer hold this key?"


def open_signer(
    uri: str,
    public: PublicKey | None = None,
    access: Access | None = None,
    *,
    kid: str | None = None,
) -> Signer:
    """Return the signer that `uri` names.

    ::

        sign_card(card, [open_signer("env:CARD_KEY", kid="card-2026")])

    A key of ``env:`` or ``file:`` is read now. Every other signer is asked only when it signs.

    Args:
        uri: Where the private key is.
        public: The key that the signer must turn out to hold; may be left out for ``env:`` and
            ``file:``.
        access: Where secrets come from; by default the environment, with the passphrase of
            ``CARDSIGN_PASSPHRASE``.
        kid: If `public` is left out [default: a JWK's own, else the thumbprint].

    Raises:
        SignerFault: ``signer.uri``, ``config.not_allowed``, ``usage.not_installed``,
            ``signer.wrong_key``, ``signer.no_key``, or ``signer.no_public``: `public` is left out.
        UsageFault: ``key.*`` or ``json.*``: what is there is no private key that can sign a card.
        PassphraseFault: ``passphrase.none``, ``passphrase.wrong``, or what the secrets raise.
        FileFault: Such as ``file.permissions``: others can read a key that is not encrypted.
    """
    optional = {"public": (public, PublicKey | None), "access": (access, Access | None)}
    check_types("open_signer('file:key.pem')", uri=(uri, str), kid=(kid, str | None), **optional)
    if access is None:  # nobody is asked, and nothing more is allowed
        usual = user_secrets(PassphraseSource(environment=os.environ))
        access = Access(usual, environment=os.environ)
    key = find_remote_key(uri, access)
    if key is None:
        private = read_local_key(uri, access, public.kid if public else kid)
        if public is not None and private.public != public:
            message = f"this is not the private key of {public.kid!r}"
            raise SignerFault("signer.wrong_key", message, path=uri, hint="Name the right key.")
        return private
    if public is None:
        message = "the public key of this signer must be known before it signs"
        raise SignerFault("signer.no_public", message, path=uri)
    if public.alg not in STATEMENT_ALGORITHMS:
        message = f"a signer of this kind signs with ES256 or RS256, not {public.alg}"
        raise SignerFault("signer.uri", message, path=uri, hint="Use env: or file:.")
    key.public = public
    return key


def find_remote_key(uri: str, access: Access) -> RemoteKey | None:
    """Return the key that `uri` names elsewhere, of which nothing is asked yet.

    None for ``env:`` and ``file:``, of which this process reads the private key itself.

    Raises:
        SignerFault: ``signer.uri``.
    """
    scheme = scheme_of(uri)
    if scheme in SCHEMES:
        return SCHEMES[scheme](uri, access)
    if scheme in ("env", "file"):
        return None
    # Nothing but the scheme is repeated: the rest may be the key itself.
    problem = f"`{scheme}:` is unknown" if scheme else f"a value without a scheme ({NOT_SHOWN})"
    hint = "--key takes env:NAME, file:PATH or the URI of a key service. "
    hint += "The keys of a key store sign without --key."
    if os.path.exists(uri):
        problem, hint = "a value without a scheme", f"Write --key {shlex.quote(f'file:{uri}')}."
    raise SignerFault("signer.uri", problem, hint=hint)


def list_public_keys(uri: str, access: Access, *, kid: str | None = None) -> tuple[PublicKey, ...]:
    """Return the public keys of what `uri` names, to publish or to enrol them.

    A signer elsewhere is asked for its key, which never happens when it signs. ``env:`` and
    ``file:`` may hold public keys as well.

    Raises:
        CardsignError: As :func:`open_signer`; ``signer.no_public``: the signer shows none.
    """
    key = find_remote_key(uri, access)
    if key is not None:
        return (key.fetch_public(kid),)
    data = _read_local(uri, access)
    if not _is_public(data):
        return (read_local_key(uri, access, kid).public,)
    with of_the_user(uri):
        jwks = JwkSet.from_bytes(data) if kid is None else None
        if jwks and jwks.keys and not jwks.skipped:
            return jwks.keys
        return (import_public_key(data, kid=kid),)  # or what is wrong with it


def check_possession(signer: Signer) -> None:
    """Let a signer sign :data:`CHALLENGE`, so that no key is enrolled that cannot sign.

    Raises:
        SignerFault: ``signer.wrong_key``, or what the signer itself raises.
    """
    sign_payload(CHALLENGE, signer, typ="cardsign-challenge")
