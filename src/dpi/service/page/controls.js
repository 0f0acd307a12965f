// Buttons, sliders and fields: each changes what is looked at, and says what must be asked for again.

import { token } from "./api.js";
import { pictureOf } from "./canvas.js";
import { $, el, say } from "./dom.js";
import { copied, csv, download, python } from "./files.js";
import { peopleOf } from "./people.js";
import { drawOdds } from "./privacy.js";
import { parse } from "./state.js";
import { drawTable, heatAt, overviewAt } from "./time.js";

const BACKS = [1, 6, 24, 168];
const THEMES = { light: "Light", dark: "Dark" };

const soon = (() => {
  const waits = new Map();
  return (name, what, pause = 150) => {
    clearTimeout(waits.get(name));
    waits.set(name, setTimeout(what, pause));
  };
})();

export function listen(app) {
  $("gate-form").addEventListener("submit", (event) => {
    event.preventDefault();
    token.set($("token").value.trim());
    $("token").value = "";
    app.enter();
  });
  $("leave").addEventListener("click", () => {
    token.forget();
    app.badge.stop();
    location.replace(location.pathname);
    location.reload();
  });
  $("stream").addEventListener("change", () => app.choose($("stream").value));
  $("search").addEventListener("input", () => soon("search", () => app.set({ search: $("search").value }, "picture")));
  $("back").replaceChildren(...BACKS.map((back) => new Option(back === 1 ? "the slot before" : `${back} slots before`, back)));
  $("back").addEventListener("change", () => app.set({ back: Number($("back").value) }, "changes"));
  for (const radio of document.querySelectorAll('input[name="scale"]')) radio.addEventListener("change", () => app.set({ scale: radio.value }));
  $("other").addEventListener("change", () => app.set({ other: $("other").checked }));
  $("window").addEventListener("change", () => app.set({ window: Number($("window").value), first: null, end: null }, "series", "alerts"));
  $("slot").addEventListener("input", () => {
    const at = Number($("slot").value);
    soon("slot", () => app.set({ slot: at >= app.series.length - 1 && app.state.end === null ? null : app.series.slots[at] }, "picture", "changes", "grid"), 60);
  });
  $("newest").addEventListener("click", () => app.set({ slot: null }, "picture", "changes", "grid"));
  for (const [id, name] of [["one", "one"], ["two", "two"]]) $(id).addEventListener("change", () => app.set({ [name]: $(id).value }, "grid"));
  $("heat-table").closest("details").addEventListener("toggle", () => drawTable(app));
  $("prior").addEventListener("input", () => drawOdds(app));
  addEventListener("resize", () => soon("resize", app.draw, 80));
  addEventListener("beforeprint", app.draw);
  addEventListener("hashchange", () => {
    const { stream, ...state } = parse(location.hash), other = stream !== null && stream !== app.state.stream;
    Object.assign(app.state, state);
    if (other) app.open(stream);
    else app.load("picture", "series", "changes", "alerts", "grid");
    controls(app);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { theme(app); });
  brush(app);
  pointer(app);
  link();
  theme(app, localStorage.getItem("dpi theme"));
  $("theme").addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    localStorage.setItem("dpi theme", next);
    theme(app, next);
  });
  $("code-close").addEventListener("click", () => $("code-dialog").close());
  $("code-copy").addEventListener("click", async () => say($("code-said"), (await copied($("code").textContent)) ? "Copied." : "Select the text to copy it."));
}

const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function theme(app, chosen) {
  if (chosen in THEMES) document.documentElement.dataset.theme = chosen;
  say($("theme"), isDark() ? "Light" : "Dark");
  $("theme").setAttribute("aria-label", `Change to ${isDark() ? "light" : "dark"}`);
  app.draw?.();
}

function link() {
  $("link").addEventListener("click", async () => {
    say($("link"), (await copied(location.href)) ? "Copied" : "Copy it from the address");
    setTimeout(() => say($("link"), "Copy link"), 1500);
  });
}

