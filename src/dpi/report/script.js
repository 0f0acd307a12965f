// Tooltips, the choice of a slot, and the theme. The page is complete without any of it.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const RADIX = 1001; // as in figures.py: a cell is ((d·R + share)·R + lower)·R + upper in six digits
  const newest = data.columns.length - 1;
  const slider = document.getElementById("slot");
  const when = document.getElementById("when");
  const rest = document.getElementById("rest");
  const plots = [...document.querySelectorAll(".plot")];

  function make(name, className, text = "") {
    const made = document.createElement(name);
    made.className = className;
    made.textContent = text;
    return made;
  }

  // Why there is no share: as `note` of quality.py says it.
  function reason(code) {
    if (code === 0) return "no such value";
    if (code === 20000) return "not shown: too few users";
    const points = (code - 1) / 100;
    return `not shown: ± ${points.toFixed(points >= 10 ? 0 : 1)} points`;
  }

  function cell(row, column) {
    let number = 0;
    for (const digit of data.cells[row].slice(6 * column, 6 * column + 6)) number = 64 * number + DIGITS.indexOf(digit);
    const upper = number % RADIX;
    number = Math.floor(number / RADIX);
    const lower = number % RADIX;
    number = Math.floor(number / RADIX);
    const share = number % RADIX;
    let decimals = Math.floor(number / RADIX);
    if (decimals === 0) return { text: reason(upper + RADIX * (lower + RADIX * share)), share: 0, lower: 0, upper: 0 };
    const week = decimals > 10 ? " of a week" : "";
    if (week) decimals -= 10;
    const text = (whole) => (whole / 10 ** decimals).toFixed(decimals);
    const part = (whole) => whole / 10 ** (decimals + 2);
    return {
      text: `${text(share)} % (${text(lower)} … ${text(upper)})${week}`,
      share: part(share),
      lower: part(lower),
      upper: part(upper),
    };
  }

  // A share with its interval, which is the bold part.
  function told(text) {
    const found = /^(.* \()(.*)(\).*)$/.exec(text);
    return found ? [found[1], make("strong", "", found[2]), found[3]] : [text];
  }

  // The bars of one column, largest first, or in the order of the map where that is fixed.
  function bars(column) {
    const rows = [...document.getElementById("bars").rows];
    const width = (share) => `${Math.min(100, (100 * share) / data.scale)}%`;
    const order = Array.from({ length: data.named }, (_, row) => ({ label: data.labels[row], ...cell(row, column) }));
    if (!data.fixed) order.sort((a, b) => b.share - a.share);
    rows.forEach((row, place) => {
      const { label, text, share, lower, upper } = order[place];
      const [head, drawn, number] = row.cells;
      head.textContent = head.title = label;
      number.replaceChildren(...told(text));
      drawn.querySelector(".bar").hidden = upper === 0;
      drawn.querySelector(".bar").style.width = width(share);
      drawn.querySelector(".interval").hidden = upper === 0;
      drawn.querySelector(".interval").style.left = width(lower);
      drawn.querySelector(".interval").style.width = width(upper - lower);
    });
    if (rest) rest.textContent = cell(data.named, column).text;
  }

  function choose(column) {
    slider.value = column;
    slider.setAttribute("aria-valuetext", data.columns[column]);
    when.textContent = column === newest ? "Newest slot: " : "Slot: ";
    when.append(make("strong", "", data.columns[column]));
    const at = column === newest ? "" : `${(100 * (column + 0.5)) / data.columns.length}%`;
    document.documentElement.style.setProperty("--at", at || "-9px");
    bars(column);
  }

  const tip = make("div", "");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);

  function columnAt(plot, event) {
    const box = plot.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * data.columns.length);
    return Math.max(0, Math.min(newest, column));
  }

  function show(plot, event) {
    const column = columnAt(plot, event);
    const row = plot.dataset.row;
    const [head, text] =
      row === undefined
        ? ["", data.texts[plot.dataset.text][column]]
        : [data.labels[row], cell(Number(row), column).text];
    tip.replaceChildren(...(head ? [make("strong", "", head)] : []), make("span", "", text));
    tip.append(make("span", "soft", data.columns[column]));
    if (!data.measured[column] && plot.classList.contains("estimated")) tip.append(make("span", "soft", "not measured, carried on"));
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = event.clientX + 14 + width > innerWidth ? event.clientX - 14 - width : event.clientX + 14;
    const top = event.clientY + 14 + height > innerHeight ? event.clientY - 14 - height : event.clientY + 14;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  }

  for (const plot of plots) {
    plot.append(make("i", "mark"));
    plot.addEventListener("pointermove", (event) => show(plot, event));
    plot.addEventListener("pointerleave", () => (tip.hidden = true));
    plot.addEventListener("click", (event) => choose(columnAt(plot, event)));
  }
  addEventListener("keydown", (event) => event.key === "Escape" && (tip.hidden = true));

  slider.closest(".chooser").hidden = newest === 0;
  slider.addEventListener("input", () => choose(Number(slider.value)));
  slider.setAttribute("aria-valuetext", data.columns[newest]);

  const theme = document.getElementById("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
  });
})();
