#!/usr/bin/env bash
# Lints, compares, signs and verifies a card. Every other pipeline here runs this script.
# CARD_KEY and CARDSIGN_PASSPHRASE hold the private key and its passphrase. Its kid is that in the
# key set, unless CARD_KID names another.
set -euo pipefail
card=${CARD:-card.json} jwks=${JWKS:-jwks.json} signed=${SIGNED:-signed.json}

cardsign lint "$card" --fail-on error

# The card of the newest tag before this commit, if there is one: is the version high enough?
previous=$(git describe --tags --abbrev=0 HEAD^ 2>/dev/null || true)
if [ -n "$previous" ] && git cat-file -e "$previous:$card" 2>/dev/null; then
  git show "$previous:$card" | cardsign diff - "$card"
fi

cardsign sign "$card" --key env:CARD_KEY --public "$jwks" ${CARD_KID:+--kid "$CARD_KID"} -o "$signed"
cardsign verify "$signed" --jwks "$jwks"
