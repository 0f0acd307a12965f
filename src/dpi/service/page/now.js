// One slot: values as bars with intervals, an ordered domain as a density.

import { fitted, pictureOf, prepare, valueAxis } from "./canvas.js";
import { $, colours, el, say } from "./dom.js";
import { csv, download } from "./files.js";
import { count, percent, shareTexts, ticks, told, when } from "./numbers.js";

/** The rows in view, in their order. */
function rowsOf({ picture, state }) {
  let rows = picture.rows;
  const text = state.search.trim().toLowerCase();
  if (text) rows = rows.filter((row) => row.label.toLowerCase().includes(text));
  const order = picture.domain.kind === "bins" && !text ? (a, b) => a.code - b.code : (a, b) => a.other - b.other || b.value - a.value;
  return [...rows].sort(order);
}

export function drawNow(app) {
  const { picture, state } = app;
  const begun = when(picture.start, picture.slot);
  say($("now-title"), state.slot === null ? "Now" : begun);
  const rows = rowsOf(app), size = picture.domain.size;
  const few = rows.length < size ? ` ${rows.length} of ${count(size)} values are in view.` : "";
  say($("now-lead"), `${begun}. The bold part of a bar is the 95 % interval, the mark in it the estimate.${few}${ruled(picture)}`);
  const end = Math.max(...rows.map((row) => row.upper), 1e-6);
  const palette = colours();
  const body = $("bars").querySelector("tbody") ?? begin();
  const known = new Map([...body.children].map((row) => [Number(row.dataset.code), row]));
  const wanted = rows.map((row) => {
    const made = known.get(row.code) ?? bar(app, row);
    fill(made, row, end, state.values.indexOf(row.code), palette);
    return made;
  });
  if (wanted.length !== body.children.length || wanted.some((row, i) => body.children[i] !== row)) {
    const held = document.activeElement;
    body.replaceChildren(...wanted);
    if (held && body.contains(held)) held.focus();
  }
  $("density").hidden = picture.sets === null;
  if (picture.sets !== null) drawDensity(app);
}

/** A share with its interval, as a report has it. */
function inOne(row) {
  const { value, ends } = shareTexts(row);
  return `${value} (${ends.replace(" %", "")})`;
}

/** What is shown by the publisher's rules, and the values that are too small to stand alone. */
function ruled({ shown, small }) {
  if (!shown) return "";
  const sum = small ? ` ${small.label}: ${told(inOne(small), small.value, small.note)} together.` : "";
  return ` The publisher shows ${shown}.${sum}`;
}

function begin() {
  const body = el("tbody");
  const heads = [["mark", ""], ["name", "Value"], ["", "Share"], ["ends", "95 % interval"], ["figure", "Estimate"]];
  $("bars").replaceChildren(
    el("table", { class: "values" }, el("thead", {}, el("tr", {}, heads.map(([name, text]) =>
      text ? el("th", { class: name, scope: "col" }, text) : el("td", { class: name })))), body),
  );
  return body;
}

function bar(app, row) {
  const pin = el("button", { type: "button", class: "pin", onclick: () => app.pin(row.code) });
  const track = el("div", { class: "track", "aria-hidden": "true" }, el("i"), el("b"));
  return el(
    "tr", { "data-code": row.code },
    el("td", { class: "mark" }, pin), el("th", { class: "name", scope: "row", title: row.label }, row.label),
    el("td", {}, track), el("td", { class: "ends" }), el("td", { class: "figure" }),
  );
}

function fill(made, row, end, place, palette) {
  const pin = made.querySelector(".pin"), [i, b] = made.querySelector(".track").children;
  pin.setAttribute("aria-pressed", String(place >= 0));
  pin.setAttribute("aria-label", `Compare ${row.label}`);
  pin.style.setProperty("--pin", place >= 0 ? palette[place] : "transparent");
  i.style.width = `${(100 * row.value) / end}%`;
  b.hidden = row.value === null;
  b.style.left = `${(100 * row.lower) / end}%`;
  b.style.width = `${(100 * (row.upper - row.lower)) / end}%`;
  made.classList.toggle("muted", row.other);
  const { value, ends } = shareTexts(row);
  i.hidden = row.value === null;
  say(made.querySelector(".ends"), ends);
  say(made.querySelector(".figure"), told(value, row.value, row.note));
}

