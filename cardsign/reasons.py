"""The append-only registry of reason codes.

A code, once released, keeps its meaning for ever; a code no longer raised stays here.
Errors (:mod:`cardsign.errors`), verdicts (:mod:`cardsign.verify`), JSON output, HTTP bodies
and ``docs/reference/reasons.md`` all draw on this table and on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from cardsign.errors import CardsignError

Severity = Literal["error", "warning", "note"]


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
    ("card.not_agent_card", "The object is no Agent Card: it lacks a name, skills or an endpoint.",
     "A card needs `name`, `skills` or `capabilities`, and an endpoint; nothing else counts."),
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
    ("card.digest_unlisted", "The issuer's release statement does not list this card.",
     "Fetch card and release again; if it stays so, the card is old or was never released."),
    ("card.listed_elsewhere", "The issuer's release statement lists this card for another URL.",
     "Somebody answered with another agent's card; ask the agent itself."),
    ("card.rollback", "The card is older than what the issuer still calls current.",
     "Fetch the card again; somebody may be withholding the newer one."),
    ("card.signature_vanished", "The issuer's cards were signed before, and this one is not.",
     "Do not use it; fetch the card again from its issuer."),
    ("card.vanished", "A trusted card was seen at this URL, and now there is none.",
     "Ask its issuer; whoever stands between may withhold it. The legacy path was not read."),
    ("card.legacy_path", "The card was found at the legacy path of A2A up to 0.2.",
     "Nothing to do; its issuer should serve the canonical path."),
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
     "ES256 and RS256 are accepted, others only where the policy names them."),
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
     "Accept what it leaves unsigned with --accept sdk, or by accept = 'sdk' in trust.toml."),
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
    ("key.revoked", "The key is revoked: its signatures never count, whatever their date.",
     "Fetch the card again; if it stays so, ask the issuer to sign with another key."),
    ("key.expired", "The key is past its time in the issuer's keyset statement.",
     "Fetch the card again; if it stays so, ask the issuer to sign with another key."),
    ("key.not_yet_valid", "The key does not count yet by the issuer's keyset statement.",
     "Check this machine's clock, or wait."),
    ("key.role", "The key may not sign cards by the issuer's keyset statement.",
     "Ask the issuer to sign with a key that has the role card."),
    ("jwks.malformed", "The document is not a JWK Set.",
     "A JWK Set is {\"keys\": [...]} of at most 64 KiB."),
    ("jwks.duplicate_kid", "Two keys of the set share one kid.",
     "Give each key a kid of its own; the set is refused whole."),
    ("jwks.shared_prime", "Two RSA keys of the set share a prime factor.",
     "Both are broken; replace them."),
    # --- trust: the verifier's side -----------------------------------------------------
    ("trust.no_anchor", "Nothing says whose keys to accept, so no verdict can be reached.",
     "Enrol the issuer: cardsign trust init, then cardsign trust add; or name keys: --jwks FILE."),
    ("trust.no_expectation", "Nothing says whose card this should be.",
     "Name the subject: --issuer NAME or --origin ORIGIN of your policy, or --jwks FILE."),
    ("trust.freshness_waived", "Revocation and rollback cannot be seen with pinned keys alone.",
     "Nothing to do; enrolling the issuer's keyset statement will close this."),
    ("trust.freshness_unknown", "There is no evidence that the card is current.",
     "Waive freshness by name, or enrol the issuer's keyset statement."),
    ("trust.no_keys", "The one source of keys that the anchor names is not to be had.",
     "Give the issuer's statements along: cardsign verify CARD --statements DIR."),
    ("trust.no_first_contact", "The issuer was never met, and this is no occasion for it.",
     "Meet it online, or enrol its keyset statement: cardsign trust add NAME --keyset FILE."),
    ("trust.tofu_first", "The issuer was met for the first time; what it said is kept from now on.",
     "Compare what was kept with the issuer over another channel."),
    ("trust.key_changed", "A key is published that nothing you trust endorses.",
     "Do not use it; ask the issuer over another channel whether it changed its keys."),
    ("trust.digest_differs", "The keyset statement is not the one whose digest was given.",
     "Do not enrol it. Ask the issuer over another channel which digest is right."),
    ("threshold.unmet", "Not all holders whom the policy requires have signed the same payload.",
     "Ask the missing ones to sign the card as it is."),
    ("state.none", "Nothing is remembered of the issuer, so a rollback cannot be seen.",
     "Verify without --no-state, or commit a trust.lock that names the issuer."),
    ("time.clock_behind", "This machine's clock is behind what the issuer has signed already.",
     "Set the clock; nothing can be said of what has expired until then."),
    ("time.historic", "The verdict is about a time of your choice: nothing is trusted by it.",
     "Leave out --at to ask about now."),
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
    ("sign.compat_lossy", "Some SDKs do not check parts of this card.",
     "Nothing to do: cardsign checks them."),
    ("sign.compat_no_endpoint", "An SDK finds no endpoint in this card.",
     "Serve readers of A2A 1.0 a card of 1.0."),
    ("sign.compat_dropped", "A compat signature was left out, since a card has at most 16.",
     "Drop foreign signatures with --drop-foreign, or wait until a key has retired."),
    ("sign.sdk_refuses", "An SDK that can use the card will refuse its signatures.",
     "Change the card as `cardsign lint` says, or add the compat signature named."),
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
    ("publish.extended_unmarked", "The extended card has no extended-card marker.",
     "Sign it with cardsign sign CARD --extended AUDIENCE --seq N --expires DATE."),
    ("publish.extended_audience", "The extended card is marked for another audience.",
     "Publish it under the audience that it names, or sign it for this one."),
    ("publish.extended_expired", "The extended card's marker has expired.",
     "Sign it again with a later --expires."),
    ("publish.extended_as_public", "The public card is marked as an extended one.",
     "Publish it with --extended, beside a public card that has no marker."),
    ("publish.audience_name", "An audience's name is not [a-z0-9-]{1,64}.",
     "Use lower-case letters, digits and hyphens."),
    ("publish.other_publisher", "The directory holds publications of another key store or issuer.",
     "Publish to a directory of your own. If this one is yours, see "
     "docs/guides/issue-and-rotate.md."),
    ("publish.key_unlisted", "A card is signed with a key that the newest keyset does not list.",
     "Let the roots list it first: cardsign keyset draft, sign, publish."),
    ("publish.unlisted", "The newest release statement does not list the card.",
     "List it first: cardsign release renew --card FILE; then publish it."),
    ("publish.release_behind", "No release statement speaks of the newest keyset statement yet.",
     "Sign one, and both are published at once: cardsign release renew."),
    ("publish.statements", "The statements to be published do not follow the published ones.",
     "Let this key store take up what is published: cardsign release renew; then do this again."),
    ("publish.malformed", "The publication directory holds something that we did not write.",
     "Publish into a directory of its own."),
    # --- extended: the extended-card marker (docs/reference/formats.md) ---------------------------
    ("extended.marker", "The extended-card marker is malformed, there twice, or out of its place.",
     "Remove it, and write it with cardsign sign CARD --extended AUDIENCE --seq N --expires DATE."),
    ("extended.served_as_public", "An extended card stands where the public one belongs.",
     "Do not use it; fetch the public card again."),
    ("extended.not_marked", "The card is no extended card: it has no marker of ours.",
     "Ask the issuer to sign it with --extended AUDIENCE."),
    ("extended.audience_mismatch", "The extended card is meant for another audience.",
     "Check the audience that the issuer gave you; do not use the card."),
    ("extended.rollback", "The extended card is older than what the issuer still calls current.",
     "Fetch it again; somebody may be withholding the newer one."),
    ("extended.ahead", "The extended card is of a release that is not published yet.",
     "Refresh the issuer's release statement; if it stays so, ask the issuer."),
    ("extended.expired", "The extended card has expired by its own word.",
     "Fetch it again, or ask the issuer for a newer one."),
    ("extended.other_agent", "The extended card is that of another agent of the same issuer.",
     "Do not use it; ask the issuer why the endpoint answers with it."),
    ("extended.public_untrusted", "The public card beside the extended one is not trusted.",
     "See what is wrong with the public card first."),
    # --- statement: a keyset or release statement (docs/reference/formats.md) ---------------------
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
    ("statement.too_many", "More statements came than one refresh reads.",
     "Give those from the one held to the newest: 256 steps, and 2 MiB of each kind."),
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
    ("statement.vanished", "A statement that was seen is no longer to be had.",
     "Ask the issuer; whoever stands between may withhold it."),
    ("statement.digest", "The digest is not that of the statement to be signed.",
     "Ask whoever drafted it for the digest, over another channel, and do not sign until it fits."),
    ("statement.not_yet", "The statement was issued in the future.",
     "Check this machine's clock."),
    ("statement.expired", "The statement has expired.",
     "Refresh it; if there is no newer one, ask its issuer."),
    ("bundle.malformed", "The file says that it is a bundle and is none.",
     "Ask for it again, or make one: cardsign bundle CARD --statements DIR."),
    # --- credential: what a peer is shown (docs/guides/call.md) ------------------------------
    ("credential.none", "There is no credential for this peer.",
     "Name one: --credential env:NAME, or an entry of credentials.toml; docs/guides/call.md."),
    ("credential.elsewhere", "No endpoint of the verified card stands where the credential goes.",
     "Nothing was sent. If the peer has moved on purpose, change the origin in credentials.toml."),
    ("credential.source", "A credential cannot be had, or is none that a header holds.",
     "env:NAME or exec:/absolute/path names where it is had from; docs/guides/call.md."),
    ("credential.scheme", "The verified card asks for no single credential in a header.",
     "Say how it is shown: send = \"bearer\", \"basic\" or \"header:NAME\" in credentials.toml."),
    ("credential.refused", "The peer wants another credential, or one at all.",
     "Get a new one from the issuer; what the peer says it wants is shown and never followed."),
    # --- call: a trusted peer that is asked for something --------------------------------
    ("call.no_interface", "The verified card names no endpoint that can be spoken to here.",
     "JSON-RPC and HTTP+JSON of A2A 0.3 and 1.x are spoken; see docs/guides/call.md for tenants."),
    ("call.verdict_over", "The verdict on the public card no longer holds.",
     "Meet the peer again."),
    ("call.no_extended", "The peer has no extended card, or none for this credential.",
     "Ask the issuer whether you have access to one."),
    ("call.envelope", "The answer could be read in more than one way, or to another call.",
     "Ask the issuer to mend the server; it must answer one strict JSON-RPC object."),
    ("call.error", "The peer answered an error, or nothing that can be read.",
     "See what it says; the card is trusted all the same."),
    ("call.task_failed", "The agent's task failed, or was rejected or canceled.",
     "See what it says; the card is trusted all the same."),
    ("call.not_installed", "The library that calls agents is not installed.",
     "pip install 'cardsign[a2a]'"),
    # --- local faults -------------------------------------------------------------------
    ("internal.ended", "The process that verified this card ended before it had a verdict.",
     "Verify the card alone; with too little memory, use fewer jobs (-j)."),
    ("internal.bug", "cardsign has a bug and stopped.",
     "Please report it; set CARDSIGN_DEBUG=1 to see where it happened."),
    ("usage.invalid", "The command line cannot be understood.", "See --help."),
    ("usage.conflict", "Options contradict one another, or one is missing.",
     "See --help."),
    ("usage.unanswered", "A question had to be answered first; nothing was written.",
     "Answer it at a terminal, give the digest (--digest HEX), or say --yes."),
    ("config.malformed", "cardsign.toml, signers.toml or credentials.toml cannot be understood.",
     "Mend the line named; cardsign init writes a good cardsign.toml."),
    ("config.secret", "A password stands in cardsign.toml, which is committed.",
     "Change it, and keep the new one in ~/.pgpass, or in CARDSIGN_KEYSTORE; "
     "docs/guides/signers-and-stores.md."),
    ("config.outside", "A project's files name a place outside of its folder.",
     "If it is yours, allow it in your own signers.toml, or name it on the command line."),
    ("policy.malformed", "trust.toml cannot be understood.",
     "Mend the line named; docs/reference/formats.md lists every member."),
    ("policy.not_own", "A policy that nobody named says what only your own policy may say.",
     "If the policy is yours, name it: --trust FILE, or CARDSIGN_TRUST."),
    ("policy.not_found", "There is no policy file where one was named.",
     "Check --trust and CARDSIGN_TRUST, or make one: cardsign trust init."),
    ("policy.unknown_issuer", "The policy enrols nobody of that name.",
     "See cardsign trust list."),
    ("policy.no_cards", "The policy lists no card that could be looked at.",
     "Name the URLs of the issuer's cards in trust.toml: cards = [\"https://host/\"]."),
    ("lock.malformed", "trust.lock cannot be understood.",
     "Restore it from version control; it is written by cardsign alone."),
    ("state.missing", "Nothing is remembered of an enrolled issuer, and what is lost is not new.",
     "Where that is expected, on a new machine for instance: cardsign trust init."),
    ("state.corrupt", "What was remembered of an issuer cannot be read.",
     "Restore it from a backup, or cardsign trust known forget NAME, then cardsign trust init."),
    ("state.busy", "Another process holds the memory of this issuer, or the policy.",
     "Try again when it has finished."),
    ("state.created", "The memory of an issuer was begun anew from trust.lock.",
     "Nothing to do on a new machine; elsewhere find out who removed it."),
    ("state.other_anchor", "What is remembered of an issuer was learned under another anchor.",
     "If the anchor was changed on purpose: cardsign trust known forget NAME, then cardsign trust "
     "init."),
    ("state.fork", "The lock, or a statement, and the memory name two histories of one issuer.",
     "Show both digests to the issuer; then restore the right one, or forget the wrong one."),
    ("file.not_found", "There is no such file.", "Check the path."),
    ("file.is_directory", "A directory stands where a file belongs.", "Name a file."),
    ("file.unreadable", "The file cannot be read.", "Check its permissions."),
    ("file.unwritable", "The file cannot be written.",
     "Check the directory's permissions and free space."),
    ("file.exists", "The file exists already.", "Choose another name, or remove it yourself."),
    ("file.not_plain", "A link, device or pipe stands where a plain file belongs.",
     "See who has put it there; remove it, or name another file."),
    ("file.permissions", "A private file can be read by others, or is a link.",
     "chmod 600 it, and keep it a plain file of your own."),
    ("passphrase.none", "No passphrase was given, and there is no terminal to ask at.",
     "Set CARDSIGN_PASSPHRASE, or use --passphrase-file FILE or --passphrase-fd N."),
    ("passphrase.wrong", "The passphrase does not open the key, or the key file was changed.",
     "Try again; if you are sure of it, restore the key file from a backup."),
    ("passphrase.weak", "The passphrase is empty or too short.",
     "Use at least 8 characters; a random one from a password manager is best."),
    ("passphrase.mismatch", "The two passphrases differ.", "Type the same one twice."),
    ("passphrase.reused", "The recovery key would have the passphrase of another key.",
     "Choose another one for the recovery key, so that a thief of one has not both."),
    ("keystore.missing", "There is no key store here.",
     "Make one: cardsign keys generate, or name it with --keystore DIR."),
    ("keystore.exists", "There is a key store here already.",
     "Add to it with cardsign keys generate."),
    ("keystore.corrupt", "The key store's state cannot be understood.",
     "Restore it from a backup; nothing was changed."),
    ("keystore.newer_format", "The file was written by a newer cardsign.",
     "Upgrade cardsign."),
    ("keystore.busy", "Another process is changing the key store.",
     "Try again when it has finished."),
    ("keystore.url", "The URL of the key store's database is malformed.",
     "Percent-encode special characters; keep the password in ~/.pgpass; "
     "docs/guides/signers-and-stores.md."),
    ("keystore.not_allowed", "A committed file names a database server that you have not allowed.",
     "If the server is yours, add the line named to your own file, or set CARDSIGN_KEYSTORE."),
    ("keystore.unreachable", "The database of the key store cannot be used now.",
     "Check server, address, role and rights; nothing was changed. "
     "docs/guides/signers-and-stores.md."),
    ("keystore.not_installed", "The libraries for key stores in PostgreSQL are not installed.",
     "pip install 'cardsign[postgres]'"),
    ("keystore.unknown_key", "The key store has no such key.",
     "See cardsign keys list."),
    ("keystore.duplicate_key", "The key store holds this key, or its kid, already.",
     "See cardsign keys list."),
    ("keystore.changed", "Another process changed the key store meanwhile.",
     "Repeat the command."),
    ("keystore.illegal_transition", "A key cannot go from its state to this one.",
     "The order is generated, prepublished, active, retiring, retired; revoked from any of them."),
    ("keystore.too_early", "It is too early for this step: caches may still need the key.",
     "Wait until the time given. After a theft: cardsign keys revoke KID --reason compromised."),
    ("keystore.not_seen", "This step waits for a publication, and none is recorded.",
     "cardsign publish; or, if you publish by other means, cardsign keys look URL --jwks URL."),
    ("keystore.cards_unsigned", "A published card is signed only by the key that is to end.",
     "Sign it again (cardsign sign CARD), then cardsign publish CARD."),
    ("keystore.still_needed", "Without this key no next keyset statement can be signed.",
     "First list another root: cardsign keyset draft --add-root HOLDER=KID; sign and publish it."),
    ("keystore.same_custody", "The key is in a compromised key's custody, so it may be stolen too.",
     "Make a key in another custody, or accept the risk with --same-custody-accepted."),
    ("keystore.audit_broken", "The audit log lacks a line that the key store's state names.",
     "Somebody changed or cut the log, or put an old one back: compare it with a backup."),
    ("keystore.audit_differs", "The key store's state is not the one that its audit log records.",
     "Somebody edited the state: restore a backup, and find out who can write to the key store."),
    ("keystore.other_history", "The key store's audit log does not continue what you saw of it.",
     "If you put an older or another store there yourself, "
     "docs/guides/issue-and-rotate.md says what to remove."),
    ("keystore.rolled_back", "The key store's state is older than its own audit log.",
     "Put the newest keystore.json back. If it is lost, restore a backup and repeat revocations."),
    ("keystore.statements", "The statements beside the key store are not the ones it recorded.",
     "Somebody changed or removed one: put them back from a backup or another holder's copy."),
    ("keystore.not_listed", "The newest keyset statement does not list this key.",
     "Let the roots list it: cardsign keyset draft; then cardsign keyset sign and publish."),
    ("keystore.no_keyset", "There is no keyset statement beside this key store.",
     "Make the first one: cardsign init, or cardsign keyset draft."),
    ("rotate.needs_root", "The next step is a keyset statement, which the roots have to sign.",
     "Each holder: cardsign keyset sign DRAFT; then cardsign keyset publish DRAFT."),
    ("rotate.not_a_draft", "The file for the draft of a keyset statement holds something else.",
     "Find out who put it there; remove it, or name another file with --draft."),
    ("rotate.draft_says_more", "The waiting draft changes more than the key store would.",
     "Ask the person who drafted it. If nobody did, remove the file and find out who wrote it."),
    ("keystore.envelope", "A private key's file is malformed, or its KDF cost is unreasonable.",
     "Restore it from a backup: cardsign keys restore FILE -i IDENTITY."),
    ("backup.malformed", "The backup cannot be used as a key store.",
     "Take an older backup."),
    ("backup.recipient", "This is no age recipient.",
     "age-keygen -o FILE makes an identity and prints its recipient, age1..."),
    ("backup.identity", "None of the age identities opens the backup.",
     "Give the identity of one of the recipients to whom it was encrypted."),
    ("backup.not_installed", "The library for backups is not installed.",
     "pip install 'cardsign[backup]'"),
    ("doctor.leftover", "A killed process left a file that nothing refers to.",
     "cardsign keys doctor --fix removes it."),
    ("doctor.stranger", "The key store's directory holds a file that cardsign did not write.",
     "Move it elsewhere."),
    ("doctor.permissions", "Others can access a file that only the owner of the key store needs.",
     "cardsign keys doctor --fix closes it. Key files are encrypted: to read one is not enough."),
    ("doctor.symlink", "There is a symbolic link in place of a file or folder of the key store.",
     "Put back what it replaced, and find out who made it. Nothing is read or written through it."),
    ("doctor.private_missing", "The private key of a key in use is missing.",
     "Restore it from a backup; or end the key: cardsign keys revoke KID --reason ceased."),
    ("doctor.audit_aborted", "The audit log holds lines of changes that were not made.",
     "Nothing is lost: the line is written before the change."),
    ("doctor.clock", "The clock is behind what the key store has recorded.",
     "Set the clock; the waits of a key rotation depend on it."),
    ("doctor.timeline", "A [timeline] setting is lower than usual for caches.",
     "Raise it in cardsign.toml, unless you know every consumer of your cards."),
    ("doctor.no_active_key", "No key of the key store signs cards.",
     "cardsign keys generate; then cardsign keys rotate."),
    ("doctor.due", "A step of the key rotation is due.",
     "cardsign keys rotate"),
    ("doctor.no_standby", "After a theft no key could take over at once.",
     "Good to have, not needed to begin: cardsign keys import --custody URI --standby."),
    ("doctor.cards_unsigned", "A published card must be signed again: its keys have changed.",
     "cardsign sign CARD; cardsign release renew --card CARD where there is a keyset; publish."),
    ("doctor.keyset_due", "The roots have to sign the next keyset statement.",
     "Draft it with cardsign keys rotate; then cardsign keyset sign and cardsign keyset publish."),
    ("doctor.roots_ended", "Too few holders of root keys are left to sign the next keyset.",
     "Before the newest keyset ends: cardsign keyset recover --recovery-file FILE."),
    ("doctor.draft_waits", "A keyset statement waits for the signatures of the roots.",
     "Each holder: cardsign keyset sign FILE --digest SHA-256; then cardsign keyset publish FILE."),
    ("doctor.release_due", "The release statement is due, and cron has not renewed it.",
     "cardsign release renew; then find out why cron does not."),
    ("signer.failed", "The signer did not return a signature.",
     "Check the signer that the URI names."),
    ("signer.wrong_key", "The signer's answer does not verify with the stored public key.",
     "The signer holds another key or version; nothing was signed."),
    ("signer.unsupported", "There is no signer of this kind.",
     "docs/guides/signers-and-stores.md lists the kinds of signers."),
    ("signer.uri", "The URI of a signer cannot be understood.",
     "docs/guides/signers-and-stores.md shows the form of each."),
    ("signer.not_allowed", "The signer runs, loads or reads what only the user may choose.",
     "Give the URI as --key, or allow it in your own signers.toml; "
     "docs/guides/signers-and-stores.md."),
    ("signer.not_installed", "The library that this kind of signer needs is not installed.",
     "Install the extra named: pip install 'cardsign[EXTRA]'."),
    ("signer.not_configured", "The signer's address is missing or malformed.",
     "docs/guides/signers-and-stores.md lists the environment variables of each kind."),
    ("signer.unreachable", "The signer cannot be reached: a program, library, token or server.",
     "Start it or insert it, and check its address."),
    ("signer.credentials", "The signer refuses the PIN or the token.",
     "Check it before you try again; a token locks itself after a few wrong PINs."),
    ("signer.no_key", "There is no such key, or no such version of it.",
     "Check the URI: a variable, or a key's label, id or version."),
    ("signer.ambiguous", "Several tokens or keys fit the URI of a signer.",
     "Name more attributes in the URI, until one key is left."),
    ("signer.disabled", "The key exists there, but may not be used now.",
     "Enable the version there, or rotate to another key."),
    ("signer.no_public", "The public key is not known, and the signer is not asked for it.",
     "Give the public key: --public FILE."),
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
     "Each line is the token's SHA-256 in hex, then its audience; "
     "see cardsign tokens create."),
    ("peer.not_examined", "Looking at a peer ended before there was a verdict.",
     "Look at this peer alone; if it ends so again with enough memory, report it as a bug."),
    ("peer.release_late", "A peer's release statement is past half of its time.",
     "See whether there is a newer one: cardsign peers verify; if not, ask the issuer."),
    ("peer.keyset_ends", "A peer's keyset statement ends soon.",
     "See whether there is a newer one: cardsign peers verify; if not, ask the issuer."),
    ("refresh.no_answer", "A statement could not be asked for.",
     "Try again later; what is remembered holds until it expires."),
    # --- fetch --------------------------------------------------------------------------
    ("fetch.url", "The URL is not one that we ask.",
     "Use https://host[:port]/path without userinfo, backslash or control characters."),
    ("fetch.elsewhere", "The request would leave the places that this client may ask.",
     "Nothing was sent; call an interface of the card that was verified."),
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
    ("fetch.stale", "The peer gives no answer now; what it gave before was judged.",
     "Nothing to do as long as the card is trusted; see until when."),
    ("fetch.tls", "There is no TLS connection whose certificate fits the host.",
     "Check the host's name and certificate; this machine's certificate authorities count."),
)
# fmt: on

# What needs no action, and what should be fixed though it decides nothing. All else is an error.
_NOTES: Final = frozenset(
    {
        "card.legacy_path",
        "coverage.absence_unprovable",
        "doctor.audit_aborted",
        "fetch.stale",
        "sig.compat",
        "sign.compat_lossy",
        "state.created",
        "trust.freshness_waived",
    }
)
_WARNINGS: Final = frozenset(
    {
        "card.missing_required",
        "card.single_signature_block",
        "doctor.timeline",
        "peer.keyset_ends",
        "peer.release_late",
        "refresh.no_answer",
        "sign.compat_no_endpoint",
        "sign.dual_document",
        "sign.foreign_dropped",
        "sign.foreign_unchecked",
        "sign.profile_skipped",
        "trust.tofu_first",
    }
)

REASONS: Final[dict[str, ReasonCode]] = {row[0]: ReasonCode(*row) for row in _TABLE}


@dataclass(frozen=True, slots=True)
class Reason:
    """One sentence of a verdict or of a report: what was found, where, and what to do.

    Attributes:
        code: A key of :data:`REASONS`.
        message: What was found here, without a final period.
        path: JSON pointer into the received card, or empty for the card as a whole.
        hint: What to do next.
        severity: ``error`` speaks against the card, ``warning`` should be fixed, ``note`` needs
            no action.
    """

    code: str
    message: str
    path: str
    hint: str
    severity: Severity = "error"

    @classmethod
    def of(cls, code: str, message: str, path: str = "", hint: str = "") -> Reason:
        """A reason with the registry's hint where none better is given."""
        return cls(code, message, path, hint or REASONS[code].hint, severity_of(code))

    @classmethod
    def from_error(cls, error: CardsignError, path: str | None = None) -> Reason:
        """An error as a reason, with its line and column; `path` stands for the error's own."""
        place = f" (line {error.line}, column {error.column})" if error.line else ""
        where = error.path if path is None else path
        return cls.of(error.code, error.message + place, where, error.hint)

    def to_json(self) -> dict[str, str]:
        """The JSON object that verdicts carry."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "path": self.path,
            "hint": self.hint,
        }


def severity_of(code: str) -> Severity:
    """How much a code weighs where no verdict says more."""
    if code in _NOTES:
        return "note"
    return "warning" if code in _WARNINGS else "error"


def weighed(reasons: Sequence[Reason], *, trusted: bool) -> tuple[Reason, ...]:
    """The reasons of one verdict with their severities.

    Nothing is an error in a trusted card: what its signature leaves open was accepted by the
    policy, and the rest decided nothing. Of another card the first reason decides, so it is an
    error whatever its code.
    """

    def weight(reason: Reason) -> Severity:
        own = severity_of(reason.code)
        if not trusted:
            return "error" if reason.code == reasons[0].code else own
        if reason.code.startswith("coverage."):
            return "note"
        return "warning" if own == "error" else own

    return tuple(replace(reason, severity=weight(reason)) for reason in reasons)


def hint_for(code: str) -> str:
    """The registry's hint for `code`; empty where the code is unknown."""
    registered = REASONS.get(code)
    return registered.hint if registered else ""
