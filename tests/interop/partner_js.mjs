/**
 * Partners who sign in JavaScript: jose and @a2a-js/sdk, by their documentation's own examples.
 *
 * Reads {"cards": {NAME: CARD}, "keys": {ALG: JWK}} from stdin and writes the signed cards to
 * stdout, a list of {by, how, alg, name, card}. Packages come from A2A_JS_HOME's node_modules.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const home = process.env.A2A_JS_HOME;
const manifest = (name) => join(home, 'node_modules', name, 'package.json');
const load = (name, entry = '.') => {
  const { exports } = JSON.parse(readFileSync(manifest(name), 'utf8'));
  const found = exports[entry];
  const file = typeof found === 'string' ? found : (found.import ?? found.default);
  return import(pathToFileURL(join(home, 'node_modules', name, file.default ?? file)).href);
};
const jose = await load('jose');
const sdk = { ...(await load('@a2a-js/sdk')), ...(await load('@a2a-js/sdk', './client')) };

/** RFC 8785 for what these cards hold: sorted members; numbers and strings as JSON.stringify. */
function jcs(value) {
  if (Array.isArray(value)) return `[${value.map(jcs).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const members = Object.keys(value).sort();
  return `{${members.map((name) => `${JSON.stringify(name)}:${jcs(value[name])}`).join(',')}}`;
}

async function byJose(payload, card, jwk, header) {
  const key = await jose.importJWK(jwk, header.alg);
  const made = await new jose.FlattenedSign(new TextEncoder().encode(payload))
    .setProtectedHeader(header)
    .sign(key);
  return { ...card, signatures: [{ protected: made.protected, signature: made.signature }] };
}

/** What the SDK's server serves: the card, with what the SDK's signer adds. */
async function byA2aJs(card, jwk, header) {
  const read = sdk.AgentCard?.fromJSON?.(card) ?? structuredClone(card);
  const made = (await sdk.generateAgentCardSignature(jwk, header)(read)).signatures.at(-1);
  return { ...card, signatures: [{ protected: made.protected, signature: made.signature }] };
}

const SIGNERS = {
  '@a2a-js/sdk, generateAgentCardSignature': byA2aJs,
  'jose, FlattenedSign of JCS bytes': (card, jwk, header) => byJose(jcs(card), card, jwk, header),
  'jose, FlattenedSign of JSON.stringify': (card, jwk, header) =>
    byJose(JSON.stringify(card), card, jwk, header),
};

const asked = JSON.parse(readFileSync(0, 'utf8'));
const made = [];
console.log = console.debug = () => {};
for (const [by, sign] of Object.entries(SIGNERS)) {
  for (const [alg, jwk] of Object.entries(asked.keys)) {
    for (const [how, typ] of [['its own typ', {}], ['typ JOSE', { typ: 'JOSE' }]]) {
      const header = { alg, kid: jwk.kid, ...typ };
      for (const [name, card] of Object.entries(asked.cards)) {
        made.push({ by, how, alg, name, card: await sign(card, jwk, header) });
      }
    }
  }
}
process.stdout.write(JSON.stringify(made));
