"""Keys, key sets and signatures (JOSE): RFC 7515, 7517, 7518, 7638 and 8037."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.jose.algorithms import ALGORITHMS as ALGORITHMS
    from cardsign.jose.algorithms import SIGNING_ALGORITHMS as SIGNING_ALGORITHMS
    from cardsign.jose.algorithms import STATEMENT_ALGORITHMS as STATEMENT_ALGORITHMS
    from cardsign.jose.algorithms import VerifyAlg as VerifyAlg
    from cardsign.jose.base64url import Base64urlError as Base64urlError
    from cardsign.jose.base64url import decode as decode
    from cardsign.jose.base64url import encode as encode
    from cardsign.jose.base64url import encoded_length as encoded_length
    from cardsign.jose.jwk import EXPONENT as EXPONENT
    from cardsign.jose.jwk import refuse_shared_primes as refuse_shared_primes
    from cardsign.jose.jwk import refuse_weak as refuse_weak
    from cardsign.jose.jwks import MAX_JWKS_BYTES as MAX_JWKS_BYTES
    from cardsign.jose.jwks import JwkSet as JwkSet
    from cardsign.jose.jwks import SkippedKey as SkippedKey
    from cardsign.jose.jws import MAX_EMITTED_HEADER_CHARS as MAX_EMITTED_HEADER_CHARS
    from cardsign.jose.jws import TYP_COMPAT as TYP_COMPAT
    from cardsign.jose.jws import TYP_JOSE as TYP_JOSE
    from cardsign.jose.jws import Entry as Entry
    from cardsign.jose.jws import Signer as Signer
    from cardsign.jose.jws import check_entry as check_entry
    from cardsign.jose.jws import read_entry as read_entry
    from cardsign.jose.jws import sign_payload as sign_payload
    from cardsign.jose.keys import PrivateKey as PrivateKey
    from cardsign.jose.keys import PublicKey as PublicKey
    from cardsign.jose.keys import check_answer as check_answer
    from cardsign.jose.keys import raw_from_der as raw_from_der

__getattr__ = lazy_names(__name__)
