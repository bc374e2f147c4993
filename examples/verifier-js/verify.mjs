// A verifier of A2A Agent Cards and of an issuer's statements, for Node 20 or newer, without dependencies.
//
// It was written from docs/spec/statements.md and docs/concepts/profiles.md alone, to show that another
// language can check what cardsign signs. It knows one profile, `served-as-is`. K1 to K11 are the rules
// by number of statements.md.

import { createHash, createPublicKey, verify as verifyBytes } from "node:crypto";

const LATEST = 253402300799; // the year 9999
const DAY = 86400;
const MOST_STATEMENT = 65536; // bytes
const MOST_CARD = 262144; // bytes
const MOST_HEADER = 4096; // bytes
const MOST_VALUES = 10000;

export class Refused extends Error {
  constructor(code, message) {
    super(`${code}: ${message}`);
    this.code = code;
  }
}

const refuse = (code, message) => {
  throw new Refused(code, message);
};
const need = (holds, code, message) => holds || refuse(code, message);

// ---- JSON, base64url, RFC 8785 ---------------------------------------------------------------

/** One JSON value, read strictly: objects as Map, so that no member is lost and none is inherited. */
export function parseJson(bytes, { depth, code, integers = false }) {
  let text, value;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    value = JSON.parse(text);
  } catch {
    refuse(code, "not JSON in UTF-8");
  }
  const strings = /"(?:[^"\\]|\\.)*"(\s*:)?/g;
  for (const digits of text.replace(strings, "").match(/-?[0-9][0-9.eE+-]*/g) ?? []) {
    const whole = /^-?[0-9]+$/.test(digits);
    need(whole ? Number.isSafeInteger(+digits) : Number.isFinite(+digits), code, "a number that is too large");
    need(whole || !integers, code, "no integer");
  }
  // JSON.parse keeps the last of several members of one name, so they are counted in the text.
  let names = [...text.matchAll(strings)].filter((found) => found[1]).length;
  const read = (each, left) => {
    if (typeof each === "string") return need(each.isWellFormed(), code, "a lone surrogate") && each;
    if (each === null || typeof each !== "object") return each;
    need(left > 0, code, "nested too deeply");
    if (Array.isArray(each)) return each.map((one) => read(one, left - 1));
    names -= Object.keys(each).length;
    return new Map(Object.entries(each).map(([name, one]) => [read(name, left), read(one, left - 1)]));
  };
  const whole = read(value, depth);
  return need(names === 0, code, "a name occurs twice") && whole;
}

/** RFC 8785: names by UTF-16, numbers and strings as ECMAScript writes them. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!(value instanceof Map)) return JSON.stringify(value);
  const names = [...value.keys()].sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value.get(name))}`).join(",")}}`;
}

function base64url(text, code) {
  need(typeof text === "string" && /^[A-Za-z0-9_-]*$/.test(text), code, "not base64url");
  const bytes = Buffer.from(text, "base64url");
  return need(bytes.toString("base64url") === text, code, "not canonical base64url") && bytes;
}

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

// ---- Keys and signatures ---------------------------------------------------------------------

/** The names of a JWK's public numbers, sorted as RFC 7638 wants them. */
const NUMBERS = { ES256: ["crv", "kty", "x", "y"], RS256: ["e", "kty", "n"] };

export function readKey(jwk, code = "statement.bad_key") {
  need(jwk instanceof Map, code, "a JWK is an object");
  const get = (name) => jwk.get(name);
  const alg = get("alg");
  const names = NUMBERS[alg] ?? refuse(code, "an algorithm other than ES256 and RS256");
  members(jwk, [...names, "kid", "use", "alg"], code);
  const hasName = typeof get("kid") === "string" && /^[\x20-\x7e]{1,256}$/.test(get("kid"));
  need(get("use") === "sig" && hasName, code, "use or kid");
  if (alg === "ES256") {
    need(get("kty") === "EC" && get("crv") === "P-256", code, "not P-256");
    for (const name of ["x", "y"]) need(base64url(get(name), code).length === 32, code, "coordinates have 32 bytes");
  } else {
    const n = base64url(get("n"), code);
    need(get("kty") === "RSA" && get("e") === "AQAB" && n.length && n[0] !== 0, code, "not a minimal RSA key");
    const bits = (n.length - 1) * 8 + n[0].toString(2).length;
    need(bits >= 2048 && bits <= 8192 && n[n.length - 1] % 2 === 1, code, "a modulus of the wrong size");
  }
  let key;
  try {
    key = createPublicKey({ key: Object.fromEntries(jwk), format: "jwk" });
  } catch {
    refuse(code, "a point that is not on the curve");
  }
  const thumbprint = createHash("sha256")
    .update(canonical(new Map(names.map((name) => [name, get(name)]))))
    .digest("base64url");
  return { alg, key, kid: get("kid"), thumbprint };
}

