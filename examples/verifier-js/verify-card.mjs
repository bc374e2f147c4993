// Exits with 0 if the card on standard input is signed in full by a key of a JWK Set, else with 1:
// `node verify-card.mjs JWKS < card.json`.

import { readFileSync } from "node:fs";
import { Refused, readKeys, verifyCard } from "./verify.mjs";

try {
  process.exitCode = verifyCard(readFileSync(0), readKeys(readFileSync(process.argv[2]))) ? 0 : 1;
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
