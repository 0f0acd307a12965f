// Where the page computes: run with `node --test`, against vectors that Python wrote to VECTORS.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const page = (name) => import(pathToFileURL(`${process.env.PAGE}/${name}`).href);
const vectors = JSON.parse(readFileSync(process.env.VECTORS, "utf8"));

const { blake2b } = await page("blake2b.js");
const { Chain, keyBytes, typed, wrongWith } = await page("chain.js");
const numbers = await page("numbers.js");
const { Series } = await page("series.js");
const { START, format, parse, takeToken } = await page("state.js");
const { csv, python } = await page("files.js");
const { address, events } = await page("api.js");
const { arrow } = await page("movers.js");
const { numbers: metrics, sum } = await page("curator.js");
const { standing: stands } = await page("streams.js");
globalThis.document = { createElement: () => ({}) }; // canvas.js keeps a canvas of its own for hatching
const { band } = await page("canvas.js");

const inOne = ({ value, ends }) => `${value} (${ends.replace(" %", "")})`;

test("BLAKE2b gives what hashlib gives, at all lengths around its blocks", () => {
  for (const [hex, person, digest] of vectors.blake2b) {
    assert.equal(blake2b(Uint8Array.from(Buffer.from(hex, "hex")), person), digest);
  }
  assert.ok(vectors.blake2b.length > 300);
});

async function standing(entries, pem = null, wanted = "") {
  const chain = new Chain();
  await chain.use(pem, wanted);
  await chain.add(entries);
  return chain.standing;
}

test("a chain is consistent without a key, and verified with the key that the reader knows alone", async () => {
  const { entries, key, fingerprint, other } = vectors.chain;
  assert.equal((await standing(entries)).state, "consistent");
  const found = await standing(entries, key, fingerprint);
  assert.equal(found.state, "verified");
  assert.equal(found.entries, entries.length);
  assert.equal((await standing(entries, key, other)).state, "other key");
  assert.equal((await standing(entries, null, fingerprint)).state, "consistent");
  assert.equal(await typed(key), fingerprint);
  assert.equal(await typed(` SHA256:${fingerprint.toUpperCase().match(/../g).join(":")} `), fingerprint);
  const unsigned = entries.map((entry) => ({ ...entry, signature: null }));
  assert.match((await standing(unsigned, key, fingerprint)).why, /Entry 0 is not signed/);
});

