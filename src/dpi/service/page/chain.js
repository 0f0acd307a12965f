// The chain of certificates, checked entry by entry on the text as it was downloaded. Knows public texts alone.

import { digestOf } from "./blake2b.js";

const NOTHING = "0".repeat(64);
const SPKI = 44; // bytes of an Ed25519 public key as it is written in a PEM file

export const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const hex = (bytes) => [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** What is wrong with an entry after those before it; null if nothing is. `seen` is what they said, and goes on. */
export function wrongWith(entry, seen) {
  if (digestOf(entry.text) !== entry.digest) return "its text has another digest than it states";
  let said;
  try {
    said = JSON.parse(entry.text);
  } catch {
    return "its text is no JSON";
  }
  if (said === null || typeof said !== "object") return "its text is no entry";
  if (said.sequence !== seen.entries) return "its number is not the next";
  if (said.previous !== seen.head) return "it does not follow the entry before";
  if (said.kind === "release") {
    const last = seen.slots.get(said.stream);
    if (last !== undefined && said.slot !== last + 1) return "its slot is not the next of its stream";
    if (!(said.epsilon_spent_units >= (seen.spent.get(said.stream) ?? 0))) return "what was spent has become less";
    seen.slots.set(said.stream, said.slot);
    seen.spent.set(said.stream, said.epsilon_spent_units);
    seen.newest.set(said.stream, { slot: said.slot, entry: said.sequence, digest: entry.digest });
  } else if (said.kind === "restored") {
    seen.slots.clear(); // slots that were lost are not made again
    seen.spent.clear();
  }
  seen.head = entry.digest;
  seen.entries += 1;
  return null;
}

/** Public keys in PEM form, the oldest first, as the bytes that their fingerprint is of; null for another text. */
export function keyBytes(pem) {
  const blocks = [...(pem ?? "").matchAll(/-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----/g)];
  const keys = blocks.map(([, body]) => [...atob(body.replace(/\s/g, ""))].map((letter) => letter.charCodeAt(0)));
  return keys.length > 0 && keys.every((key) => key.length === SPKI) ? Uint8Array.from(keys.flat()) : null;
}

/** SHA-256 of a public key's bytes. */
export const fingerprint = async (bytes) => hex(await crypto.subtle.digest("SHA-256", bytes));

/** What a reader typed, without spaces and colons; a whole public key becomes its fingerprint. */
export async function typed(text) {
  const bytes = keyBytes(text);
  if (bytes !== null) return fingerprint(bytes);
  return text.trim().toLowerCase().replace(/^sha-?256[:\s]/, "").replace(/[\s:]/g, "");
}

/** Goes through a chain as it grows, and says how it stands. */
export class Chain {
  constructor() {
    this.seen = { entries: 0, head: NOTHING, slots: new Map(), spent: new Map(), newest: new Map() };
    this.broken = null;
    this.unsigned = null;
    this.keys = null;
    this.place = 0; // which of the keys has signed last; none of those before it comes back
  }

  /** The key that signatures are checked with, from the service's own text; only one that the reader knows counts. */
  async use(pem, wanted) {
    this.keys = null;
    if (!wanted) return this.say("consistent", "No key was given, so the signer is not known.");
    if (globalThis.crypto?.subtle === undefined) {
      return this.say("consistent", "This browser checks signatures on https or on this machine alone.");
    }
    const bytes = keyBytes(pem);
    if (bytes === null) return this.say("consistent", "The service does not sign its chain.");
    if ((await fingerprint(bytes)) !== wanted) {
      return this.say("other key", "The service states another key than the one you know.");
    }
    try {
      const parts = Array.from({ length: bytes.length / SPKI }, (_, i) => bytes.slice(i * SPKI, (i + 1) * SPKI));
      const use = (part) => crypto.subtle.importKey("spki", part, { name: "Ed25519" }, false, ["verify"]);
      this.keys = await Promise.all(parts.map(use));
    } catch {
      return this.say("consistent", "This browser has no Ed25519: signatures were not checked.");
    }
    return this.say("verified", "Every entry is signed with the key you know.");
  }

  say(state, why) {
    this.stands = { state, why };
    return this.stands;
  }

  /** Take up entries in order; those after a broken one are not looked at. */
  async add(entries) {
    for (const entry of entries) {
      if (this.broken !== null) return;
      const why = entry.entry === this.seen.entries ? wrongWith(entry, this.seen) : "it is not the next entry";
      if (why !== null) {
        this.broken = { entry: this.seen.entries, why };
        return;
      }
      if (this.keys === null) continue;
      if (typeof entry.signature !== "string") {
        this.unsigned ??= entry.entry;
      } else if (!(await this.signed(entry))) {
        this.broken = { entry: entry.entry, why: "its signature is not of this key" };
      }
    }
  }

  async signed(entry) {
    const text = new TextEncoder().encode(entry.digest);
    if (!/^[0-9a-f]{128}$/.test(entry.signature)) return false;
    for (let place = this.place; place < this.keys.length; place++) {
      if (!(await crypto.subtle.verify({ name: "Ed25519" }, this.keys[place], unhex(entry.signature), text))) continue;
      this.place = place;
      return true;
    }
    return false;
  }

  /** Whether the last entry is signed with the newest key, as it must be where older ones may have been stolen. */
  get newest() {
    return this.keys === null || this.seen.entries === 0 || this.place === this.keys.length - 1;
  }

  /** How the chain stands: consistent, verified, of another key, or broken at an entry. */
  get standing() {
    const { entries, head, newest } = this.seen;
    const about = { entries, head, newest: Object.fromEntries(newest) };
    if (this.broken !== null) {
      return { state: "broken", at: this.broken.entry, why: `Entry ${this.broken.entry}: ${this.broken.why}.`, ...about };
    }
    if (this.keys !== null && this.unsigned !== null) {
      return { state: "consistent", why: `Entry ${this.unsigned} is not signed.`, ...about };
    }
    if (!this.newest) return { state: "consistent", why: "The last entry is not signed with the newest key.", ...about };
    return { ...this.stands, ...about };
  }
}
