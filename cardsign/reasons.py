"""The append-only registry of reason codes.

A code, once released, keeps its meaning for ever; a code no longer raised stays here.
Errors (:mod:`cardsign.errors`), verdicts (:mod:`cardsign.verify`), JSON output, HTTP bodies
and ``docs/reasons.md`` all draw on this table and on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ReasonCode:
    """One registered code.

    Attributes:
        code: ``group.name``.
        meaning: What it says about the card, the key or the machine; one sentence.
        hint: What a person can do about it; used where the place that raises has none better.
    """

    code: str
    meaning: str
    hint: str


# fmt: off
_TABLE: Final = (
    # --- json: bytes that are no strict JSON object -------------------------------------
    ("json.too_large", "The input is larger than the limit.",
     "Agent Cards are small; check that this is the file you meant."),
    ("json.not_utf8", "The input is not valid UTF-8.",
     "Save the file as UTF-8."),
    ("json.bom", "The input starts with a byte order mark.",
     "Save the file as UTF-8 without BOM."),
    ("json.syntax", "The input is not JSON.",
     "Mend the JSON at the place given."),
    ("json.duplicate_member", "One object holds the same member name twice.",
     "Remove one of the two; readers disagree on which of them counts."),
    ("json.number", "A number is not finite (NaN, Infinity, or too large for a double).",
     "Write a finite number, or a string."),
    ("json.integer_range", "An integer lies beyond +-(2^53-1).",
     "Write it as a string; other JSON readers would round it."),
    ("json.surrogate", "A string holds a lone surrogate.",
     "Replace the \\uD800-\\uDFFF escape by a whole character."),
    ("json.depth", "Arrays and objects are nested too deeply.",
     "Flatten the value at the place given."),
    ("json.trailing", "Something follows the JSON value.",
     "Remove what stands after the closing brace."),
    ("json.not_object", "The JSON value is not an object.",
     "An Agent Card, key or key set is a JSON object: {...}."),
    # --- card: JSON that is no card, or an ambiguous one ---------------------------------
    ("card.not_agent_card", "The object is no Agent Card: it lacks a name or any endpoint.",
     "A card needs `name` and `supportedInterfaces` (1.0) or `url` (0.3)."),
    ("card.two_spellings", "One object holds two spellings of one schema name.",
     "Keep the camelCase name of the A2A schema and remove the other."),
    ("card.type", "A schema member has the wrong JSON type.",
     "Give the member the type that the A2A schema names."),
    ("card.missing_required", "A member that A2A calls REQUIRED is missing.",
     "Add it; `--strict` makes this an error."),
    ("card.signatures_shape", "`signatures` is not a list of objects.",
     "Remove `signatures` and sign again."),
    ("card.signatures_too_many", "The card carries more signatures than the limit.",
     "Remove entries from `signatures`, then sign the card again."),
    ("card.single_signature_block", "The card has a `signature` block, which is no A2A signature.",
     "It cannot be converted (no protected header was signed); remove it and sign again."),
    ("card.no_interface", "The verified payload names no endpoint.",
     "A card without an interface cannot be called; ask its issuer."),
    ("card.origin_mismatch", "An interface lies outside the origins that the subject may use.",
     "Do not call this card; ask its issuer, or widen the policy on purpose."),
    ("card.interface_url", "An interface's url does not fit the strict URL grammar.",
     "Use https://host[:port]/path in ASCII without userinfo, backslash or control characters."),
    # --- canonical ----------------------------------------------------------------------
    ("canonical.no_form", "The card has no payload under this profile.",
     "Mend the member named, or choose another profile."),
    ("canonical.unknown_profile", "There is no profile of that name.",
     "Choose one of those listed by `cardsign canonicalize --help`."),
    # --- sig: one signature -------------------------------------------------------------
    ("sig.none", "The card is not signed.",
     "Ask its issuer to sign it: cardsign sign CARD -o OUT."),
    ("sig.shape", "A signature entry is not {protected, signature[, header]} of the right types.",
     "Ask the issuer to sign again."),
    ("sig.base64url", "A part of the signature is not canonical unpadded base64url.",
     "Ask the issuer to sign again; padding and other alphabets are refused."),
    ("sig.header", "The protected header is not a strict JSON object of at most 4 KiB.",
     "Ask the issuer to sign again."),
    ("sig.alg_forbidden", "The header's alg is not allowed here.",
     "ES256 and RS256 are accepted."),
    ("sig.kid_missing", "The header has no kid (A2A 1.0 8.4.2 demands one).",
     "Ask the issuer to sign with a kid."),
    ("sig.kid_form", "The header's kid is not 1 to 256 printable ASCII characters.",
     "Ask the issuer to use another kid."),
    ("sig.typ_forbidden", "The header's typ is none that a card signature may have.",
     "Cards are signed with typ JOSE; other types belong to other documents."),
    ("sig.crit", "The header has `crit`, which no card signature needs.",
     "Ask the issuer to sign without crit."),
    ("sig.b64", "The header has `b64`, which would change the bytes that are signed.",
     "Ask the issuer to sign without b64."),
    ("sig.header_overlap", "The unprotected header repeats, or replaces, a protected member.",
     "Ask the issuer to sign without an unprotected header."),
    ("sig.bad", "The signature fits no payload of this card: card or signature was changed.",
     "Do not use this card; fetch it again from its issuer."),
    ("sig.other_profile", "The signature fits a profile that is not accepted here.",
     "If you accept what that profile leaves open, name it with --profile."),
    ("sig.compat", "A compat signature, made for other SDKs over a lossy payload: it never counts.",
     "Nothing to do; the card's full signature decides."),
    ("sig.coverage_reduced", "A signature that covers more no longer fits; the rest covers less.",
     "Somebody changed what the remaining signature does not cover; fetch the card again."),
    # --- key: one key; jwks: a key set --------------------------------------------------
    ("key.unknown", "No accepted key has this kid.",
     "Get the issuer's current key set from a source that you trust."),
    ("key.not_enrolled", "The key is known, but not for this subject.",
     "Check that you ask about the right issuer."),
    ("key.malformed", "The key is malformed.",
     "Export the key again; numbers must be minimal base64url."),
    ("key.unsupported", "The key's type or curve is not supported.",
     "Use P-256 (ES256) or RSA of at least 2048 bits (RS256)."),
    ("key.weak_rsa", "The RSA key is too short, too long, or has a bad modulus or exponent.",
     "Use RSA of 2048 to 8192 bits with exponent 65537."),
    ("key.alg_mismatch", "The signature's alg is not the key's.",
     "One key serves one alg; ask the issuer to sign again."),
    ("key.use", "The key is not meant for signatures (`use`, `key_ops`).",
     "Publish the key with use=sig."),
    ("key.private_material", "Private members stand where only public ones may.",
     "That key is compromised: replace it, and publish public halves only."),
    ("jwks.malformed", "The document is not a JWK Set.",
     "A JWK Set is {\"keys\": [...]} of at most 64 KiB."),
    ("jwks.duplicate_kid", "Two keys of the set share one kid.",
     "Give each key a kid of its own; the set is refused whole."),
    ("jwks.shared_prime", "Two RSA keys of the set share a prime factor.",
     "Both are broken; replace them."),
    # --- trust: the verifier's side -----------------------------------------------------
    ("trust.no_anchor", "Nothing says whose keys to accept, so no verdict can be reached.",
     "Name the keys that you trust: cardsign verify CARD --jwks FILE."),
    ("trust.no_expectation", "Nothing says whose card this should be.",
     "Name the subject: --jwks FILE (the holder of those keys), or --origin ORIGIN beside it."),
    ("trust.freshness_waived", "Revocation and rollback cannot be seen with pinned keys alone.",
     "Nothing to do; enrolling the issuer's keyset statement will close this."),
    ("trust.freshness_unknown", "There is no evidence that the card is current.",
     "Waive freshness by name, or enrol the issuer's keyset statement."),
    ("coverage.uncovered", "The signature does not cover this member or element.",
     "Anybody could have put it there; ask the issuer for a full (served-as-is) signature."),
    ("coverage.requirement_unsigned", "The signature does not cover an authentication requirement.",
     "Anybody could add or remove it; ask the issuer for a full (served-as-is) signature."),
    ("coverage.absence_unprovable",
     "The accepted profile drops empty values: it proves no absence.",
     "A removed requirement or empty member leaves no trace under this profile."),
    # --- sign ---------------------------------------------------------------------------
    ("sign.no_key", "There is no active key to sign with.",
     "Make one: cardsign keys generate."),
    ("sign.too_many", "The plan would put more signatures on the card than the limit.",
     "Drop foreign signatures with --drop-foreign, or sign with fewer keys."),
    ("sign.self_check", "What was signed does not verify when read again as an outsider would.",
     "Nothing was written; report this as a bug."),
    ("sign.profile_skipped", "A profile has no payload for this card and was passed over.",
     "Mend the member named, so that verifiers of that profile accept the card."),
    ("sign.compat_lossy", "Verifiers of a compat signature will not notice changes of these.",
     "Nothing to do for our verifier; other SDKs will not notice changes there."),
    ("sign.compat_no_endpoint", "No compat signature was made: its payload has no endpoint left.",
     "Serve a 1.0 card, or name the profile with --compat."),
    ("sign.dual_document", "One document for A2A 0.3 and 1.0 was signed.",
     "Better serve two, each with its own signatures: one of 1.0 and one of 0.3."),
    ("sign.foreign_unchecked", "A signature of another signer was kept without its key.",
     "Drop it with --drop-foreign if you do not know it."),
    ("sign.foreign_dropped", "A signature of another signer no longer fits and was dropped.",
     "Ask that signer to sign the new card."),
    ("sign.header_too_long", "The protected header would exceed what other libraries verify.",
     "Use a shorter kid."),
    # --- publish ------------------------------------------------------------------------
    ("publish.not_verifying", "The card does not verify with the key set that would be published.",
     "Sign it with an active key of this key store first."),
    ("publish.extended_same", "The extended card is the same as the public one.",
     "Give the extended card what only authenticated callers may see."),
    ("publish.extended_undeclared", "The public card does not declare an extended card.",
     "Set capabilities.extendedAgentCard to true and sign again."),
    ("publish.audience_name", "An audience's name is not [a-z0-9-]{1,64}.",
     "Use lower-case letters, digits and hyphens."),
    ("publish.malformed", "The publication directory holds something that we did not write.",
     "Publish into a directory of its own."),
    # --- statement: a keyset or release statement (docs/formats.md) ---------------------
    ("statement.shape", "The bytes are no JWS in General JSON of at most 64 KiB.",
     "Fetch the statement again, or ask its issuer."),
    ("statement.header", "A protected header is not exactly alg, kid and typ.",
     "Ask the issuer to sign the statement with cardsign."),
    ("statement.typ", "The signatures are for another kind of document.",
     "Check that the file is the statement you meant."),
    ("statement.not_canonical", "The payload is not in the form of RFC 8785 (JCS).",
     "Ask the issuer to draft the statement with cardsign."),
    ("statement.format", "The statement has a format that this version does not know.",
     "Upgrade cardsign."),
    ("statement.members", "A member of the statement is missing, unknown, or has a wrong form.",
     "Mend the member named and have the statement signed again."),
    ("statement.time_span", "A time ends before it begins, or the statement lives too long.",
     "A keyset lives at most 400 days, a release at most 14."),
    ("statement.threshold", "A threshold exceeds the number of holders, or they are too many.",
     "Name 1 to 16 holders and no larger threshold; a holder counts once."),
    ("statement.bad_key", "A key is malformed, listed twice, or both listed and revoked.",
     "List each key once, as cardsign writes it, and no revoked one."),
    ("statement.anchor", "The statement is not the one that the anchor means.",
     "Compare the anchor with what the issuer publishes elsewhere; do not just replace it."),
    ("statement.unsigned", "Too few of those who must sign the statement have signed it.",
     "Have the missing holders sign; each counts once."),
    ("statement.issuer", "The statement is another issuer's.",
     "Check where it was fetched from."),
    ("statement.fork", "Two different statements carry the same number.",
     "One was made by a thief or by mistake: keep yours, and show both to the issuer."),
    ("statement.rollback", "The statement is older than, or the same as, the one held.",
     "Nothing to do if it is a stale copy; otherwise somebody withholds the newer one."),
    ("statement.gap", "A statement between the one held and this one is missing.",
     "Fetch the versions one by one."),
    ("statement.prev", "The statement does not follow upon the one held.",
     "The history was forked: keep yours, and show both to the issuer."),
    ("statement.unrevoked", "A revoked key is no longer revoked.",
     "Revoked is for ever within an epoch; ask the issuer."),
    ("statement.recovery", "Epoch or recovery keys were changed without the recovery keys.",
     "Only the recovery keys can do that; ask the issuer what happened."),
    ("statement.keyset", "The release names another keyset statement than the newest.",
     "Refresh both; if it stays so, ask the issuer to make a release again."),
    ("statement.revoked", "A release revokes its own signer, or a key that it may not revoke.",
     "A release may revoke other card and release keys; the roots revoke the rest."),
    ("statement.floor", "A floor of the release falls, or lies above the release itself.",
     "Floors only rise under one keyset statement; ask the issuer."),
    ("statement.not_yet", "The statement was issued in the future.",
     "Check this machine's clock."),
    ("statement.expired", "The statement has expired.",
     "Refresh it; if there is no newer one, ask its issuer."),
    # --- local faults -------------------------------------------------------------------
    ("usage.invalid", "The command line cannot be understood.", "See --help."),
    ("usage.conflict", "Options contradict one another, or one is missing.",
     "See --help."),
    ("config.malformed", "cardsign.toml cannot be understood.",
     "Mend the file; cardsign init writes a good one."),
    ("file.not_found", "There is no such file.", "Check the path."),
    ("file.is_directory", "A directory stands where a file belongs.", "Name a file."),
    ("file.unreadable", "The file cannot be read.", "Check its permissions."),
    ("file.unwritable", "The file cannot be written.",
     "Check the directory's permissions and free space."),
    ("file.exists", "The file exists already.", "Choose another name, or remove it yourself."),
    ("file.permissions", "A private file can be read by others, or is a link.",
     "chmod 600 it, and keep it a plain file of your own."),
    ("passphrase.none", "No passphrase was given and there is no terminal to ask on.",
     "Use --passphrase-file FILE, --passphrase-fd N or CARDSIGN_PASSPHRASE."),
    ("passphrase.wrong", "The passphrase does not open the key, or the key file was changed.",
     "Try again; if you are sure of it, restore the key file from a backup."),
    ("passphrase.weak", "The passphrase is empty or too short.",
     "Use at least 8 characters; a random one from a password manager is best."),
    ("passphrase.mismatch", "The two passphrases differ.", "Type the same one twice."),
    ("keystore.missing", "There is no key store here.",
     "Make one: cardsign keys generate, or name it with --keystore DIR."),
    ("keystore.exists", "There is a key store here already.",
     "Add to it with cardsign keys generate."),
    ("keystore.corrupt", "The key store's state cannot be understood.",
     "Restore it from a backup; nothing was changed."),
    ("keystore.newer_format", "The file was written by a newer cardsign.",
     "Upgrade cardsign."),
    ("keystore.busy", "Another process holds the key store.",
     "Try again when it has finished."),
    ("keystore.unknown_key", "The key store has no such key.",
     "See cardsign keys list."),
    ("keystore.duplicate_key", "The key store holds this key, or its kid, already.",
     "See cardsign keys list."),
    ("keystore.changed", "The key store was changed by somebody else meanwhile.",
     "Look at it again and repeat the command."),
    ("keystore.illegal_transition", "A key cannot go from its state to the one asked for.",
     "States only move forward: generated, prepublished, active, retiring, retired; or revoked."),
    ("keystore.envelope", "A private key's file is malformed or asks for an unreasonable KDF cost.",
     "Restore it from a backup."),
    ("signer.failed", "The signer did not answer with a signature.",
     "Check the signer named by the key."),
    ("signer.wrong_key", "The signer's answer does not verify with the stored public key.",
     "The signer holds another key or version; nothing was signed."),
    ("signer.unsupported", "This version cannot reach a private half that lies there.",
     "Use a key kept in a file of the key store (custody `file:`)."),
    ("serve.port_in_use", "The address is in use.",
     "Stop the other server or choose another port with --bind."),
    ("serve.bind", "The address cannot be bound.", "Use --bind HOST:PORT of this machine."),
    ("serve.no_generation", "The directory holds no publication.",
     "Publish first: cardsign publish CARD -o DIR."),
    ("serve.corrupt_generation", "A published file does not match its manifest.",
     "Publish again; the files were changed after publication."),
    ("serve.newer_format", "The publication was written by a newer cardsign.",
     "Upgrade cardsign."),
    ("serve.worker_died", "The server's worker process ended by itself.",
     "See what it said before; if that names no cause, report this as a bug."),
    ("serve.token_file", "The token file is malformed.",
     "Each line is the token's SHA-256 in hex, then optionally an audience; "
     "see cardsign tokens create."),
    # --- fetch --------------------------------------------------------------------------
    ("fetch.url", "The URL is not one that we ask.",
     "Use https://host[:port]/path without userinfo, backslash or control characters."),
    ("fetch.forbidden_address", "The host's address is not a public one.",
     "For a test server on this machine: --insecure-loopback-http."),
    ("fetch.failed", "The peer could not be reached.",
     "Check the URL and the network, then try again."),
    ("fetch.status", "The peer did not answer 200.",
     "Check the URL; redirects are not followed."),
    ("fetch.too_large", "The peer's answer is larger than the limit.",
     "Agent Cards are small; check the URL."),
    ("fetch.timeout", "The peer did not answer in time.", "Try again later."),
    ("fetch.content_type", "The peer's answer is not declared as JSON.",
     "Check the URL; it answers something else than a card."),
    ("fetch.encoding", "The peer's answer is compressed, which was not asked for.",
     "Ask the peer to honour `Accept-Encoding: identity`."),
    ("fetch.tls", "There is no TLS connection whose certificate fits the host.",
     "Check the host's name and certificate; this machine's certificate authorities count."),
)
# fmt: on

REASONS: Final[dict[str, ReasonCode]] = {row[0]: ReasonCode(*row) for row in _TABLE}


@dataclass(frozen=True, slots=True)
class Reason:
    """One sentence of a verdict or of a report: what was found, where, and what to do.

    Attributes:
        code: A key of :data:`REASONS`.
        message: What was found here, without a final period.
        path: JSON pointer into the received card, or empty for the card as a whole.
        hint: What to do next.
    """

    code: str
    message: str
    path: str
    hint: str

    @classmethod
    def of(cls, code: str, message: str, path: str = "", hint: str = "") -> Reason:
        """A reason with the registry's hint where none better is given."""
        return cls(code, message, path, hint or REASONS[code].hint)

    def to_json(self) -> dict[str, str]:
        """The JSON object that verdicts carry."""
        return {"code": self.code, "message": self.message, "path": self.path, "hint": self.hint}


def hint_for(code: str) -> str:
    """The registry's hint for `code`; empty where the code is unknown."""
    registered = REASONS.get(code)
    return registered.hint if registered else ""
