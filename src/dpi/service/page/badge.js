// The badge of the chain: a worker checks it, and this says how it stands.

import { token } from "./api.js";
import { typed } from "./chain.js";
import { $, el, say } from "./dom.js";
import { count } from "./numbers.js";

const KEY = "dpi key"; // a fingerprint is public, and the reader's own: it is in no link
const WORDS = { verified: "verified", consistent: "consistent", "other key": "another key", broken: "broken", unknown: "not checked" };

export class Badge {
  constructor(app) {
    this.app = app;
    this.worker = null;
    this.standing = null;
    $("badge").addEventListener("click", () => this.open());
    $("chain-close").addEventListener("click", () => $("chain-dialog").close());
    $("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.know($("key").value);
    });
    $("key").value = localStorage.getItem(KEY) ?? "";
  }

  open() {
    $("chain-dialog").showModal();
  }

  async know(text) {
    const wanted = text.trim() ? (globalThis.crypto?.subtle ? await typed(text) : text.trim()) : "";
    $("key").value = wanted;
    if (wanted) localStorage.setItem(KEY, wanted);
    else localStorage.removeItem(KEY);
    this.look(true);
  }

  /** Check what is new, or all of it `anew`. */
  look(anew = false) {
    if (this.worker === null) {
      this.worker = new Worker("/page/chain-worker.js", { type: "module" });
      this.worker.onmessage = ({ data }) => this.say(data);
    }
    this.worker.postMessage({ token: token.get(), wanted: localStorage.getItem(KEY) ?? "", anew });
  }

  stop() {
    this.worker?.terminate();
    this.worker = null;
  }

  say(found) {
    this.standing = found;
    const badge = $("badge"), word = found.state === "broken" ? `broken at entry ${found.at}` : WORDS[found.state];
    badge.hidden = false;
    badge.className = `badge ${found.state.split(" ")[0]}`;
    const mark = { verified: "✓ ", broken: "✗ ", "other key": "✗ " }[found.state] ?? "";
    say(badge, `${mark}${word}`);
    badge.setAttribute("aria-label", `Certificates: ${word}`);
    say($("tile-chain"), word);
    say($("tile-chain-more"), found.entries === undefined ? found.why : `${count(found.entries)} entries checked in this browser${found.going ? " so far" : ""}`);
    say($("chain-words"), `${word[0].toUpperCase()}${word.slice(1)}. ${found.why}`);
    const newest = found.newest?.[this.app.state.stream];
    const facts = [["Entries", count(found.entries ?? 0)], ["Head", found.head ?? "–"], ["This stream", newest ? `its newest release is entry ${newest.entry}` : "no release yet"]];
    $("chain-facts").replaceChildren(...facts.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, name === "Head" ? el("code", {}, text) : text))));
  }
}
