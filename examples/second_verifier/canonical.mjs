// Reads an entry's text if it is written in the one canonical way: sorted keys, no spaces, no needless escape, and
// numbers as Python writes them. Gives the value and, of an object, the text of each member.

const WORD = /"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*/gs;

/** A number that is not written as a whole one. */
export class Float {
  constructor(value) {
    this.value = value;
  }
}

/** Under this symbol an object has the text of each of its members. */
export const PARTS = Symbol("parts");

/** A number that is not whole, as Python writes it: the shortest digits, an exponent below 1e-4 and from 1e16 on. */
export function floatText(x) {
  const [digits, exponent] = Math.abs(x).toExponential().split("e");
  const sign = x < 0 || Object.is(x, -0) ? "-" : "", power = Number(exponent);
  if (x !== 0 && (power < -4 || power >= 16)) {
    return `${sign}${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  const plain = String(Math.abs(x));
  return sign + (plain.includes(".") ? plain : `${plain}.0`);
}

/** Orders texts by their code points, as Python does; JavaScript's own order is that of halves of them. */
function order(a, b) {
  const [left, right] = [[...a], [...b]], at = left.findIndex((letter, i) => letter !== right[i]);
  return at < 0 ? left.length - right.length : left[at].codePointAt(0) - (right[at]?.codePointAt(0) ?? -1);
}

/** The value of a canonical text; throws for any other text. */
export function read(text) {
  // Texts begin with s, and numbers are texts that begin with n: so a number comes as it was written.
  const [value, again] = written(JSON.parse(text.replace(WORD, (word) => (word[0] === '"' ? `"s${word.slice(1)}` : `"n${word}"`))));
  if (again !== text) throw new Error("not canonical");
  return value;
}

/** A value, and the one way to write it. */
function written(x) {
  if (typeof x === "string") return x[0] === "n" ? number(x.slice(1)) : string(x.slice(1));
  if (x === null || typeof x !== "object") return [x, String(x)];
  if (Array.isArray(x)) {
    const all = x.map(written);
    return [all.map(([value]) => value), `[${all.map(([, text]) => text)}]`];
  }
  const found = {}, parts = {}, names = Object.keys(x).map((name) => [name.slice(1), name]).sort(([a], [b]) => order(a, b));
  const texts = names.map(([name, tagged]) => {
    const [value, text] = written(x[tagged]);
    Object.defineProperty(found, name, { value, enumerable: true });
    parts[name] = text;
    return `${string(name)[1]}:${text}`;
  });
  return [Object.defineProperty(found, PARTS, { value: parts }), `{${texts}}`];
}

function string(text) {
  if (!text.isWellFormed()) throw new Error("not canonical"); // half a letter
  return [text, JSON.stringify(text)];
}

function number(word) {
  if (!/^-?[0-9]+$/.test(word)) return [new Float(Number(word)), floatText(Number(word))];
  const whole = Number(word);
  return [Number.isSafeInteger(whole) ? whole : BigInt(word), String(BigInt(word))];
}
