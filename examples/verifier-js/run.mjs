// Runs the verifier against vectors: `node examples/verifier-js/run.mjs [FOLDER]`.
// FOLDER holds `statements/` and `cards/`, as tests/vectors does.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Issuer, Refused, readKeys, readKeyset, readRelease, resolve, verifyCard } from "./verify.mjs";

const kit = process.argv[2] ?? new URL("../../tests/vectors", import.meta.url).pathname;
const files = (folder) => readdirSync(join(kit, folder)).filter((name) => /^[0-9].*\.json$/.test(name)).sort();
const read = (folder, name) => JSON.parse(readFileSync(join(kit, folder, name), "utf8"));
let failures = 0;

function compare(name, got, wanted) {
  if (JSON.stringify(got) === JSON.stringify(wanted)) return 1;
  failures += 1;
  console.log(`${name}: got ${JSON.stringify(got)}, wanted ${JSON.stringify(wanted)}`);
  return 0;
}

function outcome(act) {
  try {
    return act();
  } catch (error) {
    if (error instanceof Refused) return { refused: error.code };
    throw error;
  }
}

let steps = 0;
let ends = 0;
const scenarios = files("statements");
for (const name of scenarios) {
  const { anchor, now, skew, steps: each, end, at_once } = read("statements", name);
  const issuer = new Issuer(anchor, now, skew);
  each.forEach(({ kind, statement, accepted, refused }, at) => {
    const got = outcome(() => {
      const { epoch, version, seq, digest } = issuer.accept(kind, Buffer.from(statement, "ascii"));
      return { accepted: kind === "keyset" ? { epoch, version, digest } : { seq, digest } };
    });
    steps += compare(`${name}, step ${at + 1}`, got, accepted ? { accepted } : { refused });
  });
  const shown = ({ keyset, release, revoked }) => ({
    keyset: keyset && { epoch: keyset.epoch, version: keyset.version, digest: keyset.digest },
    release: release && { seq: release.seq, digest: release.digest },
    revoked,
  });
  ends += compare(`${name}, end`, { ...shown(issuer), times: issuer.times }, end);

  const readable = (wanted, reader) =>
    each
      .filter(({ kind }) => kind === wanted)
      .map(({ statement }) => outcome(() => reader(Buffer.from(statement, "ascii"))))
      .filter((one) => !one.refused || one.digest);
  const [keysets, releases] = [readable("keyset", readKeyset), readable("release", readRelease)];
  for (const order of [(all) => all, (all) => [...all].reverse(), (all) => [...all, ...all]]) {
    const { forked, ...held } = resolve(order(keysets), order(releases), anchor, now, skew);
    ends += compare(`${name}, at once`, { ...shown(held), refused: forked ? "statement.fork" : null }, at_once);
  }
}

// Of a card the verifier knows whether one of the keys signed all of it as it was served. These cards are
// trusted by a signature of another profile, which it does not know: it may refuse them.
const OTHER_PROFILE = ["20-pruned-accepted.json", "22-dual-accepted.json", "24-rule-1-only.json"];
let cards = 0;
for (const name of files("cards")) {
  const { card_base64, jwks, expect } = read("cards", name);
  const answer = outcome(() => verifyCard(Buffer.from(card_base64, "base64"), readKeys(Buffer.from(JSON.stringify(jwks)))));
  const trusted = answer !== null && !answer.refused;
  if (!(OTHER_PROFILE.includes(name) && !trusted)) cards += compare(name, trusted, expect.verdict === "trusted");
}

const counts = `${scenarios.length} scenarios, ${steps} steps, ${ends} ends and ${cards} cards agree`;
console.log(`${counts}; ${failures} do not`);
process.exitCode = failures ? 1 : 0;
