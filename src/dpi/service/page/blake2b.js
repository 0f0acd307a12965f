// BLAKE2b (RFC 7693) with a digest of 32 bytes and a personalisation, on pairs of 32-bit words: WebCrypto has none.

const IV = new Uint32Array([
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
]);

const SIGMA = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
  [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
  [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
  [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
  [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const ROUNDS = [...SIGMA, SIGMA[0], SIGMA[1]];
const QUARTERS = [
  [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
  [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14],
].map((words) => words.map((word) => 2 * word)); // places of low words

const v = new Uint32Array(32);
const m = new Uint32Array(32);

// v[a] += v[b] (+ m[x]), all of them places of low words.
function add(a, b) {
  const low = v[a] + v[b];
  v[a + 1] = v[a + 1] + v[b + 1] + (low > 0xffffffff ? 1 : 0);
  v[a] = low;
}

function addWord(a, x) {
  const low = v[a] + m[x];
  v[a + 1] = v[a + 1] + m[x + 1] + (low > 0xffffffff ? 1 : 0);
  v[a] = low;
}

// v[d] = (v[d] ^ v[a]) turned right by n bits.
function turn(d, a, n) {
  const low = v[d] ^ v[a], high = v[d + 1] ^ v[a + 1];
  if (n === 32) {
    v[d] = high;
    v[d + 1] = low;
  } else if (n === 63) {
    v[d] = (low << 1) | (high >>> 31);
    v[d + 1] = (high << 1) | (low >>> 31);
  } else {
    v[d] = (low >>> n) | (high << (32 - n));
    v[d + 1] = (high >>> n) | (low << (32 - n));
  }
}

function compress(h, bytes, start, length, last) {
  m.fill(0);
  const end = Math.min(bytes.length, start + 128);
  for (let i = start; i < end; i++) m[(i - start) >> 2] |= bytes[i] << (8 * ((i - start) & 3));
  v.set(h);
  v.set(IV, 16);
  v[24] ^= length >>> 0;
  v[25] ^= Math.floor(length / 2 ** 32);
  if (last) {
    v[28] = ~v[28];
    v[29] = ~v[29];
  }
  for (const order of ROUNDS) {
    for (let q = 0; q < 8; q++) {
      const [a, b, c, d] = QUARTERS[q];
      add(a, b);
      addWord(a, 2 * order[2 * q]);
      turn(d, a, 32);
      add(c, d);
      turn(b, c, 24);
      add(a, b);
      addWord(a, 2 * order[2 * q + 1]);
      turn(d, a, 16);
      add(c, d);
      turn(b, c, 63);
    }
  }
  for (let i = 0; i < 16; i++) h[i] ^= v[i] ^ v[i + 16];
}

/** The digest of bytes as hexadecimal text: 32 bytes, with a personalisation of at most 16 bytes. */
export function blake2b(bytes, person = "") {
  const parameters = new Uint8Array(64);
  parameters.set([32, 0, 1, 1]);
  parameters.set(new TextEncoder().encode(person), 48);
  const words = new Uint32Array(parameters.buffer);
  const h = IV.map((word, i) => word ^ words[i]);
  let start = 0;
  while (bytes.length - start > 128) {
    compress(h, bytes, start, start + 128, false);
    start += 128;
  }
  compress(h, bytes, start, bytes.length, true);
  return [...new Uint8Array(h.buffer, 0, 32)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The digest of an entry's text. */
export const digestOf = (text) => blake2b(new TextEncoder().encode(text), "dpi chain");
