// Many slots: the heat map, chosen values as lines with bands, quantiles as a fan, and users with a brush.

import { band, cells, fitted, marked, prepare, timeAxis, valueAxis } from "./canvas.js";
import { $, colours, el, say, styled, table } from "./dom.js";
import { isWhole, scaleEnd } from "./people.js";
import { clock, count, largest, percent, scaled, shown, ticks, told, when } from "./numbers.js";

/** The rows of the heat map: `other` only if it is asked for. */
function heatRows({ series, state }) {
  const other = { code: null, label: "other", name: "other", value: series.other };
  return state.other && series.other.some((share) => share > 0) ? [...series.rows, other] : series.rows;
}

let heatBox = null;

export function drawHeat(app) {
  const { series, state, alerts } = app;
  const rows = heatRows(app), n = series.length;
  const narrow = $("heat").parentElement.clientWidth < 560;
  const high = rows.length > 40 ? 9 : rows.length > 24 ? 14 : rows.length > 12 ? 20 : 26;
  const to = prepare($("heat"), Math.max(60, rows.length * high) + 54), { pen } = to;
  const box = { left: narrow ? 84 : 150, top: 14, height: rows.length * high, width: 0 };
  box.width = to.width - box.left - 12;
  heatBox = { ...box, rows, high };
  const end = largest(rows, series.other, state.scale);
  cells(to, box, rows.length, n, (row, column) => scaled(rows[row].value[column], series.other[column], state.scale, end));
  marked(to, box, series.measured);
  pen.textAlign = "right";
  const every = high < 14 ? Math.ceil(14 / high) : 1;
  rows.forEach((row, i) => {
    pen.fillStyle = state.values.includes(row.code) ? to.ink : to.soft;
    if (i % every === 0) pen.fillText(fitted(pen, row.label, box.left - 14), box.left - 8, box.top + (i + 0.5) * high);
  });
  marks(to, box, rows, series, alerts?.alerts ?? []);
  if (state.slot !== null) {
    const at = series.slots.indexOf(state.slot);
    if (at >= 0) {
      pen.strokeStyle = to.ink;
      pen.lineWidth = 1.5;
      pen.strokeRect(box.left + (at / n) * box.width - 0.75, box.top - 1, Math.max(3, box.width / n) + 1.5, box.height + 2);
    }
  }
  timeAxis(to, box, series.starts, series.slots);
  legend(to, box, end, state.scale);
  const thinned = series.step > 1 ? `One slot in ${series.step} is drawn, and the newest. ` : "";
  const flat = state.other ? "" : hidden(series);
  say($("heat-note"), `${thinned}${flat}${series.before ? `The domain changed: ${series.before} earlier columns are not drawn. ` : ""}${unmeasured(series)}▾ marks an alert; one that is high or extreme has a frame.`);
  if ($("heat-table").closest("details").open) drawTable(app);
  drawSlot(app);
}

const unmeasured = ({ measured }) => (measured.every(Boolean) ? "" : "Ticks below the map mark measured slots; in the others more than half of the estimate comes from earlier slots. ");

function hidden(series) {
  const share = series.other.at(-1) ?? 0;
  return share > 0 ? `Other (${percent(share)} in the newest) is hidden. ` : "";
}

function marks({ pen }, box, rows, series, alerts) {
  const columns = new Map(series.slots.map((slot, i) => [slot, i]));
  for (const alert of [...alerts].sort((a, b) => (a.severity !== "notable") - (b.severity !== "notable"))) {
    const rare = alert.severity !== "notable";
    const at = columns.get(alert.slot);
    if (at === undefined) continue;
    const x = box.left + ((at + 0.5) / series.length) * box.width;
    pen.fillStyle = styled(rare ? "--bad" : "--warn");
    pen.globalAlpha = rare ? 1 : 0.45;
    pen.beginPath();
    pen.moveTo(x - 4, box.top - 8);
    pen.lineTo(x + 4, box.top - 8);
    pen.lineTo(x, box.top - 2);
    pen.fill();
    pen.globalAlpha = 1;
    const row = rare ? rows.findIndex((each) => each.name === alert.value) : -1;
    if (row >= 0) {
      pen.strokeStyle = styled("--bad");
      pen.lineWidth = 1.5;
      const wide = Math.max(4, box.width / series.length);
      pen.strokeRect(x - wide / 2, box.top + (row / rows.length) * box.height + 0.75, wide, box.height / rows.length - 1.5);
    }
  }
}

