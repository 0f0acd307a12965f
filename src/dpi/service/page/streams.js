// All streams at a glance: how each stands, how long ago it was measured, what is an alert in its newest slots.

import { Refused, get, text } from "./api.js";
import { numbers, operator, sum } from "./curator.js";
import { $, el } from "./dom.js";
import { measuredAgo } from "./numbers.js";

const RECENT = 24; // slots whose alerts are counted as open
const LATE = 30_000; // milliseconds after which a release that should be seen is overdue

/** How a stream stands: a word, and whether somebody should look. What is silent is known to curators alone. */
export function standing({ info, picture, quiet, silent }, now) {
  if (silent) return [`silent: no batch for ${quiet} slots`, true];
  if (picture === null) return ["no release yet", false];
  if (info.clock && now > Date.parse(info.clock.seen) + LATE) return ["overdue", true];
  if (picture.measured.in_slot && picture.users.value !== null && picture.users.lower <= 0) return ["no users beyond noise", false];
  return [picture.measured.in_slot ? "measured" : "carried on", false];
}

export async function loadStreams(app) {
  const said = operator(app) ? numbers(await text("metrics")) : [];
  const found = [];
  for (const stream of app.names) {
    const seen = await glanced(`streams/${encodeURIComponent(stream)}`);
    if (seen !== null) found.push({ stream, ...seen, quiet: sum(said, "dpi_quiet_slots", { stream }), silent: sum(said, "dpi_silent", { stream }) > 0 });
  }
  app.streams = found;
}

/** What everybody may know of a stream; null of one that has no pictures. */
async function glanced(path) {
  try {
    const info = await get(path), none = info.newest === null;
    const picture = none ? null : await get(`${path}/picture`, { k: 0 });
    return { info, picture, alerts: none ? [] : (await get(`${path}/alerts`, { first: info.newest - RECENT + 1 })).alerts };
  } catch (error) {
    if (error instanceof Refused && [404, 422].includes(error.status)) return null;
    throw error;
  }
}

export function drawStreams(app) {
  $("streams").hidden = app.streams.length < 2;
  const heads = ["Stream", "Measured", "State", `Alerts, last ${RECENT} slots`];
  const rows = app.streams.map((each) => {
    const [word, look] = standing(each, app.now()), here = each.stream === app.state.stream;
    const ago = each.picture === null ? "–" : measuredAgo(each.picture.measured, app.now()).replace("measured ", "");
    const rare = each.alerts.filter((alert) => alert.severity !== "notable").length;
    const open = each.alerts.length ? `${each.alerts.length}${rare ? `, ${rare} high` : ""}` : "none";
    const button = el("button", { type: "button", class: "plain", "aria-current": here ? "true" : null, onclick: () => app.choose(each.stream) }, each.stream);
    return el(
      "tr", {}, el("th", { scope: "row" }, button), el("td", {}, ago),
      el("td", {}, el("span", { class: look ? "state look" : each.picture?.measured.in_slot === false ? "state gap" : "state" }, word)), el("td", { class: rare ? "rare" : null }, open),
    );
  });
  const held = document.activeElement?.closest?.("#stream-list tr")?.rowIndex ?? -1;
  $("stream-list").replaceChildren(el("table", { class: "plain" }, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, rows)));
  if (held > 0) $("stream-list").querySelectorAll("tr")[held]?.querySelector("button")?.focus();
}
