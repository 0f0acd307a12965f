// Alerts on a line of time, and in words.

import { prepare, timeAxis } from "./canvas.js";
import { $, el, styled } from "./dom.js";
import { csv, download } from "./files.js";
import { percent, when } from "./numbers.js";

const LISTED = 5;
const SIZES = { notable: 4, high: 6, extreme: 8 };

export function drawAlerts(app) {
  const { alerts, series } = app;
  const found = alerts?.alerts ?? [], to = prepare($("alert-line"), 74), { pen } = to;
  const box = { left: 12, top: 8, width: to.width - 24, height: 40 };
  pen.fillStyle = to.faint;
  pen.fillRect(box.left, box.top + box.height / 2 - 1, box.width, 2);
  if (series.length) {
    timeAxis(to, box, series.starts, series.slots);
    const first = series.slots[0], span = series.last - first + 1;
    for (const alert of found) {
      if (alert.slot < first || alert.slot > series.last) continue;
      const x = box.left + ((alert.slot - first + 0.5) / span) * box.width, rises = alert.share > alert.before ? -1 : 1;
      pen.fillStyle = styled(alert.severity === "notable" ? "--warn" : "--bad");
      pen.beginPath();
      pen.arc(x, box.top + box.height / 2 + 9 * rises, SIZES[alert.severity] ?? 4, 0, 7);
      pen.fill();
    }
  }
  const place = $("alert-list"), text = JSON.stringify(found.slice(-LISTED).map((each) => [each.slot, each.value]));
  if (place.dataset.said === text) return;
  place.dataset.said = text;
  place.replaceChildren(...(found.length ? found.slice(-LISTED).reverse().map((alert) => line(app, alert)) : [el("p", {}, "No alert.")]));
}

function line(app, alert) {
  return el(
    "button", { type: "button", class: "alert", onclick: () => app.look(alert) },
    el("span", { class: "what" }, el("strong", {}, alert.value), ` ${percent(alert.before, Math.max(alert.before, alert.share))} → ${percent(alert.share, Math.max(alert.before, alert.share))}`, el("br"), el("span", { class: "when" }, when(alert.start, alert.slot))),
    el("span", { class: `how ${alert.severity}` }, alert.severity),
  );
}

export function tableOfAlerts({ alerts, state }) {
  const heads = ["slot", "start", "value", "share", "before", "error", "rarity", "severity"];
  download(`${state.stream}-alerts.csv`, csv(heads, (alerts?.alerts ?? []).map((each) => heads.map((head) => each[head]))));
}
