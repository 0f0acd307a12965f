// What is looked at, as text in the address after `#`: a link to it shows the same. No token is ever part of it.

export const WINDOW = 240;
const SCALES = ["share", "log", "rest"];

export const START = Object.freeze({
  stream: null, slot: null, first: null, end: null, window: WINDOW, values: [], scale: "share", other: false, search: "",
  back: 1, one: null, two: null,
});

const whole = (text) => (/^-?\d{1,16}$/.test(text ?? "") ? Number(text) : null);

/** The state that a text after `#` says; whatever it does not say, or says wrongly, is as at the start. */
export function parse(hash) {
  const said = new URLSearchParams(hash.replace(/^#/, ""));
  const window = whole(said.get("window"));
  return {
    ...START,
    stream: said.get("stream") || null,
    slot: whole(said.get("slot")),
    first: whole(said.get("first")),
    end: whole(said.get("end")),
    window: window !== null && window >= 0 ? window : WINDOW,
    values: [...new Set((said.get("values") ?? "").split(".").map(whole).filter((code) => code !== null && code >= 0))].slice(0, 8),
    scale: SCALES.includes(said.get("scale")) ? said.get("scale") : "share",
    other: said.get("other") === "shown",
    search: said.get("search") ?? "",
    back: Math.max(1, whole(said.get("back")) ?? 1),
    one: said.get("one"),
    two: said.get("two"),
  };
}

/** The text of a state: what differs from the start. */
export function format(state) {
  const said = new URLSearchParams();
  for (const name of ["stream", "slot", "first", "end", "window", "scale", "search", "back", "one", "two"]) {
    if (state[name] !== START[name] && state[name] !== null) said.set(name, state[name]);
  }
  if (state.values.length) said.set("values", state.values.join("."));
  if (state.other) said.set("other", "shown");
  return `#${said}`;
}

/** The token that an address brings after `#token=`, and the rest of it. */
export function takeToken(hash) {
  const said = new URLSearchParams(hash.replace(/^#/, ""));
  const token = said.get("token");
  said.delete("token");
  return [token, said.size ? `#${said}` : ""];
}
