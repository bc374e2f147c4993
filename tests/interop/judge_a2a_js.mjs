/**
 * A judge: the official JavaScript SDK (@a2a-js/sdk) signs and verifies Agent Cards.
 *
 * Reads one JSON request a line on stdin and writes one JSON answer a line on
 * stdout, in the same order; README.md beside this file holds the protocol. The
 * SDK is taken from the `node_modules` of the directory in A2A_JS_HOME.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const PACKAGE = '@a2a-js/sdk';
const ORIGIN = 'https://agent.invalid';

/** A request that does not follow the protocol. */
class BadRequest extends Error {
  name = 'BadRequest';
}

// --- the SDK ----------------------------------------------------------------

/**
 * The SDK's ES modules, found through the `exports` of its package.json:
 * an import by name would look beside this file, and `require` would load the
 * CommonJS build, which cannot load the ESM-only jose on every Node 20.
 */
async function loadSdk(home) {
  const root = join(home, 'node_modules', PACKAGE);
  const { exports } = await manifestOf(home, PACKAGE);
  const load = (entry) => import(pathToFileURL(join(root, exports[entry].import)));
  const [core, client] = await Promise.all([load('.'), load('./client')]);
  return { ...core, ...client };
}

async function manifestOf(home, name) {
  return JSON.parse(await readFile(join(home, 'node_modules', name, 'package.json'), 'utf8'));
}

async function versionOf(home, name) {
  return (await manifestOf(home, name)).version;
}

/**
 * Keeps stdout for the answers. The SDK reports why it skipped a signature with
 * console.debug alone, which Node prints to stdout: keep those reasons instead.
 */
const skipped = [];
console.debug = (...parts) => skipped.push(describe(parts.at(-1)));
console.log = console.info = console.warn = console.error = () => {};

// --- requests ---------------------------------------------------------------

function textMember(request, name) {
  if (typeof request[name] !== 'string') throw new BadRequest(`'${name}' must be a string`);
  return request[name];
}

function objectMember(request, name) {
  const value = request[name];
  if (!isObject(value)) throw new BadRequest(`'${name}' must be an object`);
  return value;
}

function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The request's path and keys. `algorithms` is checked, not used: the SDK takes no allowlist. */
function readOptions(request) {
  const algorithms = request.algorithms ?? [];
  if (!Array.isArray(algorithms) || !algorithms.every((name) => typeof name === 'string')) {
    throw new BadRequest("'algorithms' must be an array of strings");
  }
  const path = pathOf(request);
  const { keys } = objectMember(request, 'jwks');
  if (!Array.isArray(keys)) throw new BadRequest("'jwks' must hold an array 'keys'");
  return { path, keys };
}

function pathOf(request) {
  const path = request.path ?? 'plain';
  if (path !== 'plain' && path !== 'resolver') {
    throw new BadRequest("'path' must be 'plain' or 'resolver'");
  }
  return path;
}

// --- verifying --------------------------------------------------------------

/** A provider that knows the keys by `kid` and ignores `jku`. */
function keyProvider(keys) {
  return async (kid) => {
    const key = keys.find((candidate) => isObject(candidate) && candidate.kid === kid);
    if (!key) throw new Error(`no key with kid ${JSON.stringify(kid)}`);
    return key;
  };
}

/** The card as the SDK's resolver hands it to a client that fetched `response`. */
async function resolved(response) {
  const resolver = new sdk.DefaultAgentCardResolver({
    fetchImpl: async () => response,
    legacyCompat: { enabled: true },
  });
  return resolver.resolve(ORIGIN);
}

/**
 * The verdict on the card that `read` gives. fromJSON is the SDK's parser and
 * the first step of its verifier; it is run by itself to tell a card that
 * cannot be parsed from a signature that is refused.
 */
async function verdictOn(read, keys) {
  let card;
  try {
    card = await read();
    sdk.AgentCard.fromJSON(card);
  } catch (error) {
    return { outcome: 'cannot-parse', why: describe(error), callable: false };
  }
  const callable = isCallable(card);
  skipped.length = 0;
  try {
    await sdk.verifyAgentCardSignature(keyProvider(keys))(card);
    return { outcome: 'accepted', why: '', callable };
  } catch (error) {
    const why = [describe(error), ...skipped].join('; ');
    return { outcome: 'refused', why, callable };
  }
}

/** Whether a client could be built: some supported interface has a url. */
function isCallable(card) {
  const interfaces = card.supportedInterfaces;
  if (!Array.isArray(interfaces)) return false;
  return interfaces.some((entry) => typeof entry?.url === 'string' && entry.url !== '');
}

function reader(text, path) {
  if (path === 'plain') return async () => JSON.parse(text);
  return () => resolved(new Response(text));
}

// --- the protocol -----------------------------------------------------------

const ACTIONS = {
  async verify(request) {
    const text = textMember(request, 'card');
    const { path, keys } = readOptions(request);
    return verdictOn(reader(text, path), keys);
  },

  async sign(request) {
    const text = textMember(request, 'card');
    const jwk = objectMember(request, 'jwk');
    const header = { alg: textMember(request, 'alg'), kid: textMember(request, 'kid') };
    if (request.typ !== null) header.typ = textMember({ typ: 'JOSE', ...request }, 'typ');
    const held = await reader(text, pathOf(request))();
    const signed = await sdk.generateAgentCardSignature(jwk, header)(held);
    const made = signed.signatures.at(-1);
    return { signature: { protected: made.protected, signature: made.signature } };
  },

  async canonicalize(request) {
    const read = reader(textMember(request, 'card'), pathOf(request));
    try {
      return { payload: sdk.canonicalizeAgentCard(await read()) };
    } catch (error) {
      return { payload: null, why: describe(error) };
    }
  },

  async version() {
    const beside = { Node: process.versions.node, jose: await versionOf(home, 'jose') };
    return { name: PACKAGE, version: await versionOf(home, PACKAGE), beside };
  },
};

/** The answer to one line, whatever it holds. */
async function answer(line) {
  try {
    const request = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(line));
    if (!isObject(request)) throw new BadRequest('a request must be a JSON object');
    const action = textMember(request, 'do');
    if (!Object.hasOwn(ACTIONS, action)) {
      throw new BadRequest(`'do' must be one of ${Object.keys(ACTIONS).join(', ')}`);
    }
    return await ACTIONS[action](request);
  } catch (error) {
    return { error: describe(error) };
  }
}

function describe(error) {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

/**
 * The lines of `stream` as bytes. Split at LF only: node:readline also splits at
 * U+2028 and U+2029, which may stand unescaped in JSON.
 */
async function* linesOf(stream) {
  let parts = [];
  for await (let chunk of stream) {
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10)) {
      yield Buffer.concat([...parts, chunk.subarray(0, at)]);
      parts = [];
      chunk = chunk.subarray(at + 1);
    }
    if (chunk.length > 0) parts.push(chunk);
  }
  if (parts.length > 0) yield Buffer.concat(parts);
}

const home = process.env.A2A_JS_HOME;
if (!home) {
  process.stderr.write(`A2A_JS_HOME must name a directory whose node_modules has ${PACKAGE}\n`);
  process.exit(2);
}
const sdk = await loadSdk(home);
for await (const line of linesOf(process.stdin)) {
  process.stdout.write(`${JSON.stringify(await answer(line))}\n`);
}