function legend(to, box, end, scale) {
  const { pen } = to, y = box.top + box.height + 28, width = Math.min(160, box.width / 3), left = box.left + box.width - width - 48;
  cells(to, { left, top: y, width, height: 8 }, 1, 128, (_, i) => i / 127);
  pen.fillStyle = to.soft;
  pen.textAlign = "right";
  const words = { share: "share of users", log: "share, logarithmic", rest: "share of those without other" }[scale];
  pen.fillText(`${words}   ${scale === "log" ? "≤ 0.01 %" : "0"}`, left - 8, y + 4);
  pen.textAlign = "left";
  pen.fillText(percent(end), left + width + 8, y + 4);
}

/** What is under a pointer on the heat map. */
export function heatAt(app, x, y) {
  const { series } = app, box = heatBox;
  if (box === null || !series.length) return null;
  const column = Math.floor(((x - box.left) / box.width) * series.length), row = Math.floor((y - box.top) / box.high);
  if (column < 0 || column >= series.length || row < 0 || row >= box.rows.length) return null;
  const found = box.rows[row];
  const value = found.value[column], note = found.note?.[column];
  const more = app.state.scale === "rest" && value !== null ? ` (${percent(shown(value, series.other[column], "rest"))} of the rest)` : "";
  return {
    slot: series.slots[column], code: found.code, left: box.left + ((column + 0.5) / series.length) * box.width, top: box.top, height: box.height,
    text: `${found.label}: ${told(percent(value), value, note)}${more} · ${when(series.starts[column], series.slots[column])}${series.measured[column] ? "" : " · not measured, carried on"}`,
  };
}

export function drawTable({ series }) {
  const from = Math.max(0, series.length - 8);
  $("heat-table").replaceChildren(
    table("The last columns; a file has all of them.", ["Value", ...series.starts.slice(from).map((start, i) => clock(start) || `${series.slots[from + i]}`)],
      series.rows.map((row) => [row.label, ...row.value.slice(from).map((value, i) => told(percent(value), value, row.note?.[from + i]))])),
  );
}

function drawSlot({ series, state }) {
  const slider = $("slot");
  slider.max = Math.max(0, series.length - 1);
  const at = state.slot === null ? series.length - 1 : series.slots.indexOf(state.slot);
  if (document.activeElement !== slider || state.slot === null) slider.value = at < 0 ? series.length - 1 : at;
  const text = when(series.starts[at] ?? null, state.slot ?? series.last);
  say($("slot-text"), text);
  slider.setAttribute("aria-valuetext", text);
  $("newest").hidden = state.slot === null;
}

export function drawLines(app) {
  const { series, state } = app, palette = colours();
  const shownRows = series.chosen;
  const place = $("chips");
  const texts = shownRows.map((row) => `${row.code} ${row.label} ${state.values.includes(row.code)}`).join("|");
  if (place.dataset.said !== texts) {
    place.dataset.said = texts;
    place.replaceChildren(...shownRows.map((row, i) => {
      const own = state.values.includes(row.code);
      const chip = el("button", { type: "button", class: "chip", onclick: () => app.pin(row.code), "aria-label": own ? `Do not compare ${row.label}` : `Keep ${row.label}` }, row.label, own ? " ×" : "");
      chip.style.setProperty("--pin", palette[i]);
      return chip;
    }));
  }
  const to = prepare($("lines"), 260);
  const box = { left: 54, top: 10, width: to.width - 66, height: 214 };
  const end = Math.min(1, 1.04 * Math.max(...shownRows.flatMap((row) => row.upper), 0.001));
  valueAxis(to, box, ticks(end), end, (mark) => `${Number((100 * mark).toPrecision(6))} %`);
  shownRows.forEach((row, i) => band(to, box, end, row, palette[i], { measured: series.measured }));
  timeAxis(to, box, series.starts, series.slots);
}

