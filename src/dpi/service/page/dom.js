// Elements, made without markup in texts: whatever a stream's values are called, they are words and never code.

/** An element with attributes (`on…` are listeners, `data`/`class` as they are) and children. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export const $ = (id) => document.getElementById(id);

/** Replace text only where it is another: screen readers speak of changes. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A table with a caption, a row of heads and rows; the first cell of a row is its head. */
export function table(caption, heads, rows) {
  return el(
    "table", { class: "plain" },
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, rows.map(([first, ...rest]) => el("tr", {}, el("th", { scope: "row" }, first), rest.map((cell) => el("td", {}, cell))))),
  );
}

/** A colour or length of the stylesheet. */
export const styled = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export const dark = () => styled("--scheme") === "dark";

/** The colours of chosen values, in their order. */
export const colours = () => Array.from({ length: 8 }, (_, i) => styled(`--line-${i + 1}`));
