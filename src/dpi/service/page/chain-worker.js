// Downloads the chain and checks it, apart from the page, so that a long one keeps nothing from being drawn.

import { Chain } from "./chain.js";

const PART = 1000;
let chain = null;
let asked = Promise.resolve();

async function ask(path, token) {
  const answer = await fetch(path, { headers: { authorization: `Bearer ${token}` }, cache: "no-store" });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

async function look({ token, wanted, anew }) {
  if (chain === null || anew) {
    chain = new Chain();
    await chain.use((await ask("/v1/chain?limit=1", token)).key, wanted);
  }
  for (let more = true; more && chain.broken === null; ) {
    const found = await ask(`/v1/chain?after=${chain.seen.entries - 1}&limit=${PART}`, token);
    await chain.add(found.entries);
    more = found.entries.length === PART;
    postMessage({ ...chain.standing, going: more });
  }
}

onmessage = ({ data }) => {
  asked = asked.then(() => look(data)).catch(() => postMessage({ state: "unknown", why: "The chain could not be downloaded." }));
};
