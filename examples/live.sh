# Sourced by the examples, whose folder is $work: publish, serve and verify as a stranger would.

# verify_live ORIGIN: ORIGIN is where the card says that its agent is.
verify_live() {
    cardsign publish signed.json -o public --quiet
    mkfifo started
    cardsign serve public --bind 127.0.0.1:0 --json >started 2>serve.txt &
    server=$!
    trap 'kill "$server"; wait "$server" || true; rm -rf "$work"' EXIT
    url=$(sed -n 's/.*"url": "\([^"]*\)".*/\1/p;q' <started) # said once it accepts requests
    cardsign trust add example --jwks jwks.json --origin "$1" --origin "$url" \
        --insecure-loopback-http --yes --quiet >trust.txt
    cardsign verify "$url" --insecure-loopback-http --quiet | head -n 1 | sed "s|$url|http://HOST|"
}
