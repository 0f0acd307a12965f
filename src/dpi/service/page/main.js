// The page: what is looked at, what is asked for it, and when it is drawn.

import { Refused, blob, clocks, follow, get, token } from "./api.js";
import { drawAlerts, tableOfAlerts } from "./alerts.js";
import { Badge } from "./badge.js";
import { drawCurator, operator } from "./curator.js";
import { $, say } from "./dom.js";
import { drawGrid, tableOfGrid } from "./grid.js";
import { drawMovers, tableOfMovers } from "./movers.js";
import { age, count, countTexts, measuredAgo } from "./numbers.js";
import { drawNow, pictureOfNow, tableOfNow } from "./now.js";
import { drawPeople } from "./people.js";
import { drawBudget, drawOdds } from "./privacy.js";
import { Series } from "./series.js";
import { START, format, parse, takeToken } from "./state.js";
import { drawStreams, loadStreams } from "./streams.js";
import { drawFan, drawHeat, drawLines, drawOverview } from "./time.js";
import { listen, tools } from "./controls.js";

const COLUMNS = 240;
const QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95];
const GLANCE = 20_000; // milliseconds between two looks at all streams
const AUTOMATIC = 4; // values that are compared where none was chosen
const EMPTY = new Series({ slots: [], starts: [], rows: [], step: 1, before: 0 });

const app = {
  state: { ...START }, role: null, info: null, picture: null, series: EMPTY, overview: EMPTY, changes: null, alerts: null, budget: null, grid: null,
  live: false, following: null, names: [], streams: [],
  now: () => Date.now() + clocks.ahead,
};
app.badge = new Badge(app);

// What is drawn, once for all that has come before the next frame.

let drawing = false;

app.draw = () => {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    if (app.picture === null || $("pictures").hidden) return;
    for (const each of [drawTiles, drawNow, drawMovers, drawHeat, drawLines, drawPeople, drawFan, drawOverview, drawAlerts, drawGrid, drawBudget, drawOdds]) each(app);
  });
};

function drawTiles() {
  const { users, scope } = app.picture;
  const { value, ends } = countTexts(users);
  say($("tile-users"), ends);
  say($("tile-users-more"), users.value === null ? (users.note ?? "not measured") : `95 % interval; the estimate is ${value}${scope ? `. ${scope}` : ""}`);
  tick();
}

/** What changes with every second. */
function tick() {
  const clock = app.info?.clock;
  if (!clock || app.picture === null) return;
  const old = (app.now() - Date.parse(clock.begins)) / 1000, next = (Date.parse(clock.seen) - app.now()) / 1000;
  say($("tile-age"), measuredAgo(app.picture.measured, app.now()));
  const ended = app.state.slot === null ? `Its slot ended ${age(old)} ago.` : `Slot ${count(app.state.slot)}.`;
  say($("tile-age-more"), `${ended} ${app.picture.freshness ?? "It was measured in its slot."}`);
  const words = next > 0 ? `the next in ${age(next)}` : "the next is on its way";
  $("live").title = app.live ? words : "";
}

// What is asked for.

const path = (rest = "") => `streams/${encodeURIComponent(app.state.stream)}${rest}`;

function span() {
  const { first, end, window } = app.state, newest = app.info?.newest ?? null;
  if (first !== null || end !== null) return { first, end };
  return { first: window && newest !== null ? newest - window + 1 : null, end: null };
}

const chosen = () => (app.state.values.length ? app.state.values : (app.picture?.rows ?? []).filter((row) => !row.other).slice(0, AUTOMATIC).map((row) => row.code));