/** A density: each set's share over its width. Sets without an end are drawn as bars of their share at the sides. */
function drawDensity({ picture }) {
  const canvas = $("density").querySelector("canvas");
  const to = prepare(canvas, 210);
  const inner = picture.sets.filter((set) => set.low !== null && set.high !== null && set.value !== null);
  if (!inner.length) return;
  const per = (set, key) => set[key] / (set.high - set.low);
  const end = Math.max(...inner.map((set) => per(set, "upper")), 1e-12);
  const box = { left: 52, top: 10, width: to.width - 60, height: 165 };
  const low = inner[0].low, high = inner.at(-1).high;
  const x = (v) => box.left + ((v - low) / (high - low)) * box.width;
  const y = (v) => box.top + box.height - (v / end) * box.height;
  valueAxis(to, box, ticks(end, 3), end, (mark) => Number(mark.toPrecision(2)).toString());
  const { pen } = to;
  for (const set of inner) {
    pen.globalAlpha = 0.25;
    pen.fillStyle = to.accent;
    pen.fillRect(x(set.low), y(per(set, "upper")), x(set.high) - x(set.low), Math.max(1, y(per(set, "lower")) - y(per(set, "upper"))));
    pen.globalAlpha = 1;
  }
  pen.strokeStyle = to.accent;
  pen.lineWidth = 2;
  pen.beginPath();
  for (const [i, set] of inner.entries()) {
    pen[i && inner[i - 1].high === set.low ? "lineTo" : "moveTo"](x(set.low), y(per(set, "value")));
    pen.lineTo(x(set.high), y(per(set, "value")));
  }
  pen.stroke();
  pen.fillStyle = to.soft;
  pen.textAlign = "center";
  for (const mark of ticks(high - low, 6)) pen.fillText(String(Number((low + mark).toPrecision(6))), Math.min(x(low + mark), to.width - 14), box.top + box.height + 14);
  const outer = picture.sets.filter((set) => set.low === null || set.high === null);
  pen.textAlign = "right";
  pen.fillText(outer.map((set) => `${set.label}: ${told(percent(set.value), set.value, set.note)}`).join("    "), box.left + box.width, box.top + box.height + 30);
}

export function tableOfNow(app) {
  download(
    `${app.state.stream}-${app.picture.slot}.csv`,
    csv(["slot", "start", "code", "value", "share", "lower", "upper", "note"], rowsOf(app).map((row) => [app.picture.slot, app.picture.start, row.code, row.label, row.value, row.lower, row.upper, row.note])),
  );
}

export async function pictureOfNow(app) {
  if (app.picture.sets !== null) return pictureOf($("density").querySelector("canvas"), `${app.state.stream}, ${when(app.picture.start, app.picture.slot)}`);
  const rows = rowsOf(app).slice(0, 40), canvas = el("canvas"), host = el("div", { class: "offstage" }, canvas);
  host.style.cssText = "position:absolute;left:-9999px;width:720px";
  document.body.append(host);
  const to = prepare(canvas, 26 * rows.length + 8), { pen } = to;
  const end = Math.max(...rows.map((row) => row.upper), 1e-6), left = 190, width = 340;
  rows.forEach((row, i) => {
    const y = 26 * i + 16;
    pen.fillStyle = to.ink;
    pen.textAlign = "right";
    pen.fillText(fitted(pen, row.label, left - 20), left - 10, y);
    pen.fillStyle = to.accent;
    pen.globalAlpha = 0.25;
    pen.fillRect(left, y - 9, (row.value / end) * width, 18);
    pen.globalAlpha = 1;
    pen.fillRect(left + (row.lower / end) * width, y - 6, Math.max(2, ((row.upper - row.lower) / end) * width), 12);
    pen.fillStyle = to.ink;
    if (row.value !== null) pen.fillRect(left + (row.value / end) * width - 1, y - 9, 2, 18);
    pen.textAlign = "left";
    pen.fillText(told(inOne(row), row.value, row.note), left + width + 14, y);
  });
  const made = await pictureOf(canvas, `${app.state.stream}, ${when(app.picture.start, app.picture.slot)}: shares with 95 % intervals`);
  host.remove();
  return made;
}

