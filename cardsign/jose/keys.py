"""Keys, each of one algorithm: public ones, private ones for ES256, RS256 and EdDSA, and sets.

Everything that is said about a key is computed from its numbers, never copied from the
document it came in; and a private key is shown nowhere but in :meth:`PrivateKey.to_pkcs8_der`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.registry import JWS_HEADER_REGISTRY

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json, members_of, pointer
from cardsign.errors import (
    JsonRefused,
    KeyRefused,
    PassphraseFault,
    SignatureRefused,
    SignerFault,
    check_types,
    place_below,
)
from cardsign.jose.jwk import (
    ALGORITHMS,
    ED25519,
    EXPONENT,
    NEW_MODULUS_BITS,
    SIGNING_ALGORITHMS,
    JoseKey,
    NativePrivateKey,
    NativePublicKey,
    SigningAlg,
    VerifyAlg,
    check_purpose,
    decode_base64url,
    encode_base64url,
    encoded_length,
    jwk_of,
    jwk_of_pem,
    read_key,
    read_private_key,
    refuse_private_members,
    refuse_shared_primes,
    text_member,
)
from cardsign.times import MAX_TIME

# What joserfc is called with to verify a signature, in the one way that is safe for us: one key at
# a time, and the payload detached. It refuses attached payloads over 128,000 bytes, and takes the
# only key of a set for a signature that names none. What it does not refuse, such as ``crit`` and
# ``b64``, is refused before it is called: :mod:`cardsign.jose.jws`.


#: Bytes of a protected header's JSON. Ours have about 100, as have those of public cards; a signer
#: may add a certificate or two, which count for nothing.
MAX_HEADER_BYTES: Final = 4 * 1024
#: Bytes of a signature: that of the largest RSA key, of 8192 bits.
MAX_SIGNATURE_BYTES: Final = 1024


class _Registry(jws.JWSRegistry):
    """What joserfc verifies for us: our ten algorithms, and headers and keys of our sizes.

    joserfc's own registry refuses headers over 512 bytes and the signatures of RSA keys of 8192
    bits, and judges members, such as ``x5c``, that weigh nothing here.
    """

    max_header_length = encoded_length(MAX_HEADER_BYTES)
    max_signature_length = encoded_length(MAX_SIGNATURE_BYTES)

    def __init__(self) -> None:
        super().__init__(algorithms={*ALGORITHMS, ED25519}, strict_check_header=False)
        self.header_registry = {name: JWS_HEADER_REGISTRY[name] for name in ("alg", "kid", "typ")}

    def get_alg(self, name: str) -> Any:
        """Return the algorithm of a header, without joserfc's warning of the name EdDSA."""
        if name not in (self.allowed or ()):
            raise UnsupportedAlgorithmError
        return self.algorithms[name]


REGISTRY: Final = _Registry()


def raw_from_der(der: bytes) -> bytes:
    """Return r and s of an ES256 signature in DER (X9.62) in the form of JWS, 32 bytes each.

    Raises:
        ValueError: It is not DER.
        OverflowError: A number is longer.
    """
    r, s = decode_dss_signature(der)
    return r.to_bytes(32) + s.to_bytes(32)


#: What a kid may be: short enough for a header, and nothing that a terminal or log would obey.
#: It is opaque otherwise, and no path: ``../../etc/passwd`` is a kid.
KID_FORM: Final = re.compile(r"[\x20-\x7e]{1,256}")


