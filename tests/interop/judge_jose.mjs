/**
 * A judge: what somebody writes by hand with `jose`, without any SDK of A2A.
 *
 * The payload is the card as it was served, without its signatures, in RFC 8785. Reads one JSON
 * request a line on stdin and writes one JSON answer a line on stdout, in the same order;
 * README.md beside this file holds the protocol. jose is taken from the `node_modules` of the
 * directory in A2A_JS_HOME.
 */

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

// --- the card ---------------------------------------------------------------

/** RFC 8785: ECMAScript writes numbers and strings as it demands, and sorts by UTF-16. */
function jcs(value) {
  if (Array.isArray(value)) return `[${value.map(jcs).join()}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${jcs(value[name])}`).join()}}`;
}

function payloadOf({ signatures: _, ...unsigned }) {
  return Buffer.from(jcs(unsigned));
}

function entriesOf({ signatures }) {
  return Array.isArray(signatures) ? signatures : [];
}

/** Whether a client could be built: an interface of 1.0 has a url, or the card of 0.3. */
function isCallable(card) {
  const interfaces = Array.isArray(card.supportedInterfaces) ? card.supportedInterfaces : [];
  return [card, ...interfaces].some((one) => typeof one?.url === 'string' && one.url !== '');
}

function parse(text) {
  const card = JSON.parse(text);
  if (typeof card !== 'object' || card === null || Array.isArray(card)) {
    throw new TypeError('the card is no JSON object');
  }
  return card;
}

// --- its signatures ---------------------------------------------------------

function keyFinder(keys) {
  return ({ kid }) => {
    const key = keys.find((one) => one.kid === kid);
    if (!key) throw new Error(`no key with kid ${JSON.stringify(kid)}`);
    return jose.importJWK(key);
  };
}

/** Why an entry is no signature over the card; empty if it is one. */
async function fault(entry, payload, { jwks, algorithms = ['ES256', 'RS256'] }) {
  const { protected: header, signature } = entry ?? {};
  try {
    const token = { protected: header, payload: payload.toString('base64url'), signature };
    await jose.flattenedVerify(token, keyFinder(jwks.keys), { algorithms });
    return '';
  } catch (error) {
    return describe(error);
  }
}

async function verdictOn(card, request) {
  const callable = isCallable(card);
  const payload = payloadOf(card);
  const faults = [];
  for (const entry of entriesOf(card)) {
    const why = await fault(entry, payload, request);
    if (!why) return { outcome: 'accepted', why, callable };
    faults.push(why);
  }
  return { outcome: 'refused', why: faults.join('; ') || 'no signatures', callable };
}

// --- the protocol -----------------------------------------------------------

const ACTIONS = {
  async verify(request) {
    let card;
    try {
      card = parse(request.card);
    } catch (error) {
      return { outcome: 'cannot-parse', why: describe(error), callable: false };
    }
    return verdictOn(card, request);
  },

  async sign({ card, jwk, kid, alg }) {
    const signing = new jose.FlattenedSign(payloadOf(parse(card)));
    signing.setProtectedHeader({ alg, kid, typ: 'JOSE' });
    const { protected: header, signature } = await signing.sign(await jose.importJWK(jwk, alg));
    return { signature: { protected: header, signature } };
  },

  async canonicalize({ card }) {
    return { payload: payloadOf(parse(card)).toString() };
  },

  async version() {
    const manifest = join(home, 'node_modules', 'jose', 'package.json');
    const { version } = JSON.parse(await readFile(manifest, 'utf8'));
    return { name: 'jose', version, beside: { Node: process.versions.node } };
  },
};

async function answer(line) {
  try {
    const request = JSON.parse(line);
    if (!Object.hasOwn(ACTIONS, request.do)) throw new Error(`no request is called ${request.do}`);
    return await ACTIONS[request.do](request);
  } catch (error) {
    return { error: describe(error) };
  }
}

function describe(error) {
  return `${error.name}: ${error.message}`;
}

const home = process.env.A2A_JS_HOME;
if (!home) {
  process.stderr.write('A2A_JS_HOME must name a directory whose node_modules has jose\n');
  process.exit(2);
}
const jose = await import(pathToFileURL(createRequire(join(home, 'x')).resolve('jose')));
let rest = '';
for await (const chunk of process.stdin.setEncoding('utf8')) {
  const lines = (rest + chunk).split('\n');
  rest = lines.pop();
  for (const line of lines) process.stdout.write(`${JSON.stringify(await answer(line))}\n`);
}
