// Budgets by class, computed again in exact units: what each share of what is left costs, and what a user can have spent.

const STEPS = 1n << 12n, GRAINS = 1n << 24n;
const largest = (...amounts) => amounts.reduce((a, b) => (b > a ? b : a));
const mostLeft = (left, part, price) => left - largest(0n, part - (price + GRAINS - 1n) / GRAINS);

/** Whether a slot can ask these classes: groups 0, 1, … by their lowest class, classes of each from low to high. */
function canAsk(classes, top) {
  const first = [-1];
  let last = { class: -1, group: -1 };
  for (const { class: m, group, share_steps: steps } of classes) {
    if (![m, group, steps].every(Number.isSafeInteger) || m > top || steps < 1 || steps > STEPS) return false;
    if (group === last.group ? m <= last.class : group !== last.group + 1 || m <= first.at(-1)) return false;
    if (group !== last.group) first.push(m);
    last = { class: m, group };
  }
  return first[1] === 0 && new Set(classes.map((each) => each.class)).size === classes.length;
}

/** What can be said of the accounts of a class: L_m and S_m of docs/privacy.md. */
export class Bounds {
  left = [0n];
  spent = [0n];
  held = 0n;
  past = 0n;

  /** The most that one user can have spent after a slot; null if its classes are not what follows from their shares. */
  draw({ slot, classes, epsilon_units: price }, held, top, period) {
    const epoch = period === null ? 0 : Math.floor(slot / period), more = BigInt(held) - this.held;
    if (!canAsk(classes, top)) return null;
    if (this.epoch !== undefined && epoch !== this.epoch) [this.past, this.spent] = [this.past + largest(...this.spent), [0n]];
    [this.epoch, this.held, this.left] = [epoch, BigInt(held), this.left.map((left) => left + more)];
    const { left } = this, spent = [...this.spent, 0n], due = [], paid = {};
    for (let m = 0; m <= Math.max(...classes.map((each) => each.class)); m++) {
      const next = Math.min(m + 1, top), each = classes.find((one) => one.class === m);
      if (next === left.length) left.push(each ? 0n : left[m]);
      if (!each) continue;
      const share = BigInt(each.share_steps), part = (left[m] * share) / STEPS, units = largest(1n, part);
      if (BigInt(each.most_left_units) !== left[m] || BigInt(each.epsilon_units) !== units) return null;
      due.push([next, left[m], part, each.group]);
      paid[each.group] = largest(paid[each.group] ?? 0n, units);
      left[next] = largest(left[next], mostLeft(left[m], part, units));
      if (m < this.spent.length) spent[next] = largest(spent[next], this.spent[m] + ((this.held - this.spent[m]) * share) / STEPS);
    }
    for (const [next, before, part, group] of due) left[next] = largest(left[next], mostLeft(before, part, paid[group]));
    const reached = this.spent.length + (classes.some((each) => each.class === this.spent.length - 1) ? 1 : 0);
    this.spent = spent.slice(0, Math.min(reached, top + 1));
    return BigInt(price) === largest(...Object.values(paid)) ? Number(this.past + largest(...this.spent)) : null;
  }
}