def short_kid(kid: str) -> str:
    """Return a kid or a thumbprint as people read it, after the role: its first 8 characters."""
    return kid if len(kid) <= 12 else f"{kid[:8]}..."


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A sound public key and the one algorithm that it serves.

    Two are equal if they are the same numbers under the same kid. Made by :meth:`from_jwk`
    and :meth:`from_cryptography`; the constructor checks nothing.

    Attributes:
        kid: The name under which its issuer publishes it, or the thumbprint. Only a hint.
        alg: Of :data:`~cardsign.jose.jwk.ALGORITHMS`; RSA has 2048 to 8192 bits and the
            exponent 65537, whichever of its algorithms this is.
        thumbprint: RFC 7638, SHA-256, of the numbers: the key's identity.
        jose: The key as joserfc holds it.
        nbf: Unix seconds, from which its JWK says that it may be used; 0 if it says nothing.
        exp: Before which it says so; :data:`~cardsign.times.MAX_TIME` if it says nothing.
        revoked: Whether its JWK says so.
    """

    kid: str
    alg: VerifyAlg
    thumbprint: str
    jose: JoseKey = field(repr=False, compare=False)
    nbf: int = field(default=0, repr=False, compare=False)
    exp: int = field(default=MAX_TIME, repr=False, compare=False)
    revoked: bool = field(default=False, repr=False, compare=False)

    @classmethod
    def from_jwk(
        cls,
        untrusted_jwk: Mapping[str, Json],
        *,
        kid: str | None = None,
        algorithms: Collection[str] = ALGORITHMS,
    ) -> PublicKey:
        """Read one JWK (RFC 7517); unknown members, certificates among them, are ignored.

        Args:
            untrusted_jwk: The object; its ``kid`` may be absent.
            kid: The name to use instead of the JWK's own.
            algorithms: What the key may be for; by default anything that a card can be signed with.

        Raises:
            KeyRefused: ``key.private_material``; ``key.unsupported``, ``key.use`` and
                ``key.alg_mismatch`` (a key for another purpose); ``key.weak_rsa``;
                ``key.malformed``. ``path`` is a JSON pointer into the JWK.
        """
        kinds = {"kid": (kid, str | None), "algorithms": (algorithms, Collection)}
        check_types("from_jwk(json.loads(text), kid=None)", jwk=(untrusted_jwk, Mapping), **kinds)
        refuse_private_members(untrusted_jwk)
        alg = check_purpose(untrusted_jwk, algorithms, operation="verify")
        key = read_key(untrusted_jwk, alg)
        thumbprint = key.thumbprint()
        if kid is None:
            kid = text_member(untrusted_jwk, "kid") if "kid" in untrusted_jwk else thumbprint
        if not KID_FORM.fullmatch(kid):
            message = "the kid is not 1 to 256 printable ASCII characters"
            raise KeyRefused("key.malformed", message, path="/kid", hint="Choose another kid.")
        # As OpenID Federation has them.
        times = _read_time(untrusted_jwk, "nbf", 0), _read_time(untrusted_jwk, "exp", MAX_TIME)
        revoked = untrusted_jwk.get("revoked", False) not in (False, None)
        return cls(kid, alg, thumbprint, key, *times, revoked)

    @classmethod
    def from_cryptography(cls, public_key: object, *, kid: str | None = None) -> PublicKey:
        """Take over a key object of `cryptography` that cards can be signed with.

        Raises:
            KeyRefused: As :meth:`from_jwk` of its numbers.
        """
        example = "PublicKey.from_cryptography(key.public_key())"
        _check_native(example, public_key, "public_bytes", "public_key")
        return cls.from_jwk(jwk_of(public_key), kid=kid, algorithms=SIGNING_ALGORITHMS)

    @property
    def native(self) -> NativePublicKey:
        """The key as `cryptography` holds it."""
        return cast(NativePublicKey, self.jose.public_key)

    def jwk(self) -> dict[str, str]:
        """Return the key as a new JWK: its numbers, ``kid``, ``use`` and ``alg``, nothing else."""
        return {**jwk_of(self.native), "kid": self.kid, "use": "sig", "alg": self.alg}

    def jwk_in_use(self) -> dict[str, Json]:
        """Return the same with what its own JWK said of its use: ``nbf``, ``exp``, ``revoked``."""
        members: dict[str, Json] = {**self.jwk()}
        members |= {"nbf": self.nbf} if self.nbf else {}
        members |= {"exp": self.exp} if self.exp < MAX_TIME else {}
        return members | ({"revoked": True} if self.revoked else {})

    def check(self, protected: str, payload: bytes, signature: bytes) -> None:
        """Check that this key made a signature over a header and a payload; joserfc decides.

        Both halves of the ECDSA range are accepted, as RFC 7518 3.4 does: a holder of one
        signature can make the other, so no signature may serve as an identity.

        Args:
            protected: The header, base64url (RFC 7515 5.2), whose ``alg`` is this key's.
            payload: The bytes before base64url.
            signature: On P-256, P-384 and P-521 r and s at full length, never DER. RSA: PKCS #1
                v1.5, or PSS with a salt as long as the hash (RFC 7518 3.5). Ed25519: R and S.

        Raises:
            SignatureRefused: ``sig.bad``.
        """
        check_types("key.check(entry['protected'], b'...', b'...')", protected=(protected, str))
        check_types("key.check(protected, b'...', signature)", payload=(payload, bytes))
        self.check_length(signature)  # OpenSSL takes one of RSA without its leading zeros, too
        token = f"{protected}..{encode_base64url(signature)}"
        try:
            jws.deserialize_compact(token, self.jose, payload=payload, registry=REGISTRY)
        except (JoseError, KeyError, TypeError, ValueError) as exc:  # all that joserfc 1.8 raises
            message = "the signature does not fit these bytes and this key"
            raise SignatureRefused("sig.bad", message, path="/signature") from exc

    def check_length(self, signature: bytes) -> None:
        """Check that a signature by this key can have this length.

        Raises:
            SignatureRefused: ``sig.bad``.
        """
        check_types("key.check_length(b'...')", signature=(signature, bytes))
        size = ALGORITHMS[self.alg][2] or (cast(rsa.RSAPublicKey, self.native).key_size + 7) // 8
        if len(signature) != size:
            expected = f"expected {size} for {self.alg} with this key"
            message = f"the signature has {len(signature)} bytes, {expected}"
            raise SignatureRefused("sig.bad", message, path="/signature")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as a JWK, so that another process reads it as strictly as this one did."""
        return PublicKey.from_jwk, (self.jwk_in_use(),)