export function drawFan({ series }) {
  const fans = series.quantiles;
  if (!fans.length || !series.length) return;
  const to = prepare($("fan"), 240), box = { left: 60, top: 10, width: to.width - 72, height: 194 };
  const low = Math.min(...fans.flatMap((fan) => fan.lower).filter((v) => v !== null)), high = Math.max(...fans.flatMap((fan) => fan.upper).filter((v) => v !== null));
  const span = high - low || 1, moved = (list) => list.map((v) => (v ?? low) - low);
  const step = ticks(span)[1] ?? span, begin = Math.ceil(low / step) * step;
  const marks = Array.from({ length: Math.floor((high - begin) / step) + 1 }, (_, i) => begin + i * step - low);
  valueAxis(to, box, marks, span, (mark) => String(Number((low + mark).toPrecision(6))));
  const [q05, q25, q50, q75, q95] = fans;
  band(to, box, span, { value: moved(q50.value), lower: moved(q05.lower), upper: moved(q95.upper) }, to.accent, { fill: 0.16, width: 0, measured: series.measured });
  band(to, box, span, { value: moved(q50.value), lower: moved(q25.lower), upper: moved(q75.upper) }, to.accent, { fill: 0.28, width: 2.25, measured: series.measured });
  timeAxis(to, box, series.starts, series.slots);
}

let overBox = null;

export function drawOverview(app) {
  const { overview, state, series } = app;
  const to = prepare($("overview"), 130), { pen } = to;
  const box = { left: 54, top: 8, width: to.width - 66, height: 92 };
  overBox = box;
  const end = scaleEnd(overview.users);
  valueAxis(to, box, ticks(end, 2), end, count);
  band(to, box, end, overview.users, to.accent, { measured: isWhole("users", app.picture) ? [] : overview.measured });
  timeAxis(to, box, overview.starts, overview.slots);
  if (series.length && overview.length) {
    const x = (slot) => box.left + (Math.max(0, overview.slots.findLastIndex((each) => each <= slot)) / overview.length) * box.width;
    const left = x(series.slots[0]), right = Math.min(box.left + box.width, x(series.last) + box.width / overview.length);
    pen.fillStyle = to.ink;
    pen.globalAlpha = 0.07;
    pen.fillRect(left, box.top, Math.max(3, right - left), box.height);
    pen.globalAlpha = 0.5;
    pen.fillRect(left, box.top, 1.5, box.height);
    pen.fillRect(right - 1.5, box.top, 1.5, box.height);
    pen.globalAlpha = 1;
  }
  const [from, until] = [$("from"), $("to")], first = overview.slots[0] ?? 0, last = overview.last ?? 0;
  for (const [slider, value, text] of [[from, state.first ?? series.slots[0] ?? first, "from-text"], [until, state.end === null ? last : state.end - 1, "to-text"]]) {
    slider.min = first;
    slider.max = last;
    if (document.activeElement !== slider) slider.value = value;
    const at = overview.slots.findLastIndex((slot) => slot <= Number(slider.value));
    const words = clock(overview.starts[Math.max(0, at)]) || String(slider.value);
    say($(text), words);
    slider.setAttribute("aria-valuetext", words);
  }
  $("whole").hidden = state.first === null && state.end === null;
}

/** The slot under a pointer on the picture of all slots. */
export function overviewAt({ overview }, x) {
  if (overBox === null || !overview.length) return null;
  const at = Math.floor(((x - overBox.left) / overBox.width) * overview.length);
  return overview.slots[Math.min(overview.length - 1, Math.max(0, at))];
}
