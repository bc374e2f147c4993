#!/bin/sh
# The generic A2A reference: its card becomes one of A2A 1.0. Its signature block cannot be kept.
# It works in a folder of its own, which it removes. expected.txt holds what it prints.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R "$here" "$work/example"
cd "$work/example"
export CARDSIGN_PASSPHRASE='an example needs no better one'

cardsign build travel-planner.json -o card.json 2>&1

cat card.json
cardsign lint card.json --quiet >lint.txt || test $? -eq 1  # findings that only other readers care for

cardsign keys generate --quiet >key.txt
cardsign keys jwks -o jwks.json --quiet
cardsign sign card.json -o signed.json --quiet >sign.txt
cardsign verify signed.json --jwks jwks.json --quiet | head -n 1
. "$here/../live.sh"
verify_live https://example.com