/** The keys of a JWK Set, without those that are of another kind. */
export function readKeys(bytes) {
  const keys = parseJson(bytes, { depth: 8, code: "jwks" }).get("keys");
  return list(keys).flatMap((jwk) => {
    try {
      return [readKey(jwk)];
    } catch (error) {
      if (error instanceof Refused) return [];
      throw error;
    }
  });
}

function signatureFits({ alg, key }, signingInput, signature) {
  if (alg === "ES256" && signature.length !== 64) return false;
  return verifyBytes("sha256", signingInput, alg === "ES256" ? { key, dsaEncoding: "ieee-p1363" } : key, signature);
}

// ---- Cards -----------------------------------------------------------------------------------

/** What decides how a signature is checked: in no unprotected header, and the last two in none at all. */
const PROTECTED = ["alg", "kid", "typ", "crit", "b64"];

const fold = (name) => name.replaceAll("_", "").toUpperCase().toLowerCase();

/**
 * How many values a card is made of. Two names of one object that a lenient reader takes for one are refused; in
 * members that A2A does not define too, since this verifier knows no schema.
 */
function values(value) {
  const inner = value instanceof Map ? [...value.values()] : Array.isArray(value) ? value : [];
  const names = value instanceof Map ? [...value.keys()].map(fold) : [];
  need(new Set(names).size === names.length, "card.two_spellings", "two spellings of one name");
  return inner.reduce((sum, one) => sum + values(one), 1);
}

/** A JWT signed by the same key has these at its top level; a card has none of them. */
const CLAIMS = ["iss", "sub", "aud", "exp", "nbf", "iat", "jti"];

/**
 * The card that one of the keys signed in full, or null: profile `served-as-is`.
 *
 * `keys` are those of `readKey`. Not checked: whether the card is current, whose endpoints it names, and
 * signatures by other profiles.
 */
export function verifyCard(bytes, keys) {
  need(new Set(keys.map((key) => key.kid)).size === keys.length, "jwks.duplicate_kid", "two keys have one kid");
  need(bytes.length <= MOST_CARD, "card.too_large", "more than 256 KiB");
  const card = parseJson(bytes, { depth: 32, code: "json.malformed" });
  need(card instanceof Map, "json.not_object", "a card is an object");
  const signatures = card.get("signatures") ?? [];
  card.delete("signatures");
  need(values(card) <= MOST_VALUES, "json.too_many_values", "more than 10,000 values");
  const lists = ["supportedInterfaces", "additionalInterfaces"].map((name) => card.get(name) ?? []); // the latter is of 0.3
  if (!lists.every(Array.isArray)) return null;
  const endpoints = lists.flat().map((each) => each instanceof Map && each.get("url"));
  if ((card.get("url") ?? null) !== null) endpoints.push(card.get("url"));
  const named = typeof card.get("name") === "string" && card.get("name") !== "";
  const shaped = Array.isArray(card.get("skills")) || card.get("capabilities") instanceof Map;
  const callable = endpoints.length > 0 && endpoints.every((url) => typeof url === "string" && url !== "");
  if (!named || !shaped || !callable || !Array.isArray(signatures) || signatures.length > 16) return null;
  const payload = Buffer.from(canonical(card)).toString("base64url");
  for (const entry of signatures) {
    try {
      const octets = base64url(entry.get("protected"), "sig.header");
      need(octets.length <= MOST_HEADER, "sig.header", "more than 4 KiB");
      const header = parseJson(octets, { depth: 8, code: "sig.header" });
      const key = keys.find((one) => one.kid === header.get("kid"));
      const typ = header.has("typ") ? header.get("typ").toLowerCase() : "jose";
      const isToken = typ === "jwt" && !CLAIMS.some((name) => card.has(name));
      if (!key || key.alg !== header.get("alg") || !(["jose", "jose+json"].includes(typ) || isToken)) continue;
      const beside = entry.get("header") ?? new Map();
      if (!(beside instanceof Map) || [...beside.keys()].some((name) => PROTECTED.includes(name) || header.has(name))) continue;
      if (header.has("crit") || header.has("b64")) continue;
      const input = Buffer.from(`${entry.get("protected")}.${payload}`);
      if (signatureFits(key, input, base64url(entry.get("signature"), "sig.base64"))) return card;
    } catch (error) {
      if (!(error instanceof Refused || error instanceof TypeError)) throw error;
    }
  }
  return null;
}

