// What entries say of each stream, one after the other, and what is wrong with one beside those before: order of slots,
// options, quotas, and sums of ε in exact units. After slots by class were lost, what they can have cost is not computed
// again here: `dpi verify` does that.

import { blake2b } from "../../src/dpi/service/page/blake2b.js";
import { Float, PARTS } from "./canonical.mjs";
import { Bounds } from "./classes.mjs";

const FIELDS = "accumulate budget compression domain end epsilon_units format ledger mechanism name slots start";
const UNITS = 2 ** 40;
const whole = Number.isSafeInteger;
const isObject = (x) => x !== null && typeof x === "object" && !Array.isArray(x) && !(x instanceof Float);

/** Whether an amount for people is the exact one beside it. */
function agrees(entry, name) {
  const units = entry[`${name}_units`], shown = entry[name];
  return whole(units) && shown instanceof Float && shown.value === units / UNITS;
}

/** The units that a stream's accounts hold at first. */
function held({ budget, epsilon_units: epsilon }) {
  if (typeof budget.quota === "string") {
    const [, up, down = "1", places] = /^(\d+)(?:\/(\d+)|\.(\d+))?$/.exec(budget.quota) ?? [];
    const [over, under] = places === undefined ? [up, down] : [up + places, `1${"0".repeat(places.length)}`];
    return Number((BigInt(epsilon) * BigInt(over)) / BigInt(under));
  }
  return budget.rest ?? epsilon;
}

/** What no change of options may touch. */
const promise = ({ epsilon_units: units, ledger, budget, name, ids }) =>
  JSON.stringify([units, ledger, budget.period ?? null, budget.quota == null ? ledger : `quota ${name}`, budget.rest ?? null, ids ?? null]);

/** Goes through what entries state. */
export class Statements {
  streams = new Map();

  /** What is wrong with an entry; null if nothing is. */
  wrong(entry) {
    if (entry.format !== 1) return whole(entry.format) && entry.format > 1 ? "of a newer program" : "of no known format";
    if (entry.kind === "options" && typeof entry.stream === "string") return this.declared(entry);
    if (entry.kind === "release" && typeof entry.stream === "string" && whole(entry.slot)) return this.release(entry);
    if (entry.kind === "restored") return this.restored(entry);
    return "of no known kind";
  }

  declared({ stream, options, from = -Infinity, [PARTS]: parts }) {
    if (!isObject(options) || Object.keys(options).filter((name) => name !== "ids").join(" ") !== FIELDS || options.format !== 1) return "options that are none";
    if ("ids" in options && options.ids !== "nfc-strip") return "options of a newer program";
    if (!isObject(options.budget) || !whole(options.epsilon_units) || options.name !== stream) return "options that are none";
    if (from !== -Infinity && !whole(from)) return "a first slot that is none";
    const now = { from, options, digest: blake2b(new TextEncoder().encode(parts.options), "dpi options") };
    const known = this.streams.get(stream), newest = known?.schedule.at(-1).options;
    const quota = this.quota(options, newest);
    if (quota !== null) return quota;
    if (known === undefined) {
      this.streams.set(stream, { schedule: [now], units: 0 });
      return null;
    }
    if (from !== -Infinity && from <= (known.last ?? -Infinity)) return "changes options of slots that were released";
    if (newest.end !== null) return "changes a stream that was stopped";
    if (promise(newest) !== promise(options)) return "changes the promise";
    known.schedule = [...known.schedule.filter((each) => each.from < from), now];
    return null;
  }

  /** What is wrong with a quota, or with what a stream without one found in none. */
  quota(now, newest) {
    const pool = [...this.streams.values()].map(({ schedule, units }) => ({ ...schedule.at(-1).options, units }))
      .filter((each) => now.ledger !== null && each.ledger === now.ledger);
    if (pool.some((each) => each.epsilon_units !== now.epsilon_units && each.name !== now.name)) return "a ledger of another ε";
    if (pool.some((each) => (each.ids ?? null) !== (now.ids ?? null) && each.name !== now.name)) return "accounts that are named by another rule";
    const total = (streams, part) => streams.map(part).reduce((a, b) => a + b, 0);
    const quotas = pool.filter((each) => each.budget.quota != null), free = now.epsilon_units - total(quotas, held);
    if (now.budget.quota == null) {
      return newest === undefined && (now.budget.rest ?? null) !== (quotas.length ? free : null) ? "another rest than quotas left" : null;
    }
    const more = held(now) - (newest === undefined ? 0 : held(newest)), spent = total(pool.filter((each) => each.budget.quota == null), (each) => each.units);
    if (more < 0) return "shrinks a quota";
    return now.ledger === null || now.budget.period != null || more > free - Math.min(free, spent) ? "a quota of what is not there" : null;
  }

