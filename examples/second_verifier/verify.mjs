// Checks a chain of certificates without any of dpi's Python: node verify.mjs CHAIN.json [PUBLIC-KEY.pem]
//
// CHAIN.json is what `GET /v1/chain` answers, {"entries": [{"text", "digest", "signature"}, …]}, or that list alone, as
// the SQLite shell prints it from an export.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

import { Chain, fingerprint, keyBytes } from "../../src/dpi/service/page/chain.js";
import { read } from "./canonical.mjs";
import { Statements } from "./statements.mjs";

/** Where and why a chain is wrong; null if it is whole. With a key, every entry must be signed with it. */
export async function verify(entries, pem = null) {
  const chain = new Chain(), statements = new Statements();
  await chain.use(pem, pem === null ? "" : await fingerprint(keyBytes(pem)));
  for (const [at, entry] of entries.entries()) {
    await chain.add([{ ...entry, entry: at }]);
    if (chain.broken !== null) return { at, why: chain.broken.why };
    if (pem !== null && chain.unsigned !== null) return { at, why: "it is not signed" };
    try {
      const why = statements.wrong(read(entry.text));
      if (why !== null) return { at, why };
    } catch {
      return { at, why: "its text is not canonical" };
    }
  }
  return chain.newest ? null : { at: entries.length - 1, why: "it is the last, and not signed with the newest key" };
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [chain, key] = process.argv.slice(2).map((path) => readFileSync(path, "utf8"));
  const given = JSON.parse(chain), entries = Array.isArray(given) ? given : given.entries, found = await verify(entries, key ?? null);
  if (found === null) console.log(`${entries.length} entries: the chain is whole${key ? " and signed with this key" : ""}.`);
  else console.log(`entry ${found.at}: ${found.why}`);
  process.exitCode = found === null ? 0 : 1;
}