const load = {
  async info() {
    app.info = await get(path());
  },
  async picture() {
    const { slot, values, search } = app.state;
    app.picture = await get(path("/picture"), { slot, k: 24, code: values, search });
  },
  async series() {
    const ordered = app.picture.domain.kind === "bins";
    const said = await get(path("/series"), { ...span(), columns: COLUMNS, k: ordered ? 48 : 24, code: chosen(), quantile: ordered ? QUANTILES : [] });
    app.series = new Series(said, { window: app.state.first === null && app.state.end === null ? app.state.window : 0, columns: 2 * COLUMNS });
  },
  async overview() {
    app.overview = new Series(await get(path("/series"), { columns: COLUMNS, k: 0, code: [0] }), { columns: 2 * COLUMNS });
  },
  async changes() {
    const { slot, back } = app.state, newest = slot ?? app.info.newest, beside = newest - back;
    app.changes = beside < app.info.first ? null : await get(path("/picture"), { slot: newest, beside, k: 10 }).catch(lacking);
  },
  async alerts() {
    const { first, end } = span();
    app.alerts = await get(path("/alerts"), { first, end });
  },
  async budget() {
    app.budget = await get(path("/budget"));
  },
  async grid() {
    const parts = Object.keys(app.picture.domain.parts), { one, two, slot } = app.state;
    const rows = parts.includes(one) ? one : parts[0], columns = parts.includes(two) && two !== rows ? two : parts.find((part) => part !== rows);
    app.grid = parts.length < 2 ? null : await get(path("/picture"), { slot, one: rows, other: columns });
  },
  async curator() {
    if (operator(app)) await drawCurator(app);
  },
  async streams() {
    if (app.names.length > 1) await loadStreams(app);
    drawStreams(app);
  },
};

/** What is not there is not drawn; anything else is said. */
function lacking(error) {
  if (error instanceof Refused && [404, 422].includes(error.status)) return null;
  throw error;
}

/** Ask for some of it, in order, and draw. */
app.load = async (...names) => {
  try {
    for (const name of names) await load[name]();
    hush();
    app.draw();
  } catch (error) {
    trouble(error);
  }
};

app.set = (patch, ...names) => {
  Object.assign(app.state, patch);
  history.replaceState(null, "", format(app.state));
  return app.load(...names);
};

app.pin = (code) => {
  const here = app.state.values, values = here.includes(code) ? here.filter((each) => each !== code) : [...here, code].slice(-8);
  return app.set({ values }, "picture", "series");
};

/** Look at the slot of an alert, with its value beside others. */
app.look = async (alert) => {
  await app.set({ slot: alert.slot === app.info.newest ? null : alert.slot }, "picture", "changes", "grid");
  const row = app.picture.rows.find((each) => each.name === alert.value);
  if (row && !app.state.values.includes(row.code)) await app.pin(row.code);
};

// What comes by itself.

let waiting = null, busy = false;

/** A release is seen: take up what is new, one look at a time; slots that come meanwhile are taken up together. */
async function seen(slot) {
  waiting = slot;
  if (busy) return;
  busy = true;
  try {
    while (waiting !== null) {
      waiting = null;
      await takeUp();
    }
  } catch (error) {
    trouble(error);
  } finally {
    busy = false;
  }
}

async function takeUp() {
  await load.info();
  if (app.picture === null) return start();
  const { slot, first, end } = app.state;
  if (slot === null) await Promise.all([load.picture(), load.changes(), load.grid()]);
  await Promise.all([load.budget(), load.alerts(), load.curator(), goOn("overview"), first === null && end === null ? goOn("series") : null]);
  app.badge.look();
  hush();
  beat();
  app.draw();
}

/** The newest columns of a series, or all of it where they do not fit. */
async function goOn(name) {
  const series = app[name];
  if (!series.whole) {
    const said = await get(path("/series"), { first: series.last + 1, step: 1, k: 0, code: series.codes });
    if (said.slots.length < 1000 && series.append(said)) return;
  }
  await load[name]();
}

function beat() {
  const dot = $("dot");
  dot.classList.remove("new");
  void dot.offsetWidth;
  dot.classList.add("new");
}

