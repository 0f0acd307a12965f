// Two parts of a product: a table whose cells are coloured, with each part by itself at the sides.

import { $, dark, el, say } from "./dom.js";
import { csv, download } from "./files.js";
import { percent, ramp, told } from "./numbers.js";

function coloured(cell, part) {
  const [r, g, b] = ramp(dark() ? "dark" : "light")[Math.round(255 * Math.min(1, Math.max(0, part)))];
  const linear = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  cell.style.backgroundColor = `rgb(${r} ${g} ${b})`;
  cell.style.color = light > 0.179 ? "#000" : "#fff";
  return cell;
}

export function drawGrid({ grid }) {
  if (grid === null) return;
  const { rows, columns, cells } = grid, end = Math.max(...cells.value.flat(), 1e-9);
  const sideEnd = Math.max(...rows.value, ...columns.value, 1e-9);
  const title = (text, of, ...at) => {
    const [value, lower, upper, note] = ["value", "lower", "upper", "note"].map((key) => at.reduce((list, i) => list?.[i], of[key]));
    return `${text}, ${told(`interval ${percent(lower)} … ${percent(upper)}`, value, note)}`;
  };
  $("grid").replaceChildren(
    el("table", { class: "grid" },
      el("caption", {}, `Shares of all users: ${rows.name} down, ${columns.name} across.`),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, rows.name), columns.labels.map((label) => el("th", { scope: "col" }, label)), el("th", { scope: "col" }, "all"))),
      el("tbody", {},
        rows.labels.map((label, i) => el("tr", {},
          el("th", { scope: "row" }, label),
          columns.labels.map((_, j) => coloured(el("td", { title: title(percent(cells.value[i][j]), cells, i, j) }, percent(cells.value[i][j])), cells.value[i][j] / end)),
          coloured(el("td", { class: "side", title: title(label, rows, i) }, percent(rows.value[i])), rows.value[i] / sideEnd))),
        el("tr", {}, el("th", { scope: "row" }, "all"), columns.value.map((v, j) => coloured(el("td", { class: "side", title: title(columns.labels[j], columns, j) }, percent(v)), v / sideEnd)), el("td", {}, "")))),
  );
  const summed = grid.summed.length ? ` Cells sum over ${grid.summed.join(" and ")}.` : "";
  say($("grid-note"), `${percent(grid.left_out)} of the users have a pair that is not drawn.${summed}`);
}

export function tableOfGrid({ grid, state }) {
  if (grid === null) return;
  const heads = ["slot", grid.rows.name, grid.columns.name, "share", "lower", "upper"];
  const rows = grid.rows.labels.flatMap((row, i) => grid.columns.labels.map((column, j) => [grid.slot, row, column, grid.cells.value[i][j], grid.cells.lower[i][j], grid.cells.upper[i][j]]));
  download(`${state.stream}-grid-${grid.slot}.csv`, csv(heads, rows));
}
