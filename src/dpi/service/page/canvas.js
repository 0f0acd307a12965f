// Drawing on canvases: sharp on every screen, in the page's colours and letters.

import { dark, styled } from "./dom.js";
import { clock, ramp, runs } from "./numbers.js";

/** A canvas made as wide as its place and as high as said, and what is needed to draw on it. */
export function prepare(canvas, height) {
  const width = Math.max(220, Math.floor(canvas.parentElement.clientWidth));
  const sharp = Math.min(3, window.devicePixelRatio || 1);
  if (canvas.width !== Math.round(width * sharp) || canvas.height !== Math.round(height * sharp)) {
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(height * sharp);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(sharp, 0, 0, sharp, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = `12px ${styled("--font")}`;
  pen.textBaseline = "middle";
  pen.lineJoin = "round";
  return { pen, width, height, ink: styled("--ink"), soft: styled("--soft"), faint: styled("--line"), paper: styled("--card"), accent: styled("--accent") };
}

/** A text cut to a width. */
export function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && pen.measureText(`${text.slice(0, end)}…`).width > width) end--;
  return `${text.slice(0, end)}…`;
}

/** Times along the lower edge of a box, as many as have room. */
export function timeAxis({ pen, soft }, box, starts, slots) {
  if (!slots.length) return;
  const span = starts[0] && starts.at(-1) ? (Date.parse(starts.at(-1)) - Date.parse(starts[0])) / 1000 : 0;
  const label = (i) => (starts[i] ? clock(starts[i], span) : `slot ${slots[i]}`);
  const most = Math.max(1, Math.floor(box.width / 92));
  const every = Math.max(1, Math.ceil(slots.length / most));
  pen.fillStyle = soft;
  pen.textAlign = "center";
  for (let i = every >> 1; i < slots.length; i += every) {
    const x = box.left + ((i + 0.5) / slots.length) * box.width;
    pen.fillText(label(i), Math.min(Math.max(x, box.left + 24), box.left + box.width - 24), box.top + box.height + 13);
  }
}

/** Lines across a box at marks of an axis that begins with 0, and what they are. */
export function valueAxis({ pen, soft, faint }, box, marks, end, words) {
  pen.textAlign = "right";
  for (const mark of marks) {
    const y = Math.round(box.top + box.height - (mark / end) * box.height) + 0.5;
    pen.strokeStyle = faint;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(box.left, y);
    pen.lineTo(box.left + box.width, y);
    pen.stroke();
    pen.fillStyle = soft;
    pen.fillText(words(mark), box.left - 8, y);
  }
}

/** Mark the columns of a box that were measured by ticks below it, unless all of them were. */
export function marked({ pen, accent }, box, measured) {
  const seen = runs(measured);
  if (seen.every((run) => run.measured)) return;
  pen.fillStyle = accent;
  for (const { first, end } of seen.filter((run) => run.measured)) pen.fillRect(box.left + (first / measured.length) * box.width, box.top + box.height + 1, Math.max(1, ((end - first) / measured.length) * box.width), 4);
}

/** A band between two lines of numbers, then the line itself; grey where not measured, with dots where measured, left out where null.
 *  Where only the upper end is null, the band goes up to the end of the scale. */
export function band({ pen, soft }, box, end, { value, lower, upper }, colour, { fill = 0.16, width = 1.75, measured = [] } = {}) {
  const n = value.length;
  const x = (i) => box.left + ((i + 0.5) / n) * box.width;
  const y = (v) => box.top + box.height - (Math.min(Math.max(v ?? 0, 0), end) / end) * box.height;
  pen.save();
  pen.beginPath();
  pen.rect(box.left, box.top - 2, box.width, box.height + 4);
  pen.clip();
  // columns meet half-way between their middles: what is measured and what is not share that point, and no more
  const edge = (list, i) => {
    const one = list[Math.max(0, i - 1)], other = list[Math.min(n - 1, i)];
    return ((one ?? other) + (other ?? one)) / 2;
  };
  const along = (list, { first, end }) => [
    [first ? box.left + (first / n) * box.width : x(0), edge(list, first)],
    ...list.slice(first, end).map((v, i) => [x(first + i), v]),
    [end < n ? box.left + (end / n) * box.width : x(n - 1), edge(list, end)],
  ];
  const above = upper?.map((v, i) => (value[i] === null ? null : (v ?? end)));
  const trace = (points) => points.forEach(([at, v]) => pen.lineTo(at, y(v)));
  const stretches = runs(value.map((v, i) => (v === null ? null : (measured[i] ?? true)))).filter((run) => run.measured !== null);
  const whole = stretches.every((run) => run.measured);
  for (const run of lower ? stretches : []) {
    pen.beginPath();
    trace(along(above, run));
    trace(along(lower, run).reverse());
    pen.closePath();
    pen.globalAlpha = fill;
    pen.fillStyle = run.measured ? colour : soft;
    pen.fill();
    if (n === 1) pen.fillRect(x(0) - 3, y(upper[0]), 6, y(lower[0]) - y(above[0]));
    pen.globalAlpha = 1;
  }
  for (const run of width ? stretches : []) {
    pen.lineWidth = run.measured ? width : 0.75 * width;
    pen.strokeStyle = run.measured ? colour : soft;
    pen.beginPath();
    trace(along(value, run));
    pen.stroke();
  }
  pen.fillStyle = colour;
  const dotted = (i) => value[i] !== null && (n <= 2 || (width && !whole && measured[i]));
  for (let i = 0; i < n; i++) if (dotted(i)) pen.fillRect(x(i) - 2, y(value[i]) - 2, 4, 4);
  pen.restore();
}

const scratch = document.createElement("canvas");

/** Cells by row and column, each between 0 and 1, as colours in a box; one that is no number is left clear. */
export function cells({ pen }, box, rows, columns, at) {
  if (!rows || !columns) return;
  scratch.width = columns;
  scratch.height = rows;
  const inner = scratch.getContext("2d", { willReadFrequently: true });
  const image = inner.createImageData(columns, rows), colours = ramp(dark() ? "dark" : "light");
  for (let row = 0, place = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++, place += 4) {
      const part = at(row, column);
      if (Number.isNaN(part)) continue;
      const [r, g, b] = colours[Math.round(255 * part)];
      image.data[place] = r;
      image.data[place + 1] = g;
      image.data[place + 2] = b;
      image.data[place + 3] = 255;
    }
  }
  inner.putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(scratch, box.left, box.top, box.width, box.height);
}

/** A picture as a file, on the page's paper, with a line that says what it is. */
export function pictureOf(canvas, title) {
  const sharp = Math.min(3, window.devicePixelRatio || 1), margin = 16 * sharp, head = 34 * sharp;
  const made = document.createElement("canvas");
  made.width = canvas.width + 2 * margin;
  made.height = canvas.height + head + margin;
  const pen = made.getContext("2d");
  pen.fillStyle = styled("--card");
  pen.fillRect(0, 0, made.width, made.height);
  pen.fillStyle = styled("--ink");
  pen.font = `600 ${13 * sharp}px ${styled("--font")}`;
  pen.textBaseline = "middle";
  pen.fillText(title, margin, head / 2 + 2 * sharp);
  pen.drawImage(canvas, margin, head);
  return new Promise((done) => made.toBlob(done, "image/png"));
}