def _read_time(untrusted_jwk: Mapping[str, Json], name: str, unsaid: int) -> int:
    """Return a time of a JWK in Unix seconds.

    Raises:
        KeyRefused: ``key.malformed``: it is no number of seconds.
    """
    value = untrusted_jwk.get(name, unsaid)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise KeyRefused("key.malformed", f"{name} is not a time in seconds", path=f"/{name}")
    return int(min(value, MAX_TIME))


_GENERATORS: Final[Mapping[str, Callable[[], NativePrivateKey]]] = {
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "RS256": lambda: rsa.generate_private_key(EXPONENT, NEW_MODULUS_BITS),
    "EdDSA": Ed25519PrivateKey.generate,
}


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A private key of this process; satisfies :class:`cardsign.jose.jws.Signer`.

    It prints as its public key and cannot be pickled, as a key of `cryptography` cannot.
    """

    public: PublicKey
    _native: NativePrivateKey = field(repr=False, compare=False)

    @classmethod
    def generate(cls, alg: SigningAlg, *, kid: str | None = None) -> PrivateKey:
        """Make a new key: P-256 for ES256, RSA of 3072 bits for RS256, Ed25519 for EdDSA.

        No thumbprint begins with a hyphen, for as a kid on a command line it would be an option.

        Raises:
            ValueError: There is no such algorithm.
        """
        check_types("PrivateKey.generate('ES256', kid='card-2026')", alg=(alg, str))
        if alg not in _GENERATORS:
            raise ValueError(f"{alg!r}: expected ES256, RS256 or EdDSA")
        while True:
            private = cls.from_cryptography(_GENERATORS[alg](), kid=kid)
            if not private.public.thumbprint.startswith("-"):
                return private

    @classmethod
    def from_pkcs8_der(cls, der: bytes, kid: str | None = None) -> PrivateKey:
        """Read what :meth:`to_pkcs8_der` wrote.

        Raises:
            KeyRefused: ``key.malformed``, ``key.unsupported``, ``key.weak_rsa``.
            PassphraseFault: ``passphrase.none``: the DER is encrypted.
        """
        return cls.from_cryptography(_load(serialization.load_der_private_key, der, None), kid=kid)

    @classmethod
    def from_pem(
        cls, data: bytes, password: bytes | None = None, *, kid: str | None = None
    ) -> PrivateKey:
        """Read the first private key of a PEM file: PKCS #8, SEC 1 or PKCS #1.

        Args:
            data: The file's content.
            password: Opens the key if it is encrypted; not needed, hence not used, otherwise.
            kid: The name under which the key is published, if not by its thumbprint.

        Raises:
            KeyRefused: ``key.malformed``, ``key.unsupported``, ``key.weak_rsa``.
            PassphraseFault: ``passphrase.none``; ``passphrase.wrong``.
        """
        return cls.from_cryptography(
            _load(serialization.load_pem_private_key, data, password), kid=kid
        )

    @classmethod
    def from_jwk(cls, jwk: Mapping[str, Json], *, kid: str | None = None) -> PrivateKey:
        """Read a private JWK; `kid` goes before its own.

        Raises:
            KeyRefused: As :meth:`PublicKey.from_jwk`; ``key.malformed`` also where ``d`` is
                missing or does not belong to the public numbers.
        """
        kinds = {"jwk": (jwk, Mapping), "kid": (kid, str | None)}
        check_types("PrivateKey.from_jwk(json.loads(text), kid=None)", **kinds)
        check_purpose(jwk, SIGNING_ALGORITHMS, operation="sign")
        if kid is None and "kid" in jwk:
            kid = text_member(jwk, "kid")
        return cls.from_cryptography(read_private_key(jwk), kid=kid)

    @classmethod
    def from_cryptography(cls, native: Any, *, kid: str | None = None) -> PrivateKey:
        """Take over a private key object of `cryptography`.

        Raises:
            KeyRefused: As :meth:`PublicKey.from_cryptography`.
        """
        _check_native("PrivateKey.from_pem(Path('key.pem').read_bytes())", native, "public_key")
        return cls(PublicKey.from_cryptography(native.public_key(), kid=kid), native)

    def to_pkcs8_der(self) -> bytes:
        """Return the private key in the clear, as PKCS #8 DER (RFC 5208), to be encrypted."""
        return self._native.private_bytes(
            serialization.Encoding.DER,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def sign(self, signing_input: bytes) -> bytes:
        """Sign ``protected.payload``; the same input gives the same bytes.

        Returns:
            ES256: r and s, 32 bytes each, by RFC 6979. RS256: PKCS #1 v1.5. EdDSA: R and S.
        """
        check_types("key.sign(b'...')", signing_input=(signing_input, bytes))
        if isinstance(self._native, rsa.RSAPrivateKey):
            return self._native.sign(signing_input, PKCS1v15(), SHA256())
        if isinstance(self._native, Ed25519PrivateKey):
            return self._native.sign(signing_input)
        der = self._native.sign(signing_input, ec.ECDSA(SHA256(), deterministic_signing=True))
        return raw_from_der(der)


def _check_native(example: str, native: object, *members: str) -> None:
    """Raise `TypeError` for no key object of `cryptography`, whose classes share no base."""
    if not any(hasattr(native, member) for member in members):
        raise TypeError(f"this takes a key of cryptography, not {type(native).__name__}: {example}")


def _load(
    loader: Callable[[bytes, bytes | None], object], data: bytes, password: bytes | None
) -> object:
    """Let `loader` read a private key; the one place where its exceptions are converted."""
    example = "PrivateKey.from_pem(Path('key.pem').read_bytes(), password=b'...')"
    check_types(example, data=(data, bytes), password=(password, bytes | None))
    # What is not encrypted takes no password; the words are of PKCS #8 and of older PEM.
    is_encrypted = b"BEGIN ENCRYPTED" in data or b"4,ENCRYPTED" in data
    try:
        return loader(data, (password or None) if is_encrypted else None)
    except TypeError as exc:  # its way of saying that a password is missing
        raise PassphraseFault("passphrase.none", "the private key is encrypted") from exc
    except (UnsupportedAlgorithm, ValueError) as exc:
        # An unknown cipher is so whatever the passphrase.
        if isinstance(exc, UnsupportedAlgorithm) or str(exc).startswith("Unknown key encryption"):
            message = "the key or its encryption is unknown here"
            hint = "Encrypt it anew: openssl pkey -in OLD -aes256 -out NEW."
            raise KeyRefused("key.unsupported", message, hint=hint) from exc
        if password and is_encrypted:
            message = "the passphrase does not open the private key"
            raise PassphraseFault("passphrase.wrong", message) from exc
        expected = "expected a private key as PKCS #8, SEC 1 or PKCS #1"
        raise KeyRefused("key.malformed", expected) from exc


def check_answer(public: PublicKey, signing_input: bytes, untrusted_answer: bytes) -> None:
    """Check that a signer's answer is the signature of ``protected.payload`` that JWS wants.

    Raises:
        SignerFault: ``signer.wrong_key``.
    """
    protected, _, payload = signing_input.decode("ascii").partition(".")
    try:
        public.check(protected, decode_base64url(payload), untrusted_answer)
    except SignatureRefused as exc:
        message = f"with the key {public.kid!r}: {exc.message}"
        raise SignerFault("signer.wrong_key", message) from exc


# JWK Sets (RFC 7517 section 5): read from a stranger, or built from our numbers.
#
# A set whose answer could depend on its reader is refused whole: two keys under one kid, a private
# key, a broken key. A key that is merely for something else (another type, curve, alg or use) is
# passed over and reported, so that an issuer may publish keys of tomorrow today. A set holds the
# keys of every algorithm that some policy may name. That a key is here does not let it verify:
# `read_entry` refuses a signature by an algorithm that has not been named.


#: Bytes. Room for about 150 RSA keys of 2048 bits; a set of ten keys has 5 KiB.
MAX_JWKS_BYTES: Final = 64 * 1024

_FOR_ANOTHER_PURPOSE: Final = frozenset({"key.unsupported", "key.use", "key.alg_mismatch"})


#: A key of a set that was passed over: its kid, empty where it has none that a header could name;
#: ``key.unsupported``, ``key.use`` or ``key.alg_mismatch``; and what it is not, in one sentence.
SkippedKey: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class JwkSet:
    """Sound public keys, each under a kid of its own. Make one with the class methods.

    Attributes:
        keys: In the order of the document; may be empty. Two may be the same numbers.
        skipped: The keys for another purpose, in the same order.
    """

    keys: tuple[PublicKey, ...]
    skipped: tuple[SkippedKey, ...] = ()

    @classmethod
    def of(cls, keys: Iterable[PublicKey], skipped: Iterable[SkippedKey] = ()) -> JwkSet:
        """Return a set of these keys.

        Raises:
            KeyRefused: ``jwks.duplicate_kid`` or ``jwks.shared_prime``.
        """
        example = "JwkSet.of([key.public])"
        check_types(example, keys=(keys, Iterable), skipped=(skipped, Iterable))
        jwks = cls(tuple(keys), tuple(skipped))
        for key in jwks.keys:
            check_types(example, key=(key, PublicKey))
        kids = [*(key.kid for key in jwks.keys), *(kid for kid, *_ in jwks.skipped if kid)]
        if twice := [kid for kid, count in Counter(kids).items() if count > 1]:
            message = f"two keys have the kid {twice[0]!r}, expected one"
            raise KeyRefused("jwks.duplicate_kid", message, path="/keys")
        refuse_shared_primes(key.native for key in jwks.keys)
        return jwks

    @classmethod
    def from_bytes(cls, untrusted_bytes: bytes) -> JwkSet:
        """Read a JWK Set of at most 64 KiB; members besides ``keys`` are ignored.

        One JWK, a public key in PEM and ``{kid: PEM}`` are read as a set too.

        Raises:
            KeyRefused: ``jwks.malformed`` (also where it is no strict JSON),
                ``key.private_material``, ``jwks.duplicate_kid``, ``jwks.shared_prime``, or of
                one key ``key.malformed`` or ``key.weak_rsa``. ``path`` is a JSON pointer.
        """
        example = "JwkSet.from_bytes(Path('jwks.json').read_bytes())"
        check_types(example, jwks=(untrusted_bytes, bytes))
        keys: list[PublicKey] = []
        skipped: list[SkippedKey] = []
        for place, jwk in read_jwks(untrusted_bytes):
            try:
                keys.append(PublicKey.from_jwk(jwk))
            except KeyRefused as refusal:
                if refusal.code not in _FOR_ANOTHER_PURPOSE:
                    raise place_below(refusal, place, KeyRefused) from refusal
                kid = jwk.get("kid")
                kid = kid if isinstance(kid, str) and KID_FORM.fullmatch(kid) else ""
                skipped.append((kid, refusal.code, refusal.message))
        return cls.of(keys, skipped)

    @classmethod
    def read(cls, untrusted_keys: JwkSet | bytes | str | Mapping[str, Any]) -> JwkSet:
        """Read a JWK Set in any of the forms in which a program has one.

        Args:
            untrusted_keys: The document as bytes, as text, or parsed; a set comes back as it is.

        Raises:
            KeyRefused: As :meth:`from_bytes`.
            TypeError: It is none of these, or text that is no JSON, such as a path or a URL.
        """
        if isinstance(untrusted_keys, JwkSet):
            return untrusted_keys
        keys: Any = untrusted_keys
        if isinstance(keys, Mapping):
            keys = json.dumps(keys)
        if isinstance(keys, str):
            if not keys.lstrip().startswith(("{", "-----BEGIN ")):
                example = "jwks=Path('jwks.json').read_bytes(), or Policy.from_jwks_url(...)"
                raise TypeError(f"jwks takes the keys, not a path or URL: {example}")
            keys = keys.encode("utf-8", "surrogatepass")
        return cls.from_bytes(keys)

    def find(self, kid: str) -> PublicKey | None:
        """Return the key that is published as `kid`; whose it is, the kid does not prove."""
        check_types("jwks.find('card-2026')", kid=(kid, str))
        return next((key for key in self.keys if key.kid == kid), None)

    def to_bytes(self) -> bytes:
        """Return the set as a document: sorted by kid, so that every replica writes the same bytes.

        Skipped keys are left out.
        """
        document = {"keys": [key.jwk() for key in sorted(self.keys, key=lambda key: key.kid)]}
        return json.dumps(document, indent=2).encode("ascii") + b"\n"


def read_jwks(untrusted_bytes: bytes) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """Yield the JWKs of a document, none of them checked, each with its place.

    It is a JWK Set, one JWK, a public key in PEM, or ``{kid: PEM}``, as the samples of A2A publish
    keys.

    Raises:
        KeyRefused: ``jwks.malformed``, or of a PEM as :func:`~cardsign.jose.jwk.jwk_of_pem`.
    """
    if len(untrusted_bytes) <= MAX_JWKS_BYTES and untrusted_bytes.lstrip().startswith(b"-----"):
        yield "", jwk_of_pem(untrusted_bytes)
        return
    try:
        document = parse_object(untrusted_bytes, max_bytes=MAX_JWKS_BYTES)
    except JsonRefused as exc:
        place = exc.finding.place
        raise KeyRefused(
            "jwks.malformed", exc.message, path=exc.path, line=place.line, column=place.column
        ) from exc
    if "kty" in document:
        yield "", document
        return
    jwks = document.get("keys")
    if jwks is None and any("-----BEGIN " in str(pem) for pem in document.values()):
        for kid, pem in document.items():
            try:
                yield pointer(kid), {**jwk_of_pem(str(pem).encode()), "kid": kid}
            except KeyRefused as refusal:
                raise place_below(refusal, pointer(kid), KeyRefused) from refusal
        return
    if not isinstance(jwks, list):
        message = "`keys` is missing or not a list, expected a JWK Set, a JWK, or {kid: PEM}"
        raise KeyRefused("jwks.malformed", message, path="/keys")
    for index, entry in enumerate(jwks):
        yield f"/keys/{index}", members_of(entry)
