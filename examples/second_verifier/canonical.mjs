// Reads an entry's text if it is written in the one canonical way: sorted keys, no spaces, no needless escape, and
// numbers as Python writes them. Gives the value and, of an object, the text of each member.

const ESCAPES = { '"': '"', "\\": "\\", n: "\n", r: "\r", t: "\t", b: "\b", f: "\f" };

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
function before(a, b) {
  const [left, right] = [[...a], [...b]];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    if (left[i] !== right[i]) return left[i].codePointAt(0) < right[i].codePointAt(0);
  }
  return left.length < right.length;
}

/** The value of a canonical text; throws for any other text. */
export function read(text) {
  let at = 0;
  const fail = () => {
    throw new Error("not canonical");
  };
  const take = (letter) => (text[at] === letter ? (at += 1) : fail());

  function string() {
    let found = "";
    take('"');
    while (text[at] !== '"') {
      if (at >= text.length || text[at] < " ") fail();
      if (text[at] !== "\\") {
        found += text[at++];
        continue;
      }
      const short = ESCAPES[text[at + 1]], long = /^\\u00[01][0-9a-f]/.exec(text.slice(at, at + 6));
      if (short !== undefined) {
        found += short;
        at += 2;
      } else if (long !== null && !"\n\r\t\b\f".includes(String.fromCharCode(parseInt(long[0].slice(2), 16)))) {
        found += String.fromCharCode(parseInt(long[0].slice(2), 16));
        at += 6;
      } else fail();
    }
    at += 1;
    return found;
  }

  function number() {
    const [word] = /^-?[0-9][0-9.e+-]*/.exec(text.slice(at, at + 400)) ?? [""];
    at += word.length;
    if (/^(0|-?[1-9][0-9]*)$/.test(word)) {
      const whole = Number(word);
      return Number.isSafeInteger(whole) ? whole : BigInt(word);
    }
    if (word === "" || floatText(Number(word)) !== word) fail();
    return new Float(Number(word));
  }

  function members() {
    const found = {}, parts = {};
    let last = null;
    for (take("{"); text[at] !== "}"; ) {
      if (last !== null) take(",");
      const name = string();
      if (last !== null && !before(last, name)) fail();
      last = name;
      take(":");
      const start = at;
      Object.defineProperty(found, name, { value: value(), enumerable: true });
      parts[name] = text.slice(start, at);
    }
    at += 1;
    return Object.defineProperty(found, PARTS, { value: parts });
  }

  function list() {
    const found = [];
    for (take("["); text[at] !== "]"; found.push(value())) if (found.length > 0) take(",");
    at += 1;
    return found;
  }

  function value() {
    if (text[at] === "{") return members();
    if (text[at] === "[") return list();
    if (text[at] === '"') return string();
    for (const [word, meaning] of [["true", true], ["false", false], ["null", null]]) {
      if (text.startsWith(word, at)) {
        at += word.length;
        return meaning;
      }
    }
    return number();
  }

  const found = value();
  return at === text.length ? found : fail();
}

/** A number that is not written as a whole one. */
export class Float {
  constructor(value) {
    this.value = value;
  }
}

/** Under this symbol an object has the text of each of its members. */
export const PARTS = Symbol("parts");
