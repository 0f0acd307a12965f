// People: how many users are active, new or came before, how many ever came, and how users go on.

import { band, prepare, timeAxis, valueAxis } from "./canvas.js";
import { $, colours, el, table } from "./dom.js";
import { count, countTexts, shareTexts, ticks, told, when } from "./numbers.js";

const UNKNOWN = "Not enough measurements yet for retention and stickiness: their intervals would be as wide as the model's prior.";
const FIRST = ["newcomers", "reach"]; // of first payments, which are due in every slot

/** Whether a number is measured in every slot, whatever else is carried forward; all are where users are counted. */
export const isWhole = (name, picture) => FIRST.includes(name) || picture.people.some((row) => row.name.startsWith("active_"));

/** The numbers of a series that are about people, by name. */
export const peopleOf = (series) => ({ users: series.users, ...series.people });

export function drawPeople({ series, picture }) {
  const there = series.length > 0 && Object.keys(series.people).length > 0;
  $("people").hidden = !there;
  if (!there) return;
  const palette = colours();
  Object.entries(peopleOf(series)).forEach(([name, row], i) => drawOne(`people-${name}`, row, palette[i], series, isWhole(name, picture) ? [] : series.measured));
  drawEngagement(picture);
}

/** The end of a scale: all estimates, and bands up to three times the median, so that a slot that is hardly known does not flatten the others. */
export function scaleEnd({ value, upper }) {
  const sorted = (list) => list.filter((v) => v !== null).sort((a, b) => a - b), known = sorted(value), ends = sorted(upper);
  const widest = ends[Math.floor(0.98 * (ends.length - 1))] ?? 0;
  return 1.04 * Math.max(known.at(-1) ?? 0, Math.min(widest, 3 * (known[known.length >> 1] ?? 0) || widest), 1);
}

function drawOne(canvas, row, colour, series, measured) {
  const to = prepare($(canvas), 150), box = { left: 58, top: 8, width: to.width - 66, height: 112 };
  const end = scaleEnd(row);
  valueAxis(to, box, ticks(end, 3), end, count);
  band(to, box, end, row, colour, { measured, fill: 0.22 });
  timeAxis(to, box, series.starts, series.slots);
}

function drawEngagement(picture) {
  const rows = picture.people.filter((row) => !["newcomers", "returning", "reach"].includes(row.name));
  const said = JSON.stringify(rows), place = $("people-more");
  if (place.dataset.said === said) return;
  place.dataset.said = said;
  const slots = ({ value, lower, upper }) => (value === null ? shareTexts({ value }) : { value: value.toFixed(1), ends: `${lower.toFixed(1)} … ${upper.toFixed(1)}` });
  const texts = (row) => (row.name === "further_activity" ? slots : row.name.startsWith("active_") ? countTexts : shareTexts)(row);
  const lines = rows.map((row) => [row.label, texts(row).ends, told(texts(row).value, row.value, row.note)]);
  place.replaceChildren(rows.length ? table(`${when(picture.start, picture.slot)}. What is expected is a forecast.`, ["", "95 % interval", "Estimate"], lines) : el("p", { class: "soft" }, UNKNOWN));
}
