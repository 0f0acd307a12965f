// What a curator's or administrator's token may see besides: how much comes in, how long it takes, what closes next.

import { text } from "./api.js";
import { $, el } from "./dom.js";
import { age, count } from "./numbers.js";

/** Numbers of Prometheus' text, as [name, labels, number]. */
export function numbers(said) {
  return [...said.matchAll(/^(\w+)(?:\{([^}]*)\})? ([-+.\deE]+|NaN|[+-]Inf)$/gm)].map(([, name, labels, number]) => [
    name, Object.fromEntries([...(labels ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, value]) => [key, value])), Number(number),
  ]);
}

/** The sum of the numbers of a name with these labels. */
export const sum = (found, name, labels = {}) => found.filter(([each, said]) => each === name && Object.entries(labels).every(([key, value]) => said[key] === value)).reduce((all, [, , number]) => all + number, 0);

/** Whether a token may see what is made from events. */
export const operator = (app) => ["curator", "admin"].includes(app.role);

let before = null;

export async function drawCurator(app) {
  const found = numbers(await text("metrics")), stream = app.state.stream, now = performance.now();
  const batches = sum(found, "dpi_batches_total", { stream, kept: "true" }), refused = sum(found, "dpi_batches_total", { stream, kept: "false" });
  const bytes = sum(found, "dpi_batch_bytes_total", { stream });
  const closings = sum(found, "dpi_closing_seconds_count", { stream }), took = sum(found, "dpi_closing_seconds_sum", { stream });
  const rate = before !== null && before.stream === stream && now > before.now ? (1000 * (bytes - before.bytes)) / (now - before.now) : null;
  before = { stream, now, bytes };
  const clock = app.info?.clock, lag = clock ? (app.now() - Date.parse(clock.begins)) / 1000 : null;
  const quiet = sum(found, "dpi_quiet_slots", { stream }), silent = sum(found, "dpi_silent", { stream }) > 0;
  const usable = sum(found, "dpi_rows_total", { stream, usable: "true" }), unusable = sum(found, "dpi_rows_total", { stream, usable: "false" });
  const senders = sum(found, "dpi_unusable_senders", { stream });
  const facts = [
    ["Batches", silent ? "silent" : "arriving", quiet ? `none for ${count(quiet)} whole slot${quiet === 1 ? "" : "s"}` : "in this slot or the one before", silent],
    ["Batches kept", count(batches), refused ? `${count(refused)} refused` : "none refused"],
    ["Usable rows", usable + unusable ? `${Math.floor((100 * usable) / (usable + unusable))} %` : "–", senders ? `rows of ${count(senders)} sender${senders === 1 ? "" : "s"} are mostly unusable` : `${count(unusable)} lack a column or are not in time`, senders > 0],
    ["Arriving", rate === null ? "–" : `${(rate / 1024).toFixed(1)} KiB/s`, `${(bytes / 2 ** 20).toFixed(1)} MiB since the start`],
    ["A slot closes in", closings ? `${Math.round((1000 * took) / closings)} ms` : "–", `${count(sum(found, "dpi_late_releases_total", { stream }))} releases were late`],
    ["Lag", lag === null ? "–" : age(lag), "since the newest slot ended"],
    ["Next closing", clock ? clock.closes.slice(11, 19) : "–", clock ? `seen at ${clock.seen.slice(11, 19)}` : ""],
    ["Store", sum(found, "dpi_failures_total") ? "failing" : "well", `${count(sum(found, "dpi_failures_total"))} failures`],
  ];
  $("curator-tiles").replaceChildren(...facts.map(([name, figure, more, look]) => el("div", { class: look ? "look" : null }, el("dt", {}, name), el("dd", {}, figure), el("dd", { class: "soft" }, more))));
}