test("whatever is changed in a chain, it is broken where it was changed", async () => {
  const { entries, key, fingerprint } = vectors.chain;
  const changed = (at, patch) => entries.map((entry, i) => (i === at ? { ...entry, ...patch } : entry));
  const last = entries.length - 1;
  for (let at = 0; at <= last; at++) {
    const text = entries[at].text.replace(/"program":"dpi/, '"program":"dpj');
    assert.equal((await standing(changed(at, { text }))).at, at);
    assert.equal((await standing(changed(at, { digest: "0".repeat(64) }))).at, at);
    const signature = entries[at].signature.replace(/^./, (c) => (c === "0" ? "1" : "0"));
    assert.equal((await standing(changed(at, { signature }), key, fingerprint)).at, at);
    if (at < last) assert.equal((await standing(entries.filter((_, i) => i !== at))).at, at);
  }
  assert.equal(wrongWith({ text: "[]", digest: "" }, {}), "its text has another digest than it states");
  assert.equal(keyBytes("no key"), null);
});

test("a chain whose entries were made anew after a change does not follow", async () => {
  const found = await standing(vectors.chain.forged);
  assert.equal(found.state, "broken");
  assert.equal(found.at, 2);
});

test("a posterior is within the factor e^ε of the prior odds", () => {
  for (const epsilon of [0.1, 1, 4]) {
    for (const prior of [0.01, 0.5, 0.99]) {
      const odds = (p) => p / (1 - p), [least, most] = numbers.posterior(prior, epsilon);
      assert.ok(Math.abs(Math.log(odds(most) / odds(prior)) - epsilon) < 1e-9);
      assert.ok(Math.abs(Math.log(odds(least) / odds(prior)) + epsilon) < 1e-9);
    }
  }
});

test("scales: a dominant other does not flatten the rest", () => {
  const rows = [{ value: [0.02, 0.01] }], other = [0.9, 0.9];
  assert.equal(numbers.largest(rows, other, "share"), 0.02);
  assert.ok(Math.abs(numbers.largest(rows, other, "rest") - 0.2) < 1e-12);
  assert.ok(Math.abs(numbers.scaled(0.01, 0.9, "rest", 0.2) - 0.5) < 1e-12);
  assert.equal(numbers.scaled(1e-9, 0, "log", 1), 0);
  assert.equal(numbers.scaled(1, 0, "log", 1), 1);
  assert.ok(Math.abs(numbers.scaled(0.01, 0, "log", 1) - 0.5) < 1e-12);
  assert.equal(numbers.shown(0.1, 1, "rest"), 0);
  for (const name of ["light", "dark"]) assert.equal(numbers.ramp(name).length, 256);
});

test("numbers in words", () => {
  assert.deepEqual([0.2813, 0.0123, 0.00051, 0, null].map((share) => numbers.percent(share)), ["28.1 %", "1.23 %", "0.051 %", "0.0 %", "–"]);
  assert.deepEqual([numbers.points(-0.0345), numbers.points(0.0345, 0.12)], ["−3.45", "+3.5"]);
  assert.deepEqual([numbers.count(1234567.4), numbers.count(1234.56, 1)], ["1,234,567", "1,234.6"]);
  assert.deepEqual(numbers.ticks(0.47), [0, 0.2, 0.4]);
  assert.equal(numbers.age(7300), "2 h");
  assert.equal(numbers.clock("2026-01-02T03:04:05+01:00", 60), "03:04:05");
});

test("a share and a number of users have the digits that a report gives them", () => {
  for (const [value, lower, upper, text] of vectors.shares) assert.equal(inOne(numbers.shareTexts({ value, lower, upper })), text);
  for (const [value, lower, upper, text] of vectors.counts) assert.equal(inOne(numbers.countTexts({ value, lower, upper })), text);
  assert.deepEqual(numbers.shareTexts({ value: null }), { value: "–", ends: "–" });
});

test("no arrow where the interval of a difference covers zero", () => {
  assert.equal(arrow({ lower: 0.01, upper: 0.02 }), "▲");
  assert.equal(arrow({ lower: -0.02, upper: -0.01 }), "▼");
  for (const [lower, upper] of [[-0.1, 0.1], [0, 0.1], [-0.1, 0]]) assert.equal(arrow({ lower, upper }), "");
});

test("slots left: of a declared cost, and without end where users pay by a clock", () => {
  const said = { holds: 1, spent_at_most: 0.7, next_slots: [{ cost: 0.1, classes_due: null }] };
  assert.equal(numbers.slotsLeft(said), 3);
  assert.equal(numbers.slotsLeft({ ...said, spent_at_most: 1 }), 0);
  assert.equal(numbers.slotsLeft({ ...said, next_slots: [{ cost: 0.1, classes_due: 2 }] }), null);
});

test("a link says what is looked at, never a token; what it says wrongly is as at the start", () => {
  const state = { ...START, stream: "shop ä", slot: -7, first: 3, end: 90, values: [4, 2], scale: "log", other: true, search: "a&b", back: 24 };
  assert.deepEqual(parse(format(state)), state);
  assert.equal(format(START), "#");
  assert.deepEqual(parse("#scale=x&values=1.1.-2.z&window=-3&slot=1e9&back=0"), { ...START, values: [1] });
  assert.deepEqual(takeToken("#token=dpi_a_b&stream=shop"), ["dpi_a_b", "#stream=shop"]);
  assert.deepEqual(takeToken("#stream=shop"), [null, "#stream=shop"]);
});

function said(slots, codes, value = (slot) => slot) {
  const list = (code) => slots.map((slot) => value(slot) + code / 100);
  const rows = codes.map((code) => ({ code, label: `${code}`, value: list(code), lower: list(code), upper: list(code) }));
  return { slots: [...slots], starts: slots.map(String), step: 1, before: 0, other: slots.map(() => 0), measured: slots.map(() => true), users: { value: list(0), lower: list(0), upper: list(0) }, rows: rows.map(({ code, label, value: v }) => ({ code, label, value: [...v] })), chosen: rows };
}

test("a series that goes on is the series that is asked for anew", () => {
  const series = new Series(said([1, 2, 3], [5, 6]), { window: 4 });
  assert.equal(series.append({ ...said([3, 4, 5], [5, 6]), rows: [] }), true);
  assert.deepEqual(series.slots, [2, 3, 4, 5]);
  assert.deepEqual(series.rows[1].value, said([2, 3, 4, 5], [5, 6]).rows[1].value);
  const thinned = new Series({ ...said([4, 8, 9], [5]), step: 4 });
  thinned.append(said([10, 11, 12, 13], [5]));
  assert.deepEqual(thinned.slots, [4, 8, 12, 13]);
  assert.equal(thinned.append(said([14], [7])), false);
  assert.equal(new Series({ ...said([1], [5]), rows: [{ code: null, value: [1] }] }).append(said([2], [5])), false);
});

test("numbers of people go on with a series; where a slot does not tell them they are null", () => {
  const people = (numbers) => ({ reach: { value: [...numbers], lower: [...numbers], upper: [...numbers] } });
  const told = (slots, numbers) => ({ ...said(slots, [5]), people: people(numbers) });
  const series = new Series(structuredClone(told([1, 2, 3], [10, 20, 30])), { window: 4 });
  assert.ok(series.append(structuredClone(told([4, 5], [40, 50]))));
  assert.deepEqual(series.people.reach.value, [20, 30, 40, 50]);
  assert.ok(series.append({ ...said([6], [5]), people: {} }));
  assert.deepEqual(series.people.reach.upper, [30, 40, 50, null]);
  assert.deepEqual(new Series(said([1], [5])).people, {});
});

test("a table is CSV, and no formula", () => {
  assert.equal(csv(["a", "b"], [["=1+1", 'x "y"'], [-1.5, null]]), 'a,b\r\n\'=1+1,"x ""y"""\r\n-1.5,\r\n');
});

test("server-sent events come in any pieces", async () => {
  const text = 'retry: 1000\n\nid: 7\nevent: release\ndata: {"slot": 7}\n\n: alive\n\nid: 8\nevent: release\ndata: {}\n\n';
  for (let size = 1; size < 9; size++) {
    const found = [];
    for await (const event of events(text.match(new RegExp(`[^]{1,${size}}`, "g")))) found.push(event.id);
    assert.deepEqual(found, ["7", "8"]);
  }
  assert.equal(address("a", { code: [1, 2], x: null, y: "ä" }), "/v1/a?code=1&code=2&y=%C3%A4");
});

test("metrics are read as Prometheus writes them", () => {
  const found = metrics('# HELP x y\nx_total{stream="a b",kept="true"} 3.0\nx_total{stream="c"} 4.0\nplain 1e+03\n');
  assert.equal(sum(found, "x_total"), 7);
  assert.equal(sum(found, "x_total", { stream: "a b" }), 3);
  assert.equal(sum(found, "plain"), 1000);
});

test("Python is Python, whatever a stream is called", () => {
  assert.match(python("now", { origin: "http://a", stream: 'x"\n', slot: null, codes: [] }), /service\.stream\("x\\"\\n"\)/);
});

test("a picture is as old as its measurement, not as its release", () => {
  const now = Date.parse("2026-01-01T12:00:00Z");
  const at = (until) => ({ share: 0, in_slot: false, slots: 7, until });
  assert.equal(numbers.measuredAgo(at("2026-01-01T09:00:00+00:00"), now), "measured 3 h ago");
  assert.equal(numbers.measuredAgo(at("2026-01-01T12:00:30+00:00"), now), "measured 0 s ago");
  assert.equal(numbers.measuredAgo({ ...at(null), slots: null }, now), "not measured");
  assert.equal(numbers.measuredAgo(at(null), now), "measured 7 slots ago");
});

test("columns that were not measured are stretches of their own", () => {
  assert.deepEqual(numbers.runs([]), []);
  assert.deepEqual(numbers.runs([true, true, false, true]), [
    { first: 0, end: 2, measured: true }, { first: 2, end: 3, measured: false }, { first: 3, end: 4, measured: true },
  ]);
  const said = { slots: [4], starts: [null], rows: [], other: [0], measured: [true], step: 1, before: 0, chosen: [{ code: 0, value: [1], lower: [1], upper: [1] }], users: { value: [1], lower: [1], upper: [1] } };
  const series = new Series(structuredClone(said), { window: 2 });
  for (const [slot, measured] of [[5, false], [6, false]]) assert.ok(series.append({ ...structuredClone(said), slots: [slot], measured: [measured] }));
  assert.deepEqual([series.slots, series.measured], [[5, 6], [false, false]]);
});

test("a stream stands as its newest picture does, and worse where somebody should look", () => {
  const now = Date.parse("2026-01-01T12:00:00Z"), info = { clock: { seen: "2026-01-01T12:00:05Z" } };
  const picture = (in_slot, lower = 9) => ({ measured: { in_slot }, users: { value: 10, lower } });
  assert.deepEqual(stands({ info, picture: null }, now), ["no release yet", false]);
  assert.deepEqual(stands({ info, picture: picture(true) }, now), ["measured", false]);
  assert.deepEqual(stands({ info, picture: picture(false) }, now), ["carried on", false]);
  assert.deepEqual(stands({ info, picture: picture(true, 0) }, now), ["no users beyond noise", false]);
  assert.deepEqual(stands({ info, picture: picture(true) }, now + 60_000), ["overdue", true]);
  assert.deepEqual(stands({ info, picture: picture(true), quiet: 5, silent: true }, now), ["silent: no batch for 5 slots", true]);
});

test("a band without an upper end goes up to the end of the scale, and one that is not known is not drawn", () => {
  const heights = [];
  const pen = new Proxy({ lineTo: (_, y) => heights.push(y) }, { get: (of, name) => of[name] ?? (() => {}), set: () => true });
  const box = { left: 0, top: 0, width: 100, height: 50 };
  band({ pen }, box, 10, { value: [4, 4], lower: [3, 3], upper: [5, null] }, "red", { width: 0 });
  assert.deepEqual(heights, [25, 25, 0, 0, 35, 35, 35, 35]);
  heights.length = 0;
  band({ pen }, box, 10, { value: [null, null], lower: [null, null], upper: [null, null] }, "red");
  assert.deepEqual(heights, []);
});

test("what is not good enough has its reason in its place, and no colour", () => {
  assert.equal(numbers.told("12.3 %", 0.123, undefined), "12.3 %");
  assert.equal(numbers.told("12.3 %", 0.123, "of a week"), "12.3 % of a week");
  assert.equal(numbers.told("–", null, "not shown: ± 14 points"), "not shown: ± 14 points");
  for (const scale of ["share", "log", "rest"]) assert.ok(Number.isNaN(numbers.scaled(null, 0.1, scale, 1)));
});

test("reasons go on with their series", () => {
  const said = (slots, value, note) => ({
    slots, starts: slots.map(() => null), step: 1, before: 0, other: slots.map(() => 0), measured: slots.map(() => true),
    users: { value: [...value], lower: [...value], upper: [...value] }, people: {}, quantiles: [],
    rows: [{ code: 0, label: "a", name: "a", value: [...value], note: [...note] }],
    chosen: [{ code: 0, label: "a", name: "a", value: [...value], lower: [...value], upper: [...value], note: [...note] }],
  });
  const series = new Series(said([0, 1], [0.5, null], ["", "not shown: ± 14 points"]), { window: 2 });
  assert.ok(series.append(said([2], [0.4], ["of a week"])));
  assert.deepEqual(series.rows[0].value, [null, 0.4]);
  assert.deepEqual(series.rows[0].note, ["not shown: ± 14 points", "of a week"]);
  assert.deepEqual(series.chosen[0].note, series.rows[0].note);
});
