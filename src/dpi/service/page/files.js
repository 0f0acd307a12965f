// What can be taken away: tables as CSV, pictures as PNG, releases as Parquet, and the Python that asks for the same.

import { el } from "./dom.js";

/** A table as CSV (RFC 4180); a text that a spreadsheet would take for a formula is marked as text. */
export function csv(heads, rows) {
  const cell = (value) => {
    if (typeof value === "number") return String(value);
    let text = value === null || value === undefined ? "" : String(value);
    if (/^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [heads, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** Hand a file to the reader. */
export function download(name, content, type = "text/csv;charset=utf-8") {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const quoted = (text) => JSON.stringify(String(text)).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

const BODIES = {
  now: ({ slot, codes }) => [
    slot === null ? "release = stream.newest" : `release = stream[${slot}]`,
    "lower, upper = release.interval(0.95)",
    `for code in ${codes.length ? `[${codes.join(", ")}]` : "(-release.pdf).argsort()[:10]"}:`,
    "    print(release.domain.label(int(code)), release.pdf[code], lower[code], upper[code])",
  ],
  series: ({ first, end, step, codes }) => [
    `for release in stream[${first}:${end}]:`,
    ...(step > 1 ? [`    if release.slot % ${step}:`, "        continue"] : []),
    "    lower, upper = release.interval(0.95)",
    `    for code in [${codes.join(", ")}]:`,
    "        print(release.slot, release.domain.label(code), release.pdf[code], lower[code], upper[code])",
  ],
  changes: ({ slot, beside }) => [
    `new, old = stream[${slot}], stream[${beside}]`,
    "(low, high), (low_before, high_before) = new.interval(0.975), old.interval(0.975)",
    "for code, change in enumerate(new.pdf - old.pdf):",
    "    if low[code] > high_before[code] or high[code] < low_before[code]:",
    "        print(new.domain.label(code), change)",
  ],
  users: ({ first, end, step }) => [
    `for release in stream[${first}:${end}]:`,
    ...(step > 1 ? [`    if release.slot % ${step}:`, "        continue"] : []),
    "    print(release.slot, release.total, release.count().interval(0.95))",
  ],
  people: ({ first, end, step }) => [
    `for release in stream[${first}:${end}]:`,
    ...(step > 1 ? [`    if release.slot % ${step}:`, "        continue"] : []),
    "    print(release.slot, release.newcomers(), release.returning(), release.reach(), release.retention(7))",
  ],
  alerts: ({ first, end }) => [
    "from dpi.apps import Watch",
    `for release, alerts in Watch().over(stream[${first}:${end}]):`,
    "    for alert in alerts:",
    "        print(alert.slot, alert.value, alert.before, alert.share, alert.severity)",
  ],
  grid: ({ slot, one, other }) => [
    "from dpi.release.grid import grid",
    `found = grid(stream[${slot}], ${quoted(one)}, ${quoted(other)})`,
    "print(found.rows.labels, found.columns.labels)",
    "print(found.cells.value)",
  ],
  quantiles: ({ first, end, step, quantiles }) => [
    `for release in stream[${first}:${end}]:`,
    ...(step > 1 ? [`    if release.slot % ${step}:`, "        continue"] : []),
    `    print(release.slot, [release.quantile(q).interval(0.95) for q in [${quantiles.join(", ")}]])`,
  ],
  chain: () => ["found = service.verify()", "print(found.intact, found.problems)"],
};

/** Python that asks the same of the same service. The token is read from the environment: it is in no text. */
export function python(view, { origin, stream, ...said }) {
  const body = BODIES[view](said);
  const imports = body.filter((line) => line.startsWith("from "));
  const rest = body.filter((line) => !line.startsWith("from "));
  return [
    "import os", "", "import dpi", ...imports, "",
    `with dpi.connect(${quoted(origin)}, os.environ["DPI_TOKEN"]) as service:`,
    ...(view === "chain" ? [] : [`    stream = service.stream(${quoted(stream)})`]),
    ...rest.map((line) => `    ${line}`), "",
  ].join("\n");
}

/** Put a text where it can be pasted; false where the browser does not let a page do so. */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