function follows() {
  app.following?.abort();
  app.following = new AbortController();
  follow(encodeURIComponent(app.state.stream), app.info.newest, {
    signal: app.following.signal,
    seen,
    live: (yes, error) => {
      app.live = yes;
      $("dot").classList.toggle("on", yes);
      say($("live-text"), yes ? "live" : "lost the service, trying again");
      if (error) trouble(error);
      if (yes && app.badge.standing?.state === "unknown") app.badge.look();
    },
  });
}

// How it begins.

async function start() {
  await load.info();
  say($("title"), app.state.stream);
  document.title = `${app.state.stream} · dpi`;
  $("pictures").hidden = app.info.newest === null;
  $("curator").hidden = !operator(app);
  await load.curator();
  if (app.info.newest === null) {
    trouble(new Error("No slot of this stream has been released yet. The first is drawn here when it is seen."));
    return;
  }
  await load.picture();
  const { kind, parts } = app.picture.domain;
  $("fan-card").hidden = kind !== "bins";
  $("grid-card").hidden = Object.keys(parts).length < 2;
  hush();
  tools.fill(app);
  app.draw();
  await Promise.all(["budget", "series", "overview", "changes", "grid", "alerts"].map(async (name) => {
    await load[name]();
    app.draw();
  }));
  tools.fill(app);
  document.body.dataset.ready = "";
}

app.open = async (stream) => {
  Object.assign(app, { picture: null, series: EMPTY, overview: EMPTY, changes: null, alerts: null, grid: null });
  app.state.stream = stream;
  history.replaceState(null, "", format(app.state));
  try {
    await start();
    follows();
    app.badge.look();
    drawStreams(app);
  } catch (error) {
    trouble(error);
  }
};

async function enter() {
  try {
    const { streams, role } = await get("streams"), names = streams.map((each) => each.name);
    app.role = role;
    if (role === "auditor") return auditor();
    if (!names.length) throw new Error("This service has no stream yet.");
    $("gate").hidden = true;
    for (const id of ["link", "leave"]) $(id).hidden = false;
    const select = $("stream");
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    select.hidden = $("stream-label").hidden = names.length < 2;
    app.names = names;
    const wanted = names.includes(app.state.stream) ? app.state.stream : names[0];
    select.value = wanted;
    await app.open(wanted);
    await glance();
  } catch (error) {
    trouble(error);
  }
}

let glancing = null;

/** All streams, again and again: the more there are, the less often. */
async function glance() {
  clearTimeout(glancing);
  if (!document.hidden && token.get()) await load.streams().catch(() => {}); // the line above says that the service is lost
  glancing = setTimeout(glance, Math.max(GLANCE, 1000 * app.names.length));
}

/** An auditor sees the chain, and what verifies it. */
function auditor() {
  $("gate").hidden = true;
  $("leave").hidden = false;
  trouble(new Error("An auditor's token opens the certificates: see the badge above. Releases are not for this role."));
  app.badge.look();
}

function trouble(error) {
  if (error instanceof Refused && error.status === 401) {
    const had = token.get() !== null;
    token.forget();
    app.following?.abort();
    $("pictures").hidden = true;
    $("gate").hidden = false;
    $("token").focus();
    if (!had) return hush();
  }
  const lost = error instanceof TypeError;
  if (lost && app.picture !== null) return; // the line above says that the service is lost
  $("notice").hidden = false;
  say($("notice"), lost ? "The service does not answer." : error.message);
}

function hush() {
  $("notice").hidden = true;
  say($("notice"), "");
}

app.choose = (stream) => {
  Object.assign(app.state, { slot: null, first: null, end: null, values: [], search: "", one: null, two: null });
  $("stream").value = stream;
  return app.open(stream);
};
app.files = { tableOfNow, pictureOfNow, tableOfMovers, tableOfAlerts, tableOfGrid, blob, path };
app.enter = enter;
listen(app);
const [brought, rest] = takeToken(location.hash);
if (brought) {
  token.set(brought);
  history.replaceState(null, "", rest || location.pathname);
}
app.state = parse(rest);
setInterval(tick, 1000);
if (token.get()) enter();
else {
  $("gate").hidden = false;
}
