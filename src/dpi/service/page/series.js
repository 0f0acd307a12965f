// Columns of slots as they come: a span thinned by the service's rule, which grows at its end. Pure data.

const KEYS = ["value", "lower", "upper"];

/** What a service said of many slots, and goes on with as slots are released. */
export class Series {
  constructor(said, { window = 0, columns = 480 } = {}) {
    Object.assign(this, { window, columns }, said);
    this.chosen ??= [];
    this.users ??= { value: [], lower: [], upper: [] };
    this.people ??= {};
    this.quantiles ??= [];
    this.other ??= [];
    this.measured ??= [];
  }

  get length() {
    return this.slots.length;
  }

  get last() {
    return this.slots.at(-1) ?? null;
  }

  /** Codes whose next values are needed. */
  get codes() {
    return [...new Set([...this.rows, ...this.chosen].map((row) => row.code))].filter((code) => code !== null);
  }

  /** Whether a row cannot go on by codes, so that the whole must be asked for again. */
  get whole() {
    return this.rows.some((row) => row.code === null) || this.quantiles.length > 0 || this.length === 0;
  }

  /** Take up later columns, said of the same codes. Returns whether it fits; if not, ask for all of it again. */
  append(said) {
    const codes = new Map((said.chosen ?? []).map((row) => [row.code, row]));
    if (said.before || this.whole || !this.codes.every((code) => codes.has(code))) return false;
    said.slots.forEach((slot, i) => {
      if (this.last !== null && slot <= this.last) return;
      // the newest column stays where its slot is a multiple of the step: the rule by which the service thins
      if (this.step > 1 && this.last % this.step !== 0) this.#drop(this.length - 1);
      this.slots.push(slot);
      this.starts.push(said.starts[i]);
      this.other.push(said.other[i]);
      this.measured.push(said.measured[i]);
      for (const key of KEYS) this.users[key].push(said.users[key][i]);
      for (const [name, row] of Object.entries(this.people)) for (const key of KEYS) row[key].push(said.people?.[name]?.[key][i] ?? null);
      for (const row of this.rows) row.value.push(codes.get(row.code).value[i]);
      for (const row of this.chosen) for (const key of KEYS) row[key].push(codes.get(row.code)[key][i]);
      for (const row of [...this.rows, ...this.chosen]) row.note?.push(codes.get(row.code).note[i]);
    });
    if (this.window) while (this.length && this.slots[0] <= this.last - this.window) this.#drop(0);
    return this.length <= this.columns;
  }

  #drop(at) {
    const lists = [this.slots, this.starts, this.other, this.measured, ...KEYS.map((key) => this.users[key]), ...this.rows.map((row) => row.value)];
    for (const row of [...this.chosen, ...Object.values(this.people)]) lists.push(...KEYS.map((key) => row[key]));
    for (const row of [...this.rows, ...this.chosen]) if (row.note) lists.push(row.note);
    for (const list of lists) list.splice(at, 1);
  }
}
