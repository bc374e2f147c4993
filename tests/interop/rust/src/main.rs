//! A judge: the crate a2a-protocol-types signs and verifies Agent Cards.
//!
//! Reads one JSON request a line on stdin and writes one JSON answer a line on stdout, in the
//! same order; README.md two folders above holds the protocol. The crate verifies a card in two
//! ways: as received, which its own client does and which is `plain` here, and `typed`, after
//! reading it into its `AgentCard`.

use std::io::{self, BufRead, Write};

use a2a_protocol_types::agent_card::AgentCard;
use a2a_protocol_types::extensions::AgentCardSignature;
use a2a_protocol_types::signing::{
    Jwks, canonicalize_card, canonicalize_card_json, sign_card_es256, verify_card_json_with_jwks,
    verify_card_with_jwks,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

const LOCK: &str = include_str!("../Cargo.lock");

/// What stands before the secret number of a P-256 key in PKCS#8 (RFC 5958, RFC 5915), and
/// between it and the coordinates of the point.
const PKCS8_HEAD: &[u8] = b"\x30\x81\x87\x02\x01\x00\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\
    \x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x04\x6d\x30\x6b\x02\x01\x01\x04\x20";
const PKCS8_MIDDLE: &[u8] = b"\xa1\x44\x03\x42\x00\x04";

fn main() -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().split(b'\n') {
        let answer = answer(&line?).unwrap_or_else(|error| json!({ "error": error }));
        writeln!(stdout, "{answer}")?;
        stdout.flush()?;
    }
    Ok(())
}

fn answer(line: &[u8]) -> Result<Value, String> {
    let request: Value = serde_json::from_slice(line).map_err(describe)?;
    match text(&request, "do")? {
        "verify" => {
            let (reader, jwks) = (reader(&request)?, jwks(&request)?);
            Ok(verdict(parse(text(&request, "card")?, reader), &jwks))
        }
        "sign" => sign(&request),
        "canonicalize" => canonicalize(&request),
        "version" => Ok(json!({
            "name": "a2a-protocol-types",
            "version": locked("a2a-protocol-types"),
            "beside": { "ring": locked("ring"), "serde_json": locked("serde_json") },
        })),
        other => Err(format!("no request is called {other:?}")),
    }
}

// --- requests ---------------------------------------------------------------

fn text<'a>(request: &'a Value, name: &str) -> Result<&'a str, String> {
    request[name].as_str().ok_or_else(|| format!("'{name}' must be a string"))
}

fn jwks(request: &Value) -> Result<Jwks, String> {
    serde_json::from_value(request["jwks"].clone()).map_err(describe)
}

fn describe(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The version of a dependency, as Cargo.lock holds it.
fn locked(name: &str) -> &'static str {
    let package = LOCK.split_once(&format!("name = \"{name}\"\nversion = \"")).expect("is locked");
    package.1.split_once('"').expect("ends with a quote").0
}

// --- the two ways of reading a card -----------------------------------------

enum Card {
    Received(Value),
    Typed(Box<AgentCard>),
}

type Reader = fn(Value) -> Result<Card, String>;

fn reader(request: &Value) -> Result<Reader, String> {
    match request["path"].as_str().unwrap_or("plain") {
        "plain" => Ok(as_received),
        "typed" => Ok(as_typed),
        other => Err(format!("'path' must be 'plain' or 'typed', not {other:?}")),
    }
}

fn as_received(document: Value) -> Result<Card, String> {
    if document.is_object() { Ok(Card::Received(document)) } else { Err("no object".into()) }
}

fn as_typed(document: Value) -> Result<Card, String> {
    serde_json::from_value(document).map(Card::Typed).map_err(describe)
}

fn parse(text: &str, read: Reader) -> Result<Card, String> {
    read(serde_json::from_str(text).map_err(describe)?)
}

impl Card {
    fn verify(&self, jwks: &Jwks) -> Result<(), String> {
        match self {
            Self::Received(document) => verify_card_json_with_jwks(document, jwks),
            Self::Typed(card) => verify_card_with_jwks(card, jwks),
        }
        .map_err(|error| error.message)
    }

    fn payload(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Received(document) => canonicalize_card_json(document),
            Self::Typed(card) => canonicalize_card(card),
        }
        .map_err(|error| error.message)
    }

    /// Whether a client could be built from what is verified. As received, that may be a card
    /// of A2A 0.3, which the crate's client reads as well.
    fn is_callable(&self) -> bool {
        let names_one = |url: &Value| url.as_str().is_some_and(|url| !url.is_empty());
        match self {
            Self::Received(document) => {
                let interfaces = document["supportedInterfaces"].as_array();
                let mut urls = interfaces.into_iter().flatten().map(|one| &one["url"]);
                names_one(&document["url"]) || urls.any(names_one)
            }
            Self::Typed(card) => card.supported_interfaces.iter().any(|one| !one.url.is_empty()),
        }
    }
}

// --- answers ----------------------------------------------------------------

fn verdict(card: Result<Card, String>, jwks: &Jwks) -> Value {
    let (outcome, why, callable) = match card {
        Err(why) => ("cannot-parse", why, false),
        Ok(card) => match card.verify(jwks) {
            Err(why) => ("refused", why, card.is_callable()),
            Ok(()) => ("accepted", String::new(), card.is_callable()),
        },
    };
    json!({ "outcome": outcome, "why": why, "callable": callable })
}

fn sign(request: &Value) -> Result<Value, String> {
    if text(request, "alg")? != "ES256" {
        return Err("the crate signs with ES256 and EdDSA only".into());
    }
    let card: AgentCard = serde_json::from_str(text(request, "card")?).map_err(describe)?;
    let key = pkcs8(&request["jwk"])?;
    let AgentCardSignature { protected, signature, .. } =
        sign_card_es256(&card, &key, text(request, "kid")?).map_err(|error| error.message)?;
    Ok(json!({ "signature": { "protected": protected, "signature": signature } }))
}

fn pkcs8(jwk: &Value) -> Result<Vec<u8>, String> {
    let number = |name| URL_SAFE_NO_PAD.decode(text(jwk, name)?).map_err(describe);
    Ok([PKCS8_HEAD, &number("d")?, PKCS8_MIDDLE, &number("x")?, &number("y")?].concat())
}

fn canonicalize(request: &Value) -> Result<Value, String> {
    let card = parse(text(request, "card")?, reader(request)?);
    Ok(match card.and_then(|card| card.payload()) {
        Ok(payload) => json!({ "payload": String::from_utf8(payload).map_err(describe)? }),
        Err(why) => json!({ "payload": null, "why": why }),
    })
}