// ---- Statements: form (K1 to K4) -------------------------------------------------------------

function members(value, names, code = "statement.members") {
  const whole = value instanceof Map && value.size === names.length && names.every((name) => value.has(name));
  return need(whole, code, `the members are exactly ${names.join(", ")}`) && value;
}

const shape = (holds, what) => need(holds, "statement.members", what);
const number = (value) => shape(Number.isSafeInteger(value) && value >= 1, "a number from 1 on") && value;
const time = (value) => shape(number(value) <= LATEST, "a time before the year 10000") && value;
const matches = (value, pattern) => shape(typeof value === "string" && pattern.test(value), `${pattern}`) && value;
const list = (value) => shape(Array.isArray(value), "a list") && value;
const HOLDER = /^[a-z0-9][a-z0-9._@-]{0,63}$/;
const DIGEST = /^[0-9a-f]{64}$/;
const THUMBPRINT = /^[A-Za-z0-9_-]{43}$/;
const URL_PARTS = /^(https?):\/\/([a-z0-9.-]+|\[[0-9a-f:]+\])(?::([1-9][0-9]{0,4}))?(\/[A-Za-z0-9._~!$&'()*+,=:@%\/-]*)?$/;
const ESCAPES = /^(?:[^%]|%(?:[89A-F][0-9A-F]|2[023]|3[CEF]|5[BDE]|60|7[BCD]))*$/;
const LABEL = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/;

/** The type `url`, or `origin`, which has no path. */
function url(value, isOrigin = false) {
  shape(typeof value === "string" && value.length <= 2048 && URL_PARTS.test(value), "a URL");
  const [, scheme, host, port, path] = URL_PARTS.exec(value);
  shape((path === undefined) === isOrigin && (isOrigin || (ESCAPES.test(path) && !/\/\.{1,2}(\/|$)|\/\//.test(path))), "its path");
  shape(port === undefined || (+port <= 65535 && port !== { http: "80", https: "443" }[scheme]), "its port");
  const isAddress = /^\[|(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$/.test(host);
  const text = `http://${host}/`; // URL writes an address in its one form
  const same = isAddress ? URL.canParse(text) && new URL(text).hostname === host : host.split(".").every((one) => LABEL.test(one));
  return shape(same && !host.startsWith("[::ffff:"), "its host") && value;
}

const ascending = (values) =>
  list(values).map((each, at) => shape(at === 0 || values[at - 1] < each, "ascending, each once") && matches(each, THUMBPRINT));

function quorum(value) {
  members(value, ["threshold", "keys"]);
  const keys = list(value.get("keys")).map((each) => {
    members(each, ["public", "holder"]);
    return { ...readKey(each.get("public")), holder: matches(each.get("holder"), HOLDER) };
  });
  const threshold = number(value.get("threshold"));
  const holders = new Set(keys.map((key) => key.holder));
  need(threshold <= holders.size && holders.size <= 16, "statement.threshold", "more than the holders");
  return { threshold, keys, text: canonical(value) };
}

function life(payload, most) {
  const [iat, exp] = [time(payload.get("iat")), time(payload.get("exp"))];
  need(iat < exp && exp - iat <= most * DAY, "statement.time_span", `at most ${most} days`);
  return { iat, exp };
}

/** The envelope (K1, K2), its payload not yet looked at. */
function readEnvelope(bytes, typ) {
  need(bytes.length <= MOST_STATEMENT, "statement.shape", "more than 64 KiB");
  const envelope = members(parseJson(bytes, { depth: 8, code: "statement.shape" }), ["payload", "signatures"], "statement.shape");
  const entries = envelope.get("signatures");
  need(Array.isArray(entries) && entries.length >= 1 && entries.length <= 64, "statement.shape", "1 to 64 signatures");
  const signatures = entries.map((entry) => {
    members(entry, ["protected", "signature"], "statement.shape");
    const header = parseJson(base64url(entry.get("protected"), "statement.shape"), { depth: 8, code: "statement.header" });
    members(header, ["alg", "kid", "typ"], "statement.header");
    need(header.get("typ") === typ, "statement.typ", `the typ is ${typ}`);
    need(NUMBERS[header.get("alg")], "statement.header", "ES256 or RS256");
    const kid = header.get("kid"); // one that is no thumbprint of a key asked about is skipped (K5)
    const input = Buffer.from(`${entry.get("protected")}.${envelope.get("payload")}`);
    return { alg: header.get("alg"), kid, input, signature: base64url(entry.get("signature"), "statement.shape") };
  });
  const octets = base64url(envelope.get("payload"), "statement.shape");
  const payload = parseJson(octets, { depth: 8, code: "statement.shape", integers: true });
  need(canonical(payload) === octets.toString("utf8"), "statement.not_canonical", "the payload is not RFC 8785");
  return { payload, signatures, digest: sha256(octets) };
}

const KEYSET = ["epoch", "exp", "format", "iat", "issuer", "keys", "origins", "prev", "recovery", "revoked", "root", "version"];
const RELEASE = ["audit_head", "cards", "exp", "floor", "format", "iat", "issuer", "keyset", "revoked", "seq"];

function readPayload(bytes, kind, names) {
  const { payload, signatures, digest } = readEnvelope(bytes, `cardsign-${kind}+jws`);
  shape(payload instanceof Map, "an object");
  need(payload.get("format") === `cardsign-${kind}/1`, "statement.format", "an unknown format");
  members(payload, names);
  const issuer = matches(payload.get("issuer"), /^[\x21-\x7e]{1,256}$/);
  return { payload, signatures, digest, issuer, revoked: ascending(payload.get("revoked")) };
}

export function readKeyset(bytes) {
  const { payload, ...read } = readPayload(bytes, "keyset", KEYSET);
  const [epoch, version] = [number(payload.get("epoch")), number(payload.get("version"))];
  const prev = payload.get("prev");
  shape((version === 1) === (prev === null) && (prev === null || matches(prev, DIGEST)), "prev is null in version 1 only");
  const origins = list(payload.get("origins")).map((origin) => url(origin, true));
  shape(origins.length >= 1 && new Set(origins).size === origins.length, "origins: at least one, each once");
  const root = quorum(payload.get("root"));
  const recovery = payload.get("recovery") === null ? null : quorum(payload.get("recovery"));
  const keys = list(payload.get("keys")).map((each) => {
    members(each, ["public", "roles", "holder", "nbf", "exp"]);
    const roles = list(each.get("roles"));
    shape(["card", "release", "card,release"].includes(roles.join()), "roles");
    matches(each.get("holder"), HOLDER);
    const [nbf, exp] = [time(each.get("nbf")), time(each.get("exp"))];
    need(nbf < exp, "statement.time_span", "a key ends before it begins");
    return { ...readKey(each.get("public")), roles, nbf, exp };
  });
  const all = [...root.keys, ...(recovery?.keys ?? []), ...keys];
  for (const name of ["thumbprint", "kid"])
    need(new Set(all.map((key) => key[name])).size === all.length, "statement.bad_key", `a ${name} stands twice`);
  need(!all.some((key) => read.revoked.includes(key.thumbprint)), "statement.bad_key", "a listed key is revoked");
  return { ...read, epoch, version, prev, root, recovery, keys, ...life(payload, 400) };
}

export function readRelease(bytes) {
  const { payload, ...read } = readPayload(bytes, "release", RELEASE);
  const seq = number(payload.get("seq"));
  const named = members(payload.get("keyset"), ["epoch", "version", "digest"]);
  const keyset = { epoch: number(named.get("epoch")), version: number(named.get("version")), digest: matches(named.get("digest"), DIGEST) };
  if (payload.get("audit_head") !== null) matches(payload.get("audit_head"), DIGEST);
  const cards = list(payload.get("cards")).map((card) => {
    members(card, ["kind", "payload_sha256", "seq", "url"]);
    shape(card.get("kind") === "public" && number(card.get("seq")) <= seq, "kind or seq of a card");
    return `${url(card.get("url"))} ${matches(card.get("payload_sha256"), DIGEST)}`;
  });
  shape(new Set(cards).size === cards.length, "a card is listed twice");
  const floor = payload.get("floor");
  shape(floor instanceof Map, "floor is an object");
  for (const [name, least] of floor) {
    if (name !== "extended") url(name);
    need(number(least) <= seq, "statement.floor", "a floor above the release");
  }
  return { ...read, seq, keyset, cards, floor, ...life(payload, 14) };
}

// ---- Statements: by what right (K5 to K11) ---------------------------------------------------

/** K5: each key counts once, each holder once. */
function signers(statement, keys) {
  return keys.filter((key) =>
    statement.signatures.some((one) => one.kid === key.thumbprint && one.alg === key.alg && signatureFits(key, one.input, one.signature)),
  );
}
const agreed = (statement, { keys, threshold }) =>
  new Set(signers(statement, keys).map((key) => key.holder)).size >= threshold;

const order = (a, b) => a.map((each, at) => each - b[at]).find((difference) => difference !== 0) ?? 0;
const place = (keyset) => [keyset.epoch, keyset.version];
const place3 = (release) => [release.keyset.epoch, release.keyset.version, release.seq];

function notOlder(comparison, same) {
  need(comparison !== 0 || same, "statement.fork", "two statements of one number");
  need(comparison > 0, "statement.rollback", "not newer than the one held");
}

/** K8: is this the statement that the anchor means? */
export function checkFirst(keyset, anchor) {
  const { pin, root } = anchor;
  const pairs = (each) => each.map(String).sort().join();
  const meant = pin
    ? keyset.digest === pin.digest && order(place(keyset), place(pin)) === 0
    : keyset.root.threshold === root.threshold &&
      pairs(keyset.root.keys.map((key) => [key.thumbprint, key.holder])) === pairs(root.holders);
  need(meant, "statement.anchor", "not the statement that is pinned");
  need(agreed(keyset, keyset.root), "statement.unsigned", "not signed by its own roots");
}

/** K6 and K7: may `following` take the place of `current`? */
export function checkNext(current, following) {
  notOlder(order(place(following), place(current)), following.digest === current.digest);
  need(following.issuer === current.issuer, "statement.issuer", "another issuer");
  if (following.epoch > current.epoch) {
    need(following.epoch === current.epoch + 1 && following.version === 1, "statement.gap", "an epoch begins with version 1");
    need(current.recovery, "statement.recovery", "this issuer has no recovery keys");
    const signed = agreed(following, current.recovery) && agreed(following, following.root);
    return need(signed, "statement.unsigned", "too few recovery keys or new roots");
  }
  need(following.version === current.version + 1, "statement.gap", "a version is missing between the two");
  need(following.prev === current.digest, "statement.prev", "it does not continue the one held");
  need(following.iat >= current.iat, "statement.rollback", "issued before the one held");
  need(current.revoked.every((kid) => following.revoked.includes(kid)), "statement.unrevoked", "a revocation was taken back");
  need(agreed(following, current.root) && agreed(following, following.root), "statement.unsigned", "too few roots");
  const kept = current.recovery?.text === following.recovery?.text;
  need(kept || (current.recovery && agreed(following, current.recovery)), "statement.recovery", "recovery keys have not agreed");
}

/** K10 and K11: does the release speak under this keyset, after the release that is held? */
export function checkRelease(release, keyset, held, now, skew) {
  need(release.issuer === keyset.issuer, "statement.issuer", "another issuer");
  need(order(place(release.keyset), place(keyset)) === 0 && release.keyset.digest === keyset.digest, "statement.keyset", "another keyset");
  if (held) notOlder(order(place3(release), place3(held)), release.digest === held.digest);
  const listed = keyset.keys.map((key) => key.thumbprint);
  need(release.revoked.every((kid) => listed.includes(kid)), "statement.revoked", "a key that it may not revoke");
  const able = keyset.keys.filter((key) => key.roles.includes("release") && key.nbf - skew <= now && now < key.exp);
  const by = signers(release, able);
  need(by.length, "statement.unsigned", "no release key has signed");
  const kept = by.filter((key) => !release.revoked.includes(key.thumbprint));
  need(kept.length, "statement.revoked", "it revokes its own signer");
  if (!held || order(place(held.keyset), place(keyset)) !== 0) return;
  need(kept.some((key) => !held.revoked.includes(key.thumbprint)), "statement.revoked", "its signer is revoked");
  need(held.revoked.every((kid) => release.revoked.includes(kid)), "statement.revoked", "a revocation was taken back");
  for (const [name, least] of held.floor) need((release.floor.get(name) ?? 0) >= least, "statement.floor", "a floor fell");
}

const passes = (check) => {
  try {
    check();
    return true;
  } catch (error) {
    if (error instanceof Refused) return false;
    throw error;
  }
};
/** Two envelopes of one payload are one statement, once each was judged by its own signatures. */
const distinct = (statements) => [...new Map(statements.map((one) => [one.digest, one])).values()];

/** "Several at once": what is held of what came in any order, and whether two statements were lawful in one place. */
export function resolve(keysets, releases, anchor, now, skew) {
  const timely = (all) => all.filter((one) => one.iat - skew <= now);
  const [offered, spoken] = [timely(keysets), timely(releases)];
  let meant = distinct(offered.filter((one) => passes(() => checkFirst(one, anchor))));
  meant = meant.filter((one) => meant.every((other) => order(place(one), place(other)) <= 0));
  let keyset = meant.length === 1 ? meant[0] : null;
  let forked = meant.length > 1;
  for (let step = 0; keyset && step < 256; step += 1) {
    const lawful = distinct(offered.filter((one) => passes(() => checkNext(keyset, one))));
    const next = lawful.filter((one) => one.epoch === keyset.epoch);
    const taken = next.length === 1 ? next : lawful.filter((one) => one.epoch > keyset.epoch);
    forked = taken.length > 1 || (taken.length === 0 && next.length > 1);
    if (taken.length !== 1) break;
    keyset = taken[0];
  }
  const revoked = new Set(keyset?.revoked ?? []);
  let release = null;
  if (keyset) {
    const right = distinct(spoken.filter((one) => passes(() => checkRelease(one, keyset, null, now, skew))));
    right.forEach((one) => one.revoked.forEach((kid) => revoked.add(kid)));
    const trusted = (one) => {
      const others = right.filter((other) => other !== one).flatMap((other) => other.revoked);
      return signers(one, keyset.keys).some((key) => !others.includes(key.thumbprint) && !one.revoked.includes(key.thumbprint));
    };
    const kept = right.filter(trusted).sort((a, b) => a.seq - b.seq);
    for (const one of kept) {
      const alone = kept.every((other) => other === one || other.seq !== one.seq);
      if (alone && passes(() => checkRelease(one, keyset, release, now, skew))) release = one;
    }
  }
  return { keyset, release, revoked: [...revoked].sort(), forked };
}

/** What is held of one issuer, and how a statement changes it. */
export class Issuer {
  constructor(anchor, now, skew) {
    Object.assign(this, { anchor, now, skew, keyset: null, release: null });
  }

  accept(kind, bytes) {
    const statement = kind === "keyset" ? readKeyset(bytes) : readRelease(bytes);
    if (kind === "release") checkRelease(statement, this.keyset, this.release, this.now, this.skew);
    else if (this.keyset) checkNext(this.keyset, statement);
    else checkFirst(statement, this.anchor);
    need(statement.iat - this.skew <= this.now, "statement.not_yet", "issued in the future");
    this[kind] = statement;
    return statement;
  }

  /** Thumbprints that do not count now (K11). */
  get revoked() {
    const under = this.release && this.keyset && this.release.keyset.digest === this.keyset.digest;
    return [...new Set([...(this.keyset?.revoked ?? []), ...(under ? this.release.revoked : [])])].sort();
  }

  /** K9, of the newest keyset statement alone. */
  get times() {
    if (!this.keyset) return null;
    if (this.keyset.iat - this.skew > this.now) return "statement.not_yet";
    return this.now < this.keyset.exp ? null : "statement.expired";
  }
}
