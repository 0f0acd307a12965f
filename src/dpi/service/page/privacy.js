// The promise, the budget and what they mean for one person, in words and pictures.

import { prepare } from "./canvas.js";
import { $, el, say, styled, table } from "./dom.js";
import { budget as amount, clock, count, percent, posterior, slotsLeft } from "./numbers.js";

export function drawBudget({ budget }) {
  if (budget === null) return;
  const part = Math.min(1, budget.spent_at_most / budget.holds), left = slotsLeft(budget);
  say($("tile-budget"), `ε\u00a0≤\u00a0${amount(budget.spent_at_most)}`);
  const lasts = left === null ? "It never runs out: later payments become smaller" : left === 0 ? "A user of all slots has none left; newcomers have all of it" : left === 1 ? "A user of all slots can pay one more slot" : `A user of all slots can pay ${count(left)} more slots`;
  const together = budget.streams === 1 ? "" : ` All ${budget.streams} streams together: ε\u00a0≤\u00a0${amount(budget.spent_by_store)}.`;
  say($("tile-budget-more"), `By this stream, of its budget of ${amount(budget.holds)} ${budget.per}. ${lasts}.${together}`);
  $("meter").parentElement.hidden = left === null; // a full bar would look as if there were an end
  $("meter").style.width = `${100 * part}%`;
  const words = budget.sentences.filter((each) => !each.startsWith("The next slots cost")); // the table has them
  if (left === 0) words.push("A user who was active in every slot has no budget left, and is counted in part or not at all. Newcomers have all of it.");
  else if (left !== null) words.push(`A user who was active in every slot can still pay ${left === 1 ? "one slot" : `${count(left)} slots`} in full. Newcomers have all of it.`);
  const text = words.join("\n");
  if ($("budget-words").dataset.said !== text) {
    $("budget-words").dataset.said = text;
    $("budget-words").replaceChildren(...words.map((each) => el("li", {}, each)));
    $("budget-next").replaceChildren(
      table("The largest payment of one user in each slot, and half of the 95 % interval of one value’s count, from the users who pay most.", ["Slot", "Begins", "Largest payment", "± users"],
        budget.next_slots.map((slot) => [count(slot.slot), clock(slot.begins) || "–", slot.cost === null ? "not known yet" : amount(slot.cost), slot.error_users === null ? "–" : slot.error_users.toFixed(1)])),
    );
  }
  say($("promise-words"), budget.guarantee);
}

export function drawOdds({ budget }) {
  if (budget === null) return;
  const prior = Number($("prior").value) / 100, was = posterior(prior, budget.epsilon), did = posterior(prior, 2 * budget.epsilon);
  const said = `${Math.round(100 * prior)}\u00a0%`;
  say($("prior-text"), said);
  $("prior").setAttribute("aria-valuetext", said);
  const to = prepare($("odds"), 76), { pen } = to, left = 10, width = to.width - 20, x = (p) => left + p * width;
  for (const [top, [least, most]] of [[18, was], [38, did]]) {
    pen.fillStyle = to.faint;
    pen.fillRect(left, top, width, 12);
    pen.fillStyle = styled("--bar");
    pen.fillRect(x(least), top, x(most) - x(least), 12);
  }
  pen.fillStyle = to.ink;
  pen.fillRect(x(prior) - 1, 14, 2, 40);
  pen.fillStyle = to.soft;
  for (const [p, align] of [[0, "left"], [0.5, "center"], [1, "right"]]) {
    pen.textAlign = align;
    pen.fillText(`${100 * p} %`, x(p), 66);
  }
  const per = budget.per === "for ever" ? "all releases, for ever" : `all releases ${budget.per}`, ends = ([least, most]) => `${percent(least)} at least and ${percent(most)} at most`;
  say($("odds-words"), `After ${per}, whatever else the reader knows: that I was ever here, with ${ends(was)} (upper bar); that I did A instead of B here, with ${ends(did)} (lower bar).`);
}
