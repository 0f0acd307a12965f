// Numbers as they are said and drawn: percentages, scales, colours, times. Pure functions.

export const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

/** A share in per cent, with as many digits as it needs, or as the largest share beside it needs. */
export function percent(share, largest = share) {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  return `${(100 * share).toFixed(largest > 0 ? Math.min(places(largest), 3) : 1)} %`;
}

/** How many digits after the point a share and its interval have in per cent: three of the upper end, as in a report. */
export const places = (upper) => clamp(2 - Math.floor(Math.log10(100 * upper)), 1, 6);

/** A share and its interval in per cent, with the same digits. */
export function shareTexts({ value, lower, upper }) {
  if (value === null) return { value: "–", ends: "–" };
  const d = places(upper), text = (share) => (100 * share).toFixed(d);
  return { value: `${text(value)} %`, ends: `${text(lower)} … ${text(upper)} %` };
}

/** A number as it is shown under the publisher's rules: itself, or why it is not, or that it is a week's. */
export function told(text, value, note) {
  if (!note) return text;
  return value === null ? note : `${text} ${note}`;
}

/** A difference of shares, in percentage points, with its sign; with the digits of the largest number beside it. */
export function points(change, largest = Math.abs(change)) {
  const sign = change > 0 ? "+" : change < 0 ? "−" : "±";
  return `${sign}${Math.abs(100 * change).toFixed(Math.min(places(largest), 3))}`;
}

/** A slot by its begin, or by its number where the stream has no clock. */
export const when = (start, slot) => (start ? `${start.slice(0, 10)} ${start.slice(11, 19)}` : `slot ${count(slot)}`);

/** A number, whole unless it is told otherwise, with commas as in a report. */
export function count(number, digits = 0) {
  if (number === null || number === undefined) return "–";
  return number.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A number of users and its interval, with the same digits: one after the point below 100. */
export function countTexts({ value, lower, upper }) {
  if (value === null) return { value: "–", ends: "–" };
  const d = upper !== null && upper < 100 ? 1 : 0, text = (number) => count(Math.max(0, number), d);
  return { value: text(value), ends: upper === null ? `at least ${text(lower)}` : `${text(lower)} … ${text(upper)}` };
}

/** A budget: four digits. */
export const budget = (number) => (number === null ? "–" : String(Number(number.toPrecision(4))));

/** Seconds in words. */
export function age(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 90) return `${s} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 129600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} days`;
}

/** How long ago a picture was measured, in front of everything else; `now` in milliseconds. */
export function measuredAgo({ share, slots, until }, now) {
  if (slots === null) return "not measured";
  if (until !== null) return `measured ${age((now - Date.parse(until)) / 1000)} ago`;
  return share >= 0.995 ? "measured in its slot" : `measured ${Math.round(slots)} slots ago`;
}

/** Stretches of columns that were measured, and of those that were not: [first, end). */
export function runs(measured) {
  const found = [];
  measured.forEach((each, i) => {
    if (i && measured[i - 1] === each) found.at(-1).end = i + 1;
    else found.push({ first: i, end: i + 1, measured: each });
  });
  return found;
}

/** The time of a slot's beginning, as the stream's own clock shows it, short enough for a span of so many seconds. */
export function clock(start, span = 0) {
  if (!start) return "";
  const day = start.slice(0, 10), time = start.slice(11, 19);
  if (span > 4 * 86400) return day;
  if (span > 86400) return `${day.slice(5)} ${time.slice(0, 5)}`;
  return span > 3 * 3600 ? time.slice(0, 5) : time;
}

/** Round numbers from 0 to about the end, for an axis. */
export function ticks(end, about = 4) {
  if (!(end > 0)) return [0];
  const rough = end / about, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((x) => x * power).find((x) => x >= rough * 0.999);
  const found = [];
  for (let i = 0; i * step <= end * 1.0001; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

export const FLOOR = 1e-4; // shares below this are drawn alike on a logarithmic scale

/** Where a share stands between 0 and 1 on a scale: "share", "log" or "rest" (of what is not `other`); NaN if it is not shown. */
export function scaled(value, other, scale, end) {
  if (value === null) return NaN;
  if (scale === "log") {
    return clamp((Math.log10(Math.max(value, FLOOR)) - Math.log10(FLOOR)) / (Math.log10(end) - Math.log10(FLOOR)), 0, 1);
  }
  return clamp(shown(value, other, scale) / end, 0, 1);
}

/** A share as a scale tells it. */
export function shown(value, other, scale) {
  if (scale !== "rest") return value;
  const rest = 1 - other;
  return rest > 1e-9 ? value / rest : 0;
}

/** The largest number of a scale, for rows of shares by column. */
export function largest(rows, other, scale) {
  let end = 0;
  for (const row of rows) row.value.forEach((v, i) => (end = Math.max(end, shown(v, other[i] ?? 0, scale))));
  return scale === "log" ? Math.max(end, 10 * FLOOR) : end || 1;
}

/** The bounds of a posterior probability after all releases, for a prior one and ε. */
export function posterior(prior, epsilon) {
  const after = (factor) => (prior * factor) / (prior * factor + 1 - prior);
  return [after(Math.exp(-epsilon)), after(Math.exp(epsilon))];
}

const RAMPS = {
  light: [[247, 248, 250], [207, 225, 238], [143, 190, 218], [77, 143, 190], [36, 92, 148], [18, 44, 92]],
  dark: [[26, 30, 38], [28, 58, 84], [31, 103, 128], [52, 152, 150], [132, 200, 148], [244, 238, 168]],
};

/** 256 colours from nothing to all, as red, green, blue. */
export function ramp(name) {
  const stops = RAMPS[name];
  return Array.from({ length: 256 }, (_, i) => {
    const place = (i / 255) * (stops.length - 1), at = Math.min(stops.length - 2, Math.floor(place)), part = place - at;
    return stops[at].map((from, channel) => Math.round(from + part * (stops[at + 1][channel] - from)));
  });
}

/** How many more slots somebody who has spent the most can pay in full; null if there is no end. */
export function slotsLeft(said) {
  const next = said.next_slots[0];
  if (next === undefined || next.classes_due !== null || !(next.cost > 0)) return null;
  return Math.max(0, Math.floor((said.holds - said.spent_at_most) / next.cost + 1e-9));
}
