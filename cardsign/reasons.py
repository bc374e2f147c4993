"""The registry of reason codes.

A code, once released, keeps its meaning for ever. Cases that a caller treats alike share one code.
Errors (:mod:`cardsign.errors`), verdicts (:mod:`cardsign.verify`), JSON output, HTTP bodies
and ``docs/reference/reasons.md`` all draw on this table and on nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
     "Agent Cards are small. Check that this is the right file."),
    ("json.too_many_values", "The card is made of more values than any card needs.",
     "Leave out lists of data. A card describes an agent; let it give a URL for the rest."),
    ("json.not_utf8", "The input is not valid UTF-8.",
     "Save the file as UTF-8."),
    ("json.bom", "The input starts with a byte order mark.",
     "Save the file as UTF-8 without BOM."),
    ("json.syntax", "The input is not JSON.",
     "Fix the JSON at the place given, or name the right file."),
    ("json.duplicate_member", "One object holds the same member name twice.",
     "Remove one of the two. Readers disagree on which of them counts."),
    ("json.number", "A number is not finite (NaN, Infinity, or too large for a double).",
     "Write a finite number, or a string."),
    ("json.integer_range", "An integer is outside +-(2^53-1).",
     "Write it as a string, because other JSON readers would round it."),
    ("json.surrogate", "A string holds a lone surrogate.",
     "Replace the \\uD800-\\uDFFF escape by a whole character."),
    ("json.depth", "Arrays and objects are nested too deeply.",
     "Flatten the value at the place given."),
    ("json.trailing", "Something follows the JSON value.",
     "Remove what comes after the closing brace."),
    ("json.not_object", "The JSON value is not an object.",
     "An Agent Card, a key and a key set are each one JSON object: {...}."),
    # --- card: JSON that is no card, or an ambiguous one ---------------------------------
    ("card.not_agent_card", "The object is not an Agent Card.",
     "A card needs `name`, `skills` or `capabilities`, and an endpoint."),
    ("card.two_spellings", "One object spells the same member in two ways.",
     "Keep the camelCase name of the A2A schema and remove the other."),
    ("card.type", "A member has the wrong JSON type.",
     "Give the member the type that the A2A schema names."),
    ("card.missing_required", "A member that A2A calls REQUIRED is missing.",
     "Add it; `--strict` makes this an error."),
    ("card.signatures_shape", "`signatures` is not a list of objects.",
     "Remove `signatures` and sign again."),
    ("card.signatures_too_many", "The card carries more signatures than the limit.",
     "Remove entries of `signatures`, then sign the card again."),
    ("card.single_signature_block",
     "The card has a `signature` member, which is not an A2A signature.",
     "Remove it and sign the card again. It cannot be converted."),
    ("card.no_interface", "The signed part of the card names no endpoint.",
     "The card cannot be called. Ask its issuer for one with an interface."),
    ("card.origin_mismatch", "An endpoint of the card is outside the issuer's origins.",
     "Do not call this card. Ask its issuer, or add the origin to the issuer's entry in "
     "trust.toml."),
    ("card.interface_url", "An endpoint's URL is not in the accepted form.",
     "Use https://host[:port]/path in ASCII, without user name, backslash or control characters."),
    ("card.digest_unlisted", "The issuer's release statement does not list this card.",
     "Fetch the card and the release again. If nothing changes, the card is old or was not "
     "released."),
    ("card.listed_elsewhere", "The release statement lists this card for another URL.",
     "This is another agent's card. Ask that agent for it, or ask the issuer why it is here."),
    ("card.rollback", "The card is older than the oldest that the issuer still accepts.",
     "Fetch the card again. If it stays old, someone may be withholding the newer one."),
    ("card.vanished", "A trusted card was seen at this URL, and now there is none.",
     "Ask its issuer: the card may be withheld. The legacy path was not read."),
    ("card.legacy_path", "The card was found at the legacy path of A2A up to 0.2.",
     "Nothing to do. The issuer should serve the canonical path."),
    ("canonical.no_form", "The card has no payload under this profile.",
     "Fix the member named, or choose another profile."),
    ("canonical.unknown_profile", "There is no profile of that name.",
     "Choose one that this command lists: cardsign canonicalize --help"),
    ("card.security", "The card's security requirements or schemes cannot be read.",
     "Write each requirement and scheme as A2A 1.0 4.5 says: cardsign lint CARD lists the places."),
    ("card.auth_type", "A type of authentication is unknown, so it cannot become a scheme.",
     "Write the scheme into `securitySchemes` by hand. It is never taken for open."),
    ("card.auth_setting", "A way to authenticate lacks a setting that its security scheme needs.",
     "Add the setting that is named."),
    # --- build: sources that no card can be made of, and what was done about gaps ---------
    ("build.syntax", "A source is not sound YAML, TOML, JSON or frontmatter.",
     "Fix the file at the line given."),
    ("build.type", "A member of a source has another type than its format says.",
     "Give the member that type."),
    ("build.missing", "No source says what a card needs, and no rule fills it.",
     "Add it to the source."),
    ("build.unknown_source", "The kind of a source cannot be told.",
     "If it is of a kind in `cardsign build --help`, say so: cardsign build KIND:SOURCE -o CARD"),
    ("build.unsupported", "A source is of a kind or version that is not read.",
     "Look at `cardsign build --help` for what is read."),
    ("build.reference", "A source names something that no source defines.",
     "Name the file that defines it as well, or fix the name."),
    ("build.limit", "A source is beyond a limit, or the card of it would be.",
     "Build from fewer sources."),
    ("build.filled", "A source did not say what a card needs, and a rule filled it.",
     "Write it into the source if the rule's answer is wrong."),
    ("build.changed", "Something could not go into the card as its source says it.",
     "Read the card before you sign it."),
    ("build.left_out", "A member of a source has no place in a card, and is not in it.",
     "Nothing to do, unless the card should say it: then write it into a member of A2A."),
    ("build.refused", "A source was refused and left out, because --keep-going was given.",
     "Fix it and build again."),
    ("build.not_advertised", "Something is enforced that the card does not advertise.",
     "Write a scheme for it into `securitySchemes` by hand."),
    ("build.prompt", "A text of the card was taken from a prompt.",
     "Read it before you sign it: a prompt may hold what nobody outside should know."),
    # --- sig: one signature -------------------------------------------------------------
    ("sig.none", "The card is not signed.",
     "Ask its issuer to sign it: cardsign sign CARD -o OUT"),
    ("sig.shape", "An entry of `signatures` does not have the members that a signature has.",
     "Ask the issuer to sign the card again."),
    ("sig.base64url", "A part of the signature is not canonical base64url without padding.",
     "Ask the issuer to sign the card again."),
    ("sig.header", "The protected header is not a strict JSON object of at most 4 KiB.",
     "Ask the issuer to sign the card again."),
    ("sig.alg_forbidden", "The signature's algorithm is not accepted here.",
     "Accept it in the issuer's entry in trust.toml, or ask the issuer to sign with ES256."),
    ("sig.kid_missing", "The signature does not name its key: the header has no kid.",
     "Ask the issuer to sign with a kid (A2A 1.0, 8.4.2)."),
    ("sig.kid_form", "The header's kid is not 1 to 256 printable ASCII characters.",
     "Ask the issuer to give the key another kid."),
    ("sig.typ_forbidden", "The header's typ is not that of a card signature.",
     "A card is signed with typ JOSE. Other types are of other documents: see --statements."),
    ("sig.crit", "The header has `crit`, which no card signature needs.",
     "Ask the issuer to sign without crit."),
    ("sig.b64", "The header has `b64`, which would change the bytes that are signed.",
     "Ask the issuer to sign without b64."),
    ("sig.header_overlap", "The unprotected header repeats, or replaces, a protected member.",
     "Ask the issuer to sign without an unprotected header."),
    ("sig.bad",
     "The card was changed after signing, or signed by a rule that is not known here (a2a-sdk "
     "before 1.1.4, crewAI).",
     "Do not use this card. Fetch it again, or see why: cardsign explain CARD --jwks FILE"),
    ("sig.other_profile", "The signature is good, but made by a rule that is not accepted here.",
     "Accept what it leaves unsigned with --accept sdk, or by accept = 'sdk' in trust.toml."),
    ("sig.compat", "A compat signature is for other SDKs and never counts.",
     "Nothing to do if a full signature is there too. If not, ask the issuer to sign again."),
    ("sig.coverage_reduced", "A signature that covers more is bad, and the good one covers less.",
     "Someone changed what the good signature does not cover. Fetch the card again."),
    # --- key: one key; jwks: a key set --------------------------------------------------
    ("key.unknown", "No accepted key has this kid.",
     "Get the issuer's current key set from a source that you trust."),
    ("key.not_enrolled", "Your policy pins the key for another issuer.",
     "If this should be a card of that issuer, say so: add --issuer with its name."),
    ("key.malformed", "The key is malformed.",
     "Export the key again; numbers must be minimal base64url."),
    ("key.unsupported", "The key's type or curve is not supported.",
     "Use P-256 (ES256) or RSA of at least 2048 bits (RS256)."),
    ("key.weak_rsa", "The RSA key is too short, too long, or has a bad modulus or exponent.",
     "Use RSA of 2048 to 8192 bits with exponent 65537."),
    ("key.alg_mismatch", "The signature's alg is not the key's alg.",
     "Ask the issuer to sign again. One key serves one alg."),
    ("key.use", "The key is not meant for signatures (`use`, `key_ops`).",
     "Publish the key with use=sig."),
    ("key.private_material", "A private key is where only public keys may be.",
     "That key is compromised. Replace it, and publish public keys only."),
    ("key.revoked", "The key is revoked, so its signatures never count.",
     "Fetch the card again. If nothing changes, ask the issuer to sign with another key."),
    ("key.expired", "The key has expired by the issuer's keyset statement.",
     "Check this machine's clock, then fetch the card again. Else ask the issuer to sign anew."),
    ("key.not_yet_valid", "The key is not valid yet by the issuer's keyset statement.",
     "Check this machine's clock, or wait."),
    ("key.role", "The key may not sign cards by the issuer's keyset statement.",
     "Ask the issuer to sign with a key that has the role card."),
    ("jwks.malformed", "The document is not a JWK Set.",
     "A JWK Set is {\"keys\": [...]} of at most 64 KiB. Yours: cardsign keys jwks -o jwks.json"),
    ("jwks.duplicate_kid", "Two keys of the set share one kid.",
     "Give each key a kid of its own. Such a set is refused as a whole."),
    ("jwks.shared_prime", "Two RSA keys of the set share a prime factor.",
     "Replace both. Anyone can compute their private keys."),
    # --- trust: the verifier's side -----------------------------------------------------
    ("trust.no_anchor", "No trusted issuer was found for this card, so its keys are not known.",
     "Add the issuer: cardsign trust init; cardsign trust add URL. Or name keys: --jwks FILE"),
    ("trust.no_expectation", "Nothing says whose card this should be.",
     "Name whose it is: --issuer NAME (cardsign trust list), --origin ORIGIN, or --jwks FILE"),
    ("trust.freshness_waived", "Revocation and rollback were not checked.",
     "You chose not to require this."),
    ("trust.freshness_unknown", "Nothing shows that the card is current.",
     "Fetch the issuer's statements with the card: cardsign verify URL"),
    ("trust.no_keys", "The issuer's keys could not be had from the source that the policy names.",
     "Verify the URL of the card, or give the statements: cardsign verify CARD --statements DIR"),
    ("trust.key_changed", "A new key is published that nothing you trust endorses.",
     "Do not use this card. Ask the issuer over another channel whether it changed its keys."),
    ("threshold.unmet", "Not all holders that the policy requires have signed this payload.",
     "Ask the missing holders to sign the card as it is."),
    ("state.none", "Nothing is remembered of the issuer, so a rollback cannot be seen.",
     "Verify without --no-state, or commit a trust.lock that names the issuer."),
    ("time.clock_behind", "This machine's clock is behind a time that the issuer has signed.",
     "Set the clock. Until then nobody can say what has expired."),
    ("time.historic", "The verdict is about a time that you chose, so nothing is trusted by it.",
     "Leave out --at to ask about now."),
    ("coverage.uncovered", "A member or element of the card is not signed.",
     "Anyone could have put it there. Ask the issuer for a full (served-as-is) signature."),
    ("coverage.requirement_unsigned", "An authentication requirement of the card is not signed.",
     "Anyone could add or remove it. Ask the issuer for a full (served-as-is) signature."),
    ("coverage.absence_unprovable", "The signature does not show that nothing empty was removed.",
     "Nothing to do if you accept the SDKs' signatures. A full signature would show it."),
    ("sign.no_key", "There is no active key to sign with.",
     "Make one: cardsign keys generate"),
    ("sign.too_many", "The card would get more signatures than the limit.",
     "Drop foreign signatures with --drop-foreign, or sign with fewer keys."),
    ("sign.self_check", "The signed card does not verify when it is read again.",
     "Nothing was written. Please report this as a bug."),
    ("sign.profile_skipped", "A profile has no payload for this card, so it was left out.",
     "Fix the member named, so that verifiers of that profile accept the card."),
    ("sign.compat_lossy", "Some SDKs do not check parts of this card.",
     "Nothing to do: cardsign checks them."),
    ("sign.compat_no_endpoint", "An SDK finds no endpoint in this card.",
     "Serve readers of A2A 1.0 a card of 1.0."),
    ("sign.compat_dropped", "A compat signature was left out, since a card has at most 16.",
     "Drop foreign signatures with --drop-foreign, or wait until a key has retired."),
    ("sign.sdk_refuses", "An SDK that can use the card will refuse its signatures.",
     "Change the card as `cardsign lint` says, or add the compat signature named."),
    ("sign.dual_document", "One document for A2A 0.3 and 1.0 was signed.",
     "Better serve two cards, one of A2A 1.0 and one of 0.3, each with its own signatures."),
    ("sign.foreign", "A signature of another signer was kept without its key, or dropped.",
     "Ask that signer to sign the card as it is, or drop it with --drop-foreign."),
    ("sign.header_too_long", "The protected header is longer than other libraries verify.",
     "Use a shorter kid."),
    ("gateway.loop", "A card came to this gateway through this gateway, or through too many.",
     "Sign again the card of the agent itself, not the copy of a gateway."),
    ("gateway.upstream", "A gateway's copy says in an unknown form where it came from.",
     "Upgrade cardsign, if a newer one made the copy."),
    ("gateway.names_upstream", "A gateway's copy still names the upstream's host.",
     "Check that callers may know it, and that it is no endpoint."),
    ("publish.not_verifying", "The card does not verify with the key set that would be published.",
     "Sign it first with an active key of this key store: cardsign sign CARD"),
    ("publish.extended", "The extended card does not fit its public card, audience or time.",
     "Read what is wrong in the message; sign it again with --extended AUDIENCE if need be."),
    ("publish.legacy", "The card for clients of A2A 0.3 does not fit the public card.",
     "Make it of the same card: cardsign build CARD --a2a 0.3. Sign it. Or --drop-legacy-card."),
    ("publish.audience_name", "An audience's name is not [a-z0-9-]{1,64}.",
     "Use lower-case letters, digits and hyphens."),
    ("publish.unlisted", "A card, or the key that signed it, is not in the newest statements.",
     "List it first: cardsign release renew --card FILE"),
    ("publish.release_behind", "No release statement speaks of the newest keyset statement yet.",
     "Sign one, and both are published at once: cardsign release renew."),
    ("publish.statements", "The statements to be published do not follow the published ones.",
     "Read in what is published, then publish again: cardsign release renew"),
    ("publish.other_publisher", "The directory holds files that are not of this publisher.",
     "Publish to a directory of your own: cardsign publish CARD -o DIR"),
    # --- extended: the extended-card marker (docs/reference/formats.md) ---------------------------
    ("extended.marker", "The extended-card marker is malformed, doubled or misplaced.",
     "Remove it and sign again: cardsign sign CARD --extended AUDIENCE --seq N --expires DATE"),
    ("extended.served_as_public", "An extended card was served in place of the public card.",
     "Do not use it. Fetch the public card again."),
    ("extended.not_marked", "The card is not an extended card: it has no marker.",
     "Ask the issuer to sign it with --extended AUDIENCE."),
    ("extended.audience_mismatch", "The extended card is meant for another audience.",
     "Do not use it. Check the audience that the issuer gave you."),
    ("extended.rollback", "The extended card is older than the oldest that the issuer accepts.",
     "Fetch it again. If it stays old, someone may be withholding the newer one."),
    ("extended.ahead", "The extended card belongs to a release that is not published yet.",
     "Fetch the release statement again. If nothing changes, ask the issuer."),
    ("extended.expired", "The extended card has expired.",
     "Check this machine's clock, then fetch the card again. Else ask the issuer for a newer one."),
    ("extended.other_agent", "The extended card belongs to another agent of the same issuer.",
     "Do not use it. Ask the issuer why the endpoint answers with it."),
    ("extended.public_untrusted", "The public card beside the extended one is not trusted.",
     "Fix what is wrong with the public card first."),
    # --- statement: a keyset or release statement (docs/concepts/statements.md) -------------------
    ("statement.shape", "The file is not a JWS in General JSON of at most 64 KiB.",
     "Fetch the statement again, or ask its issuer for it."),
    ("statement.header", "A protected header is not exactly alg, kid and typ.",
     "Ask the issuer to sign the statement with cardsign."),
    ("statement.typ", "The signatures are for another kind of document.",
     "Check that this is the statement you meant."),
    ("statement.not_canonical", "The payload is not in the form of RFC 8785 (JCS).",
     "Ask the issuer to draft the statement with cardsign."),
    ("statement.format", "This version does not know the statement's format.",
     "Upgrade cardsign."),
    ("statement.members", "A member of the statement is missing, unknown or malformed.",
     "Fix the member named and have the statement signed again."),
    ("statement.time_span", "The statement ends before it begins, or lives too long.",
     "A keyset lives at most 400 days, a release at most 14."),
    ("statement.threshold", "The threshold exceeds the number of holders, or there are too many.",
     "Name 1 to 16 holders and no larger threshold. A holder counts once."),
    ("statement.bad_key", "A key is malformed, listed twice, or both listed and revoked.",
     "List each key once, as cardsign writes it, and no revoked key."),
    ("statement.anchor", "The keyset statement is not the one that your policy pins.",
     "Ask the issuer over another channel which digest is right. Do not just replace the pin."),
    ("statement.unsigned", "Too few of the required holders have signed the statement.",
     "Have the missing holders sign it. Each counts once."),
    ("statement.issuer", "The statement belongs to another issuer.",
     "Check where it was fetched from."),
    ("statement.fork", "Two different statements have the same number.",
     "Keep yours, and show both to the issuer: one may be forged."),
    ("statement.rollback", "The statement is not newer than the one already seen.",
     "Nothing to do for a stale copy. Else someone may be withholding the newer one."),
    ("statement.gap", "A statement between the known one and this one is missing.",
     "Fetch the versions one by one."),
    ("statement.too_many", "There are more statements than one refresh reads.",
     "Give those from the known one to the newest: 256 steps, and 2 MiB of each kind."),
    ("statement.prev", "The statement does not continue the one already seen.",
     "The history was forked. Keep yours, and show both to the issuer."),
    ("statement.unrevoked", "A revoked key is no longer revoked.",
     "Ask the issuer. Within an epoch a revocation is final."),
    ("statement.recovery", "The epoch or recovery keys changed without the recovery keys.",
     "Ask the issuer what happened. Only the recovery keys can do that."),
    ("statement.keyset", "The release does not name the newest keyset statement.",
     "Fetch the keyset and the release again. If nothing changes, ask the issuer for a release."),
    ("statement.revoked", "The release revokes its own signer, or a key that it may not revoke.",
     "Ask the issuer. A release may revoke other card and release keys only."),
    ("statement.floor", "A rollback floor of the release is too low or too high.",
     "Ask the issuer. Floors only rise, and never above the release itself."),
    ("statement.vanished", "A statement that was seen before is no longer served.",
     "Ask the issuer: the statement may be withheld."),
    ("statement.digest", "The statement does not have the digest that was given.",
     "Do not use it. Ask its author or issuer over another channel which digest is right."),
    ("statement.not_yet", "The statement was issued in the future.",
     "Check this machine's clock."),
    ("statement.expired", "The statement has expired.",
     "Check this machine's clock, then fetch it again. Else ask the issuer for a newer one."),
    # --- credential: what a peer is shown (docs/guides/call.md) ------------------------------
    ("credential.none", "There is no credential for this peer, or it cannot be read.",
     "Name one with --credential env:NAME or --credential file:/PATH."),
    ("credential.elsewhere", "The card's endpoint lies outside the issuer's origins.",
     "Nothing was sent. If the place is the issuer's, add it to its origins in trust.toml."),
    ("credential.scheme", "The verified card asks for no single credential in a header.",
     "Ask the issuer to declare one scheme that goes in a header: HTTP, OAuth or an API key."),
    ("credential.refused", "The peer refuses the credential, or asks for one.",
     "Get a new one from the issuer. What the peer asks for is shown and never followed."),
    # --- call: a trusted peer that is asked for something --------------------------------
    ("call.no_interface", "The verified card names no endpoint that this client can call.",
     "JSON-RPC and HTTP+JSON of A2A 0.3 and 1.x can be called, and tenants of A2A 1.0."),
    ("call.verdict_over", "The verdict on the public card is no longer valid.",
     "Verify the peer again."),
    ("call.no_extended", "The peer has no extended card, or none for this credential.",
     "Ask the issuer whether you have access to one."),
    ("call.error", "The peer answered an error, or something unreadable or ambiguous.",
     "See what it says. The card is still trusted."),
    ("call.task_failed", "The agent's task failed, or was rejected or canceled.",
     "See what it says. The card is still trusted."),
    # --- local faults -------------------------------------------------------------------
    ("internal.ended", "The process that verified this card ended before it had a verdict.",
     "Verify the card alone; with too little memory, use fewer jobs (-j)."),
    ("cluster.unreachable", "The scheduler has no worker that can verify cards.",
     "Start it, and workers with the same cardsign; or leave --cluster out."),
    ("internal.bug", "cardsign has a bug and stopped.",
     "Please report it; set CARDSIGN_DEBUG=1 to see where it happened."),
    ("usage.invalid", "The command line cannot be understood.",
     "See the help of the command: cardsign help COMMAND"),
    ("usage.conflict", "Options contradict one another, or one is missing.",
     "See the help of the command: cardsign help COMMAND"),
    ("usage.unanswered", "A question had to be answered first; nothing was written.",
     "Answer it at a terminal, or say --yes."),
    ("usage.not_installed", "A library that only this needs is not installed.",
     "Install the extra that the message names, such as: pip install 'cardsign[postgres]'"),
    ("config.malformed", "cardsign.toml or signers.toml is malformed.",
     "Fix what is named. A new cardsign.toml is written by: cardsign init"),
    ("config.secret", "cardsign.toml, which is committed, holds a password.",
     "Change the password, and keep the new one in ~/.pgpass or CARDSIGN_KEYSTORE."),
    ("config.not_allowed", "A file that came with a project says what only your own files may say.",
     "If it is yours, allow it in your own file, or name it on the command line."),
    ("policy.malformed", "trust.toml is malformed.",
     "Fix what is named. An entry that works is written by: cardsign trust add URL"),
    ("policy.unknown_issuer", "The policy has no trusted issuer of that name.",
     "See the names: cardsign trust list"),
    ("policy.no_cards", "The policy lists no card of this issuer.",
     "Name the URLs of its cards in trust.toml: cards = [\"https://host/\"]"),
    ("lock.malformed", "trust.lock is malformed.",
     "Restore it from version control. Only cardsign writes it."),
    ("state.missing", "The state of a trusted issuer is missing.",
     "Where that is expected, such as on a new machine: cardsign trust init"),
    ("state.corrupt", "The state of an issuer cannot be read.",
     "Restore it from a backup. Else: cardsign trust known forget NAME; cardsign trust init"),
    ("state.created", "The state of an issuer was begun anew from trust.lock.",
     "Nothing to do on a new machine. Elsewhere find out who removed it."),
    ("state.other_anchor", "The issuer's state was learned under another anchor.",
     "If you changed the anchor on purpose: cardsign trust known forget NAME; cardsign trust init"),
    ("state.fork", "The issuer's state and a lock or statement name two histories.",
     "Show both digests to the issuer. Then restore the right one, or forget the wrong one."),
    ("file.not_found", "There is no such file.",
     "Check the path."),
    ("file.unreadable", "The file cannot be read, or is a directory.",
     "Check its name and permissions."),
    ("file.unwritable", "The file cannot be written.",
     "Check the directory's permissions and free space."),
    ("file.exists", "The file exists already.",
     "Choose another name, or remove it yourself."),
    ("file.not_plain", "There is a link, device or pipe where a plain file is expected.",
     "Find out who put it there. Remove it, or name another file."),
    ("file.permissions", "Others can read a private file, or it is a link.",
     "Name a plain file of your own that nobody else can read."),
    ("passphrase.none", "No passphrase was given, and there is no terminal to ask at.",
     "Set CARDSIGN_PASSPHRASE, or use --passphrase-file FILE or --passphrase-fd N."),
    ("passphrase.wrong", "The passphrase does not open the key, or the key file was changed.",
     "Try again. If the passphrase is right, restore the key file from a backup."),
    ("passphrase.unfit", "The passphrase is too short, typed in two ways, or used for another key.",
     "Use at least 8 characters, best a random one from a password manager."),
    ("keystore.missing", "There is no key store here.",
     "Make one: cardsign keys generate. Or name it with --keystore DIR."),
    ("keystore.exists", "There is already a key store here.",
     "Add a key to it: cardsign keys generate"),
    ("keystore.corrupt", "The key store's state, or the file of a private key, cannot be read.",
     "Restore it from a backup. Nothing was changed."),
    ("keystore.newer_format", "The file was written by a newer cardsign.",
     "Upgrade cardsign."),
    ("file.busy", "Another process is changing the same files.",
     "Try again when it has finished."),
    ("keystore.url", "The URL of the key store's database is malformed.",
     "Percent-encode special characters, and keep the password in ~/.pgpass."),
    ("keystore.unreachable", "The database of the key store cannot be used now.",
     "Check server, address, role and rights. Nothing was changed."),
    ("keystore.unknown_key", "The key store has no such key.",
     "See its keys: cardsign keys list"),
    ("keystore.duplicate_key", "The key store already holds this key or its kid.",
     "See its keys: cardsign keys list"),
    ("keystore.changed", "Another process changed the key store meanwhile.",
     "Repeat the command."),
    ("keystore.illegal_transition", "A key cannot go from its state to this one.",
     "The order is generated, prepublished, active, retiring, retired; revoked from any of them."),
    ("keystore.too_early", "It is too early for this step: caches may still need the key.",
     "Wait until the time given. After a theft: cardsign keys revoke KID --reason compromised."),
    ("keystore.not_seen", "This step waits for a publication, and none is recorded.",
     "Publish: cardsign publish CARD. If you publish by other means: cardsign keys look URL "
     "--jwks URL"),
    ("keystore.cards_unsigned", "A published card is signed only by the key that is to end.",
     "Sign and publish it again: cardsign sign CARD; cardsign publish CARD"),
    ("keystore.still_needed", "Without this key no next keyset statement can be signed.",
     "First list another root: cardsign keyset draft --add-root HOLDER=KID; sign and publish it."),
    ("keystore.same_custody", "The key is in a compromised key's custody, so it may be stolen too.",
     "Make a key that is stored elsewhere, or accept the risk with --same-custody-accepted."),
    ("keystore.audit_broken", "The key store is not the one that its audit log records.",
     "Somebody changed a file, put an old one back, or uses another copy. Compare with a backup."),
    ("keystore.other_history", "The key store's audit log does not continue what you saw of it.",
     "If you replaced it on purpose, remove its file in `keystores` of your state folder."),
    ("keystore.rolled_back", "The key store's state is older than its own audit log.",
     "Put the newest keystore.json back. If it is lost, restore a backup and repeat revocations."),
    ("keystore.moved", "The key store has moved; nothing is signed or changed here.",
     "Name the new place, which the message tells, by --keystore."),
    ("keystore.not_listed", "The newest keyset statement does not list this key.",
     "Let the roots list it: cardsign keyset draft; then cardsign keyset sign and publish."),
    ("keystore.no_keyset", "There is no keyset statement beside this key store.",
     "Make a root key and draft one: cardsign keys generate --role root; then "
     "cardsign keyset draft --origin https://HOST"),
    ("rotate.draft", "The file for the draft of a keyset statement cannot be used.",
     "Remove the file, or name another with --draft. Then draft again: cardsign keys rotate"),
    ("rotate.draft_says_more", "The waiting draft changes more than the key store would.",
     "Ask the person who drafted it. If nobody did, remove the file and find out who wrote it."),
    ("doctor.leftover", "A killed process left a file that nothing refers to.",
     "cardsign keys doctor --fix removes it."),
    ("doctor.moved", "This key store has moved, and private keys may still lie here.",
     "Name the new one: `keystore` in cardsign.toml, or CARDSIGN_KEYSTORE for a database."),
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
     "A key waits: cardsign keys rotate --root-keystore DIR. None does: cardsign keys generate."),
    ("doctor.still_trusted", "Verifiers still trust a revoked key.",
     "cardsign keys rotate, with --root-keystore DIR if roots have to sign. It says what is left."),
    ("doctor.may_be_stolen", "A key that was stored with a stolen one still counts.",
     "cardsign keys rotate; it says how to revoke or replace the key."),
    ("doctor.ended", "The issuer has ended: every card and release key was revoked as ceased.",
     "Serve what is published until the newest release has ended. Nothing else is left to do."),
    ("doctor.due", "A step of the key rotation is due.",
     "cardsign keys rotate"),
    ("doctor.no_standby", "After a theft no key could take over at once.",
     "Good to have, not needed to begin: cardsign keys import --custody URI --standby."),
    ("doctor.cards_unsigned", "A published card must be signed again: its keys have changed.",
     "cardsign sign CARD; cardsign release renew --card CARD where there is a keyset; publish."),
    ("doctor.keyset_due", "The roots have to sign the next keyset statement.",
     "cardsign keys rotate drafts it, and signs it with the root keys that are here."),
    ("doctor.roots_ended", "Too few holders of root keys are left to sign the next keyset.",
     "Before the newest keyset ends: cardsign keyset recover --recovery-file FILE."),
    ("doctor.root_unlisted", "A root key of the key store is not in the newest keyset.",
     "Publish the keyset that lists it: cardsign keyset publish FILE. None does: cardsign keyset "
     "draft --add-root HOLDER=FILE, or cardsign keys retire KID."),
    ("doctor.draft_waits", "A keyset statement waits for the signatures of the roots.",
     "cardsign keys rotate --root-keystore DIR; others: cardsign keyset sign FILE --digest HEX."),
    ("doctor.key_ends", "A key that the keyset lists soon counts no more, or already does not.",
     "Where its private key is: cardsign keyset draft; then cardsign keyset sign."),
    ("doctor.card_ends", "An extended card ends soon, or has ended.",
     "cardsign sign; then cardsign publish. If its `expires` is a date, set a later one first."),
    ("doctor.token_ends", "A bearer token of a server ends soon, or has ended.",
     "Make another for its user; then revoke this one. The message has both commands."),
    ("doctor.release_due", "The release statement has to be renewed.",
     "cardsign release renew; cron should do that: cardsign keys rotate --quiet."),
    ("signer.failed", "The signer did not return a signature.",
     "Check the signer that the URI names."),
    ("signer.wrong_key", "The signer's answer does not verify with the stored public key.",
     "The signer holds another key or version; nothing was signed."),
    ("signer.uri", "The URI of a signer is malformed, of an unknown kind, or lacks a setting.",
     "Give it in the form KIND:ADDRESS, as the message says."),
    ("signer.unreachable", "The signer cannot be reached: a program, library, token or server.",
     "Start it or insert it, and check its address."),
    ("signer.credentials", "The signer refuses the PIN or the token.",
     "Check it before you try again; a token locks itself after a few wrong PINs."),
    ("signer.no_key", "The URI of a signer names no key, several, or one that may not be used now.",
     "Check the URI: a variable, or a key's label, id or version."),
    ("signer.no_public", "The public key is not known, and the signer is not asked for it.",
     "Give the public key: --public FILE."),
    ("serve.bind", "The address cannot be bound: it is in use, or none of this machine.",
     "Stop the other server, or choose another address with --bind HOST:PORT."),
    ("serve.no_generation", "The directory holds no publication.",
     "Publish first: cardsign publish CARD -o DIR."),
    ("serve.corrupt_generation", "A published file does not match its manifest.",
     "Publish again; the files were changed after publication."),
    ("serve.newer_format", "The publication was written by a newer cardsign.",
     "Upgrade cardsign."),
    ("serve.worker_died", "The server's worker process ended by itself.",
     "See its last lines. If they name no cause, please report this as a bug."),
    ("serve.schemes", "The public card demands a security scheme that the server does not take.",
     "Configure a provider for it, or declare the schemes that the server takes and sign again."),
    ("serve.token_file", "The token file is malformed.",
     "Each line is a token's SHA-256 in hex and its audience: cardsign tokens create."),
    ("peer.not_examined", "A peer was not verified, because the check ended early.",
     "Verify this peer alone: cardsign peers verify NAME. If it fails again, report it as a bug."),
    ("peer.statement_ends", "A statement of a peer ends soon, and there is no newer one.",
     "Look for a newer one: cardsign peers verify. If there is none, ask the issuer."),
    ("refresh.no_answer", "A statement could not be fetched.",
     "Try again later. What is remembered is used until it expires."),
    ("fetch.url", "The URL is not in the accepted form.",
     "Use https://host[:port]/path without user name, backslash or control characters."),
    ("fetch.elsewhere", "The request would leave the verified card's endpoints.",
     "Nothing was sent. Call an interface of the card that was verified."),
    ("fetch.forbidden_address", "The host's address is not a public one.",
     "For a test server on this machine: --insecure-loopback-http."),
    ("fetch.failed", "The peer could not be reached.",
     "Check the URL and the network, then try again."),
    ("fetch.status", "The peer did not answer 200.",
     "Check the URL. Redirects are not followed."),
    ("fetch.too_large", "The peer's answer is larger than the limit.",
     "Agent Cards are small. Check the URL."),
    ("fetch.timeout", "The peer did not answer in time.",
     "Try again later."),
    ("fetch.content_type", "The peer's answer is not declared as JSON.",
     "Check the URL: it may not be that of a card."),
    ("fetch.encoding", "The peer's answer is compressed, which was not asked for.",
     "Ask the peer to honour `Accept-Encoding: identity`."),
    ("fetch.stale", "The peer gives no answer now, so its last answer was judged.",
     "Nothing to do while the card is trusted."),
    ("fetch.tls", "The TLS connection failed, or the certificate does not fit the host.",
     "Check the host's name and certificate, and this machine's certificate authorities."),
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
        "build.changed",
        "build.filled",
        "build.left_out",
        "build.not_advertised",
        "build.prompt",
        "card.missing_required",
        "card.single_signature_block",
        "doctor.timeline",
        "gateway.names_upstream",
        "peer.statement_ends",
        "refresh.no_answer",
        "sign.compat_dropped",
        "sign.compat_no_endpoint",
        "sign.sdk_refuses",
        "sign.dual_document",
        "sign.foreign",
        "sign.profile_skipped",
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


def with_severities(reasons: Sequence[Reason], *, trusted: bool) -> tuple[Reason, ...]:
    """The reasons of one verdict with their severities.

    Nothing is an error in a trusted card, whose policy accepts what its signature leaves open.
    Of another card the first reason decides, so it is an error whatever its code.
    """

    def rated(reason: Reason) -> Reason:
        own = severity_of(reason.code)
        if not trusted:
            own = "error" if reason.code == reasons[0].code else own
        elif reason.code.startswith("coverage."):
            own = "note"
        elif own == "error":
            own = "warning"
        return reason if reason.severity == own else replace(reason, severity=own)

    return tuple(map(rated, reasons))


#: Reasons of one code that a report lists.
MAX_OF_CODE: Final = 50


def listed(reasons: Iterable[Reason]) -> Iterator[Reason]:
    """List the first reasons of each code; at the end the number of the others."""
    counts: Counter[str] = Counter()
    left_out: dict[str, Reason] = {}
    for reason in reasons:
        counts[reason.code] += 1
        if counts[reason.code] <= MAX_OF_CODE:
            yield reason
        else:
            left_out.setdefault(reason.code, reason)
    for code, first in left_out.items():
        yield replace(first, message=f"{counts[code] - MAX_OF_CODE:,} more", path="")


def hint_for(code: str) -> str:
    """The registry's hint for `code`; empty where the code is unknown."""
    return REASONS[code].hint if code in REASONS else ""
