"""A SoftHSM of our own: tokens in a temporary folder, with keys made on them."""

from __future__ import annotations

import os
import ssl
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Where Debian and others put the library.
LIBRARIES = (
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
    "/usr/local/lib/softhsm/libsofthsm2.so",
    "/opt/homebrew/lib/softhsm/libsofthsm2.so",
)
PIN = "4711-user"
SO_PIN = "0815-officer"


@dataclass(frozen=True, slots=True)
class SoftHsm:
    """A library and the tokens that it shows: `cards`, and two called `double`."""

    library: Path

    def open(self, token: str) -> Any:
        """A session that may write."""
        import pkcs11

        found = pkcs11.lib(str(self.library)).get_token(token_label=token)
        return found.open(rw=True, user_pin=PIN)


def library() -> Path | None:
    """The library, if this machine has it."""
    return next((Path(path) for path in LIBRARIES if Path(path).exists()), None)


def make_tokens(folder: Path, found: Path) -> SoftHsm:
    """Write the configuration, which SOFTHSM2_CONF must name from now on, and make tokens."""
    (folder / "tokens").mkdir()
    configuration = folder / "softhsm2.conf"
    configuration.write_text(
        f"directories.tokendir = {folder / 'tokens'}\nobjectstore.backend = file\n"
    )
    os.environ["SOFTHSM2_CONF"] = str(configuration)
    for label in ("cards", "double", "double"):
        command = ["softhsm2-util", "--init-token", "--free", "--label", label]
        subprocess.run(
            [*command, "--so-pin", SO_PIN, "--pin", PIN], check=True, capture_output=True
        )
    hsm = SoftHsm(found)
    _make_keys(hsm)
    # SoftHSM left an error in OpenSSL's queue, which a test over TLS would take for its own.
    with suppress(ssl.SSLError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers("NONE")
    return hsm


def _make_keys(hsm: SoftHsm) -> None:
    """`cards` gets es256-a (01), rs256-a (02), two twins (03, 04), p384 (05), a lonely one (06)."""
    import pkcs11
    from pkcs11.util.ec import encode_named_curve_parameters

    with hsm.open("cards") as session:

        def elliptic(label: str, number: int, curve: str = "secp256r1") -> Any:
            parameters = session.create_domain_parameters(
                pkcs11.KeyType.EC,
                {pkcs11.Attribute.EC_PARAMS: encode_named_curve_parameters(curve)},
                local=True,
            )
            return parameters.generate_keypair(store=True, label=label, id=bytes([number]))

        elliptic("es256-a", 1)
        session.generate_keypair(pkcs11.KeyType.RSA, 2048, store=True, label="rs256-a", id=b"\x02")
        elliptic("twin", 3)
        elliptic("twin", 4)
        elliptic("p384", 5, "secp384r1")
        elliptic("lonely", 6)[0].destroy()
        elliptic("both", 7)
        session.generate_keypair(pkcs11.KeyType.RSA, 2048, store=True, label="both", id=b"\x08")