  release(entry) {
    const stream = this.streams.get(entry.stream), { slot } = entry;
    if (stream === undefined) return "releases a stream that was never declared";
    const { options, digest } = stream.schedule.findLast((each) => each.from <= slot) ?? stream.schedule[0];
    if (entry.options !== digest) return "other options than the stream declared";
    if (options.end !== null && slot >= options.end) return "a slot after the stream was stopped";
    if (stream.last !== undefined && slot !== stream.last + 1) return "not the slot after the last";
    if (stream.last === undefined && ![null, slot].includes(options.start)) return "not the slot that the stream begins with";
    stream.last = slot;
    stream.first ??= slot;
    if (entry.first !== stream.first) return "another first slot than the stream has";
    if (!whole(entry.epsilon_units) || entry.epsilon_units < 0) return "no budget";
    if (entry.epsilon_total_units !== options.epsilon_units) return "another total ε than the stream declared";
    if (!["epsilon", "epsilon_spent", "epsilon_total"].every((name) => agrees(entry, name))) return "ε in two ways that differ";
    const quota = options.budget.quota == null ? undefined : held(options);
    if (entry.epsilon_quota_units !== quota || (quota !== undefined && !agrees(entry, "epsilon_quota"))) return "another quota";
    return this.spent(entry, stream, options);
  }

  spent(entry, stream, options) {
    const period = options.budget.period ?? null, spent = entry.epsilon_spent_units;
    const epochs = period === null ? 1 : Math.floor(entry.slot / period) - Math.floor(stream.first / period) + 1;
    const most = epochs * held(options);
    if (entry.classes === undefined && stream.bounds) return "does not measure by class, as the stream did before";
    if (entry.classes !== undefined) {
      const { classes } = entry, top = options.ledger === null ? undefined : options.budget.policy?.top;
      if (!whole(top) || (!stream.bounds && stream.units > 0) || !Array.isArray(classes) ||
        !classes.every((each) => isObject(each) && agrees(each, "epsilon") && whole(each.most_left_units))) return "classes that no slot asks";
      stream.bounds ??= new Bounds();
      if (stream.lost) return spent >= stream.units && spent <= most ? null : "a sum of budgets that cannot be";
      stream.units = stream.bounds.draw(entry, held(options), top, period);
      if (stream.units === null) return "other budgets of classes than follow from their shares";
    } else stream.units += entry.epsilon_units;
    if (spent !== Math.min(most, stream.units)) return "another sum of budgets than its slots have";
    return options.ledger === null && stream.units > options.epsilon_units ? "spends more than the series has" : null;
  }

  restored({ last, spent_units: spent, charged_units: charged }) {
    if (![last, spent, charged].every((each) => isObject(each) && Object.values(each).every(whole))) return "no whole numbers";
    const least = {};
    for (const [name, stream] of this.streams) {
      const { ledger, budget } = stream.schedule.at(-1).options, accounts = budget.quota == null ? ledger : `quota ${name}`;
      const end = last[name] ?? stream.last, sum = spent[name] ?? stream.units;
      if (end < stream.last || sum < stream.units) return "goes back behind what was released";
      const first = stream.bounds && end > stream.last && !stream.lost ? 1 : 0; // at least something: how much, `dpi verify`
      if (ledger !== null) least[accounts] = (least[accounts] ?? 0) + Math.max(sum - stream.units, first);
      Object.assign(stream, { last: end, units: sum, lost: stream.bounds !== undefined });
    }
    return Object.entries(least).some(([name, units]) => (charged[name] ?? 0) < units) ? "charges less than was lost" : null;
  }
}
