"""What verifiers still trust although it was revoked, and what a thief may have besides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cardsign.errors import PublishRefused
from cardsign.issuer import publishing
from cardsign.issuer.recovery import ONLINE_ROLES, RECOVER
from cardsign.issuer.release import find_release_gap
from cardsign.issuer.work import Gap, Work, key_holder
from cardsign.jose.keys import short_kid
from cardsign.keys import history, lifecycle
from cardsign.keys.model import ENDED, KeyRecord, StoreState
from cardsign.statements.keyset import KeysetStatement, OnlineRole

ADD_ROOT: Final = "cardsign keyset draft --add-root HOLDER=KEY"


def find_untold_revocations(work: Work, *, is_recovering: bool) -> Iterator[Gap]:
    """Yield the revoked keys that verifiers still trust, and what tells them; that comes first."""
    state, keyset = work.store.load(), history.kept_keyset(work.store)
    revoked = [key for key in state.keys if key.state == "revoked"]
    trusted = find_still_trusted(work, revoked)
    why, command = explain_trust(work, trusted) if trusted else ("", "")
    is_told_here = bool(trusted) and not is_recovering
    gaps = [*find_release_gap(work), *publishing.find_update_gap(work)] if is_told_here else []
    if gaps:  # the first one tells the verifiers
        gaps[0] = gaps[0]._replace(why=why or gaps[0].why, until=work.now)
    if trusted and not any(gap.close for gap in gaps):
        gaps.append(Gap(why, command=command, until=work.now))
    roots = [*_find_stolen_roots(work, keyset)]
    can_tell = any("release" in key.roles and key.state not in ENDED for key in state.keys)
    # No release can stop a thief whom no release key opposes; the recovery key does.
    yield from (*gaps, *roots) if can_tell or keyset is None else (*roots, *gaps)
    yield from publishing.find_removal_gap(work)
    thumbprints = [key.thumbprint for key in revoked if key not in trusted]
    ended = lifecycle.end_told_releases(state, thumbprints)
    if ended and not is_recovering:
        names = ", ".join(state.find(str(event["key"])).named for event in ended)

        def close() -> list[str]:
            work.store.apply(lifecycle.end_told_releases, thumbprints, now=work.now)
            return [f"revoked {names}"]

        yield Gap(f"revoke {names}", close=close)


def find_still_trusted(work: Work, revoked: Sequence[KeyRecord]) -> list[KeyRecord]:
    """Return the keys that are revoked in the store, but in nothing that verifiers are given."""
    try:
        published = publishing.published_statements(work.config.publish)
    except PublishRefused:  # no history, as the steps that publish report
        published = None
    keyset, release = history.kept_keyset(work.store), history.kept_release(work.store)
    if published is not None:
        keyset, release = published.newest, published.release
    if keyset is None:  # then nothing but the key sets says which keys count
        offered = publishing.list_published_keys(publishing.newest_generation(work.config.publish))
        return [
            key
            for key in revoked
            if key.public in offered or (is_given_out(key) and key.times.dropped is None)
        ]
    trusted = {key.public.thumbprint for key in keyset.keys} - keyset.revoked
    trusted -= release.revoked if release is not None else frozenset()
    return [key for key in revoked if key.thumbprint in trusted]


def is_given_out(key: KeyRecord) -> bool:
    """Say whether a key may be in key sets that others hold."""
    return "card" in key.roles and key.times.prepublished is not None


def explain_trust(work: Work, keys: Sequence[KeyRecord]) -> tuple[str, str]:
    """Return why verifiers still trust these revoked keys, and the command that ends it."""
    names = ", ".join(key.named for key in keys)
    if history.kept_keyset(work.store) is not None:
        why = f"verifiers still trust {names}: nothing that is published revokes them yet"
        return why, work.again
    offered = publishing.list_published_keys(publishing.newest_generation(work.config.publish))
    if not work.store.state.publications and all(key.public not in offered for key in keys):
        why = f"verifiers may still trust {names}: key sets that were handed out still list them; "
        why += "write another, and give it to all who have the old one"
        return why, work.command("keys jwks -o jwks.json")
    why = f"verifiers still trust {names}: still in the published key set"
    if work.config.publish is None:
        return why, "cardsign publish SIGNED -o DIR"
    return why, work.again


def find_endangered(work: Work) -> Iterator[Gap]:
    """Yield the keys that a thief may have taken with a stolen one, and that the issuer ends."""
    others, _ = history.stolen_with(work.store.load(), history.kept_keyset(work.store))
    if names := ", ".join(key.named for key in others if "release" in key.roles):
        message = f"revoke {names} later: it first has to sign the release that revokes the others"
        yield Gap(message, key_holder("release"), work.again)
    if names := ", ".join(key.named for key in others if not key.rotates):
        message = f"{names} may be stolen too: sign the next keyset with other root keys"
        yield Gap(message, command=work.again)


def _find_stolen_roots(work: Work, keyset: KeysetStatement | None) -> Iterator[Gap]:
    """Yield the roots that may be stolen, and without which nothing can be signed."""
    state = work.store.load()
    _, roots = history.stolen_with(state, keyset)
    if keyset is None or not roots or history.unlisted_roots(state, keyset):
        return  # in the last case a recovery waits already
    stolen = [short_kid(key.kid) for key in state.keys if key.revoked_because == "compromised"]
    beside = f", stored with {', '.join(stolen)}" if stolen else ""
    message = f"{', '.join(key.named for key in roots)}{beside}, may be stolen too; "
    message += f"no keyset can be signed without {'it' if len(roots) == 1 else 'them'}"
    if keyset.recovery:
        message += ", so the recovery key has to open a new epoch"
        who, command = "the holder of the recovery key", RECOVER
        if any(key.rotates for key in state.keys):  # else others publish what is signed here
            recover = " ".join(filter(None, (f"{RECOVER} -o next.json --yes", work.options)))
            command = f"{recover}; {work.command('keyset publish next.json')}; {work.again}"
        lost = tuple(role for role in ONLINE_ROLES if _is_lost(state, role))
        yield Gap(message, who, command, awaits_roots=True, new_passphrases=("root", *lost))
    else:
        message += ", and there is no recovery key: list another root, then revoke this one"
        yield Gap(message, command=ADD_ROOT)


def _is_lost(state: StoreState, role: OnlineRole) -> bool:
    """Say whether the thief has, or had, all keys of a role."""
    keys = [key for key in state.keys if role in key.roles]
    return bool(keys) and all(key.is_stolen or key.state in ENDED for key in keys)