/** Drag across the picture of all slots, or move its ends. */
function brush(app) {
  const canvas = $("overview"), slotAt = (event) => overviewAt(app, event.clientX - canvas.getBoundingClientRect().left);
  let from = null;
  const choose = (first, last) => app.set({ first: Math.min(first, last), end: Math.max(first, last) + 1 }, "series", "alerts");
  canvas.addEventListener("pointerdown", (event) => {
    from = slotAt(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const to = from === null ? null : slotAt(event);
    if (to !== null && to !== from) soon("brush", () => choose(from ?? to, to), 60);
  });
  canvas.addEventListener("pointerup", () => setTimeout(() => (from = null), 80));
  const ends = () => {
    const [first, last] = [Number($("from").value), Number($("to").value)];
    soon("ends", () => choose(first, last), 80);
  };
  $("from").addEventListener("input", ends);
  $("to").addEventListener("input", ends);
  $("whole").addEventListener("click", () => app.set({ first: null, end: null }, "series", "alerts"));
}

/** What is under the pointer on the heat map, in words; a click looks at that slot. */
function pointer(app) {
  const canvas = $("heat"), tip = $("tip"), cross = $("heat-cross");
  const found = (event) => {
    const place = canvas.getBoundingClientRect();
    return heatAt(app, event.clientX - place.left, event.clientY - place.top);
  };
  canvas.addEventListener("pointermove", (event) => {
    const here = found(event);
    tip.hidden = cross.hidden = here === null;
    if (here === null) return;
    say(tip, here.text);
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    tip.style.transform = `translate(${left}px, ${event.clientY + 16}px)`;
    tip.style.left = tip.style.top = "0";
    cross.style.left = `${here.left}px`;
    cross.style.top = `${here.top}px`;
    cross.style.height = `${here.height}px`;
  });
  canvas.addEventListener("pointerleave", () => (tip.hidden = cross.hidden = true));
  canvas.addEventListener("click", (event) => {
    const here = found(event);
    if (here !== null) app.set({ slot: here.slot === app.info.newest ? null : here.slot }, "picture", "changes", "grid");
  });
}

/** Fields show what is looked at. */
function controls(app) {
  const { state, picture } = app;
  for (const radio of document.querySelectorAll('input[name="scale"]')) radio.checked = radio.value === state.scale;
  $("other").checked = state.other;
  $("other-label").hidden = !(app.series.other ?? []).some((share) => share > 0);
  $("search").value = state.search;
  $("window").value = String(state.window);
  $("back").value = String(state.back);
  const parts = Object.keys(picture?.domain.parts ?? {});
  for (const [id, name, place] of [["one", state.one, 0], ["two", state.two, 1]]) {
    $(id).replaceChildren(...parts.map((part) => new Option(part, part)));
    $(id).value = name ?? parts[place] ?? "";
  }
}

/** What each picture can be taken away as. */
export const tools = {
  fill(app) {
    controls(app);
    const { tableOfNow, pictureOfNow, tableOfMovers, tableOfAlerts, tableOfGrid, blob, path } = app.files;
    const bounds = () => ({ first: app.series.slots[0], end: app.series.last + 1, step: app.series.step });
    const png = (id, title) => async () => download(`${app.state.stream}-${id}.png`, await pictureOf($(id), `${app.state.stream}: ${title}`));
    const columns = (rows, keys) => rows.flatMap((row) => row.value.map((_, i) => [app.series.slots[i], app.series.starts[i], row.code ?? "", row.label, ...keys.map((key) => row[key][i])]));
    const heat = () => download(`${app.state.stream}-time.csv`, csv(["slot", "start", "code", "value", "share"], columns(app.series.rows, ["value"])));
    const lines = () => download(`${app.state.stream}-compared.csv`, csv(["slot", "start", "code", "value", "share", "lower", "upper"], columns(app.series.chosen, ["value", "lower", "upper"])));
    const fans = () => download(`${app.state.stream}-quantiles.csv`, csv(["slot", "start", "quantile", "value", "lower", "upper"], app.series.quantiles.flatMap((fan) => fan.value.map((v, i) => [app.series.slots[i], app.series.starts[i], fan.q, v, fan.lower[i], fan.upper[i]]))));
    const users = () => download(`${app.state.stream}-users.csv`, csv(["slot", "start", "users", "lower", "upper"], app.overview.slots.map((slot, i) => [slot, app.overview.starts[i], ...["value", "lower", "upper"].map((key) => app.overview.users[key][i])])));
    const people = () => {
      const found = peopleOf(app.series), names = Object.keys(found);
      const heads = names.flatMap((name) => [name, `lower_${name}`, `upper_${name}`]);
      download(`${app.state.stream}-people.csv`, csv(["slot", "start", ...heads], app.series.slots.map((slot, i) => [slot, app.series.starts[i], ...names.flatMap((name) => ["value", "lower", "upper"].map((key) => found[name][key][i]))])));
    };
    const parquet = async () => download(`${app.state.stream}.parquet`, await blob(path("/releases"), { first: app.series.slots[0], end: app.series.last + 1 }, "application/vnd.apache.parquet"));
    const code = (view, said) => () => show(python(view, { origin: location.origin, stream: app.state.stream, ...said() }));
    const places = {
      now: [["CSV", () => tableOfNow(app)], ["PNG", async () => download(`${app.state.stream}-${app.picture.slot}.png`, await pictureOfNow(app))], ["Python", code("now", () => ({ slot: app.state.slot, codes: app.state.values }))]],
      changes: [["CSV", () => tableOfMovers(app)], ["Python", code("changes", () => ({ slot: app.changes?.slot ?? app.picture.slot, beside: app.changes?.beside ?? app.picture.slot }))]],
      time: [["CSV", heat], ["PNG", png("heat", "shares over time")], ["Parquet", parquet], ["Python", code("series", () => ({ ...bounds(), codes: app.series.rows.map((row) => row.code).filter((each) => each !== null) }))]],
      compare: [["CSV", lines], ["PNG", png("lines", "compared")], ["Python", code("series", () => ({ ...bounds(), codes: app.series.chosen.map((row) => row.code) }))]],
      people: [["CSV", people], ["PNG", png("people-reach", "users who ever came")], ["Python", code("people", bounds)]],
      fan: [["CSV", fans], ["PNG", png("fan", "quantiles")], ["Python", code("quantiles", () => ({ ...bounds(), quantiles: app.series.quantiles.map((fan) => fan.q) }))]],
      grid: [["CSV", () => tableOfGrid(app)], ["Python", code("grid", () => ({ slot: app.grid.slot, one: app.grid.rows.name, other: app.grid.columns.name }))]],
      users: [["CSV", users], ["PNG", png("overview", "users")], ["Python", code("users", () => ({ first: app.overview.slots[0], end: app.overview.last + 1, step: app.overview.step }))]],
      alerts: [["CSV", () => tableOfAlerts(app)], ["Python", code("alerts", bounds)]],
      chain: [["Python", code("chain", () => ({}))]],
    };
    for (const [name, buttons] of Object.entries(places)) {
      const what = document.querySelector(`#${name}-title`).textContent;
      $(`${name}-take`).replaceChildren(...buttons.map(([word, act]) => el("button", { type: "button", onclick: act, "aria-label": `${what} as ${word}` }, word)));
    }
  },
};

function show(text) {
  $("chain-dialog").close();
  say($("code"), text);
  say($("code-said"), "");
  $("code-dialog").showModal();
}
