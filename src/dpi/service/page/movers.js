// What moved between two slots: no arrow where the interval of the difference covers zero.

import { $, el, say } from "./dom.js";
import { csv, download } from "./files.js";
import { points, when } from "./numbers.js";

/** What is said of a change: an arrow only where its interval leaves no doubt of the direction. */
export const arrow = (row) => (row.lower > 0 ? "▲" : row.upper < 0 ? "▼" : "");

export function drawMovers(app) {
  const { changes, state } = app;
  const place = $("movers");
  if (changes === null) {
    place.replaceChildren(el("p", { class: "soft" }, "There is no slot to compare with yet."));
    say($("changes-note"), "");
    return;
  }
  const end = Math.max(...changes.rows.map((row) => Math.max(Math.abs(row.lower), Math.abs(row.upper))), 1e-6);
  const heads = [["name", "Value"], ["", "Change, percentage points"], ["ends", "95 % interval"], ["figure", "Estimate"]];
  place.replaceChildren(
    el("table", { class: "values" },
      el("thead", {}, el("tr", {}, heads.map(([name, text]) => (text ? el("th", { class: name, scope: "col" }, text) : el("td", { class: name }))))),
      el("tbody", {}, changes.rows.map((row) => mover(app, row, end)))),
  );
  const many = changes.sure === 0 ? "No value moved beyond its interval" : changes.sure === 1 ? "One value moved beyond its interval" : `${changes.sure} values moved beyond their intervals`;
  say($("changes-note"), `${many} since ${when(changes.beside_start, changes.beside)}. Intervals are cautious: they hold with ${Math.round(100 * changes.level)} % or more. A change without an arrow may be noise.`);
  if ($("back").value !== String(state.back)) $("back").value = String(state.back);
}

function mover(app, row, end) {
  const sign = arrow(row), half = (v) => 50 + (50 * v) / end;
  const most = Math.max(Math.abs(row.lower), Math.abs(row.upper)), i = el("i", { class: row.change < 0 ? "down" : null }), b = el("b");
  const [from, to] = row.change > 0 ? [0, row.change] : [row.change, 0];
  i.style.left = `${half(from)}%`;
  i.style.width = `${half(to) - half(from)}%`;
  b.style.left = `${half(row.lower)}%`;
  b.style.width = `${half(row.upper) - half(row.lower)}%`;
  const name = el("th", { class: "name", scope: "row", title: row.label }, row.label);
  const mark = el("span", { class: sign === "▲" ? "up" : "down", "aria-label": sign === "▲" ? "up" : "down", role: "img" }, sign);
  return el(
    "tr", { class: sign ? null : "muted" }, name,
    el("td", {}, el("div", { class: "track both", "aria-hidden": "true" }, i, b)),
    el("td", { class: "ends" }, `${points(row.lower, most)} … ${points(row.upper, most)}`),
    el("td", { class: "figure" }, sign ? [mark, " "] : null, points(row.change, most)),
  );
}

export function tableOfMovers({ changes, state }) {
  if (changes === null) return;
  const heads = ["slot", "beside", "code", "value", "share", "before", "change", "lower", "upper", "sure"];
  const rows = changes.rows.map((row) => [changes.slot, changes.beside, row.code, row.label, row.value, row.before, row.change, row.lower, row.upper, row.sure]);
  download(`${state.stream}-changes-${changes.slot}.csv`, csv(heads, rows));
}
