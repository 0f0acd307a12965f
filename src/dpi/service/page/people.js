// People: how many users are active, new or came before, how many ever came, and how users go on.

import { band, prepare, timeAxis, valueAxis } from "./canvas.js";
import { $, colours, el, table } from "./dom.js";
import { count, percent, ticks, when } from "./numbers.js";

const UNKNOWN = "The measurements so far do not tell retention and stickiness better than the assumption made before them.";
const WHOLE = ["newcomers", "reach"]; // of first payments, which are due in every slot

/** The numbers of a series that are about people, by name. */
export const peopleOf = (series) => ({ users: series.users, ...series.people });

export function drawPeople({ series, picture }) {
  const there = series.length > 0 && Object.keys(series.people).length > 0;
  $("people").hidden = !there;
  if (!there) return;
  const palette = colours();
  Object.entries(peopleOf(series)).forEach(([name, row], i) => drawOne(`people-${name}`, row, palette[i], series, WHOLE.includes(name) ? [] : series.measured));
  drawEngagement(picture);
}

function drawOne(canvas, row, colour, series, measured) {
  const to = prepare($(canvas), 150), box = { left: 58, top: 8, width: to.width - 66, height: 112 };
  // one slot that is hardly known does not flatten all others: its band leaves the picture
  const ends = row.upper.filter((v) => v !== null).sort((a, b) => a - b);
  const end = 1.04 * Math.max(...row.value.map((v) => v ?? 0), ends[Math.floor(0.95 * (ends.length - 1))] ?? 0, 1);
  valueAxis(to, box, ticks(end, 3), end, count);
  band(to, box, end, row, colour, { measured, fill: 0.22 });
  timeAxis(to, box, series.starts, series.slots);
}

function drawEngagement(picture) {
  const rows = picture.people.filter((row) => !["newcomers", "returning", "reach"].includes(row.name));
  const said = JSON.stringify(rows), place = $("people-more");
  if (place.dataset.said === said) return;
  place.dataset.said = said;
  const number = (row) => (row.name === "further_activity" ? (v) => v.toFixed(1) : percent);
  const lines = rows.map((row) => [row.label, number(row)(row.value), `${number(row)(row.lower)} … ${number(row)(row.upper)}`]);
  place.replaceChildren(rows.length ? table(`${when(picture.start, picture.slot)}. What is expected is a forecast.`, ["", "Estimate", "95 % interval"], lines) : el("p", { class: "soft" }, UNKNOWN));
}
