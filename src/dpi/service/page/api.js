// Asks `/v1`, with the token of this tab; follows a stream over lost connections. Knows no more than the token may.

const KEY = "dpi token";

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

/** How far the service's clock is ahead of this one's, in milliseconds, where that is more than a second or two. */
export const clocks = { ahead: 0 };

function compare(answer) {
  const said = Date.parse(answer.headers.get("date") ?? "") - Date.now();
  clocks.ahead = Math.abs(said) > 2000 ? said : 0;
}

const header = () => ({ authorization: `Bearer ${token.get() ?? ""}` });

/** An address with parameters; lists are said several times, and what is null is not said. */
export function address(path, parameters = {}) {
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of Array.isArray(value) ? value : [value]) if (each !== null && each !== undefined && each !== "") said.append(name, each);
  }
  return said.size ? `/v1/${path}?${said}` : `/v1/${path}`;
}

async function answered(path, parameters, more = {}) {
  const answer = await fetch(address(path, parameters), { headers: { ...header(), ...more.headers }, signal: more.signal });
  compare(answer);
  if (answer.ok) return answer;
  let detail = `The service answered ${answer.status}.`;
  try {
    detail = (await answer.json()).detail ?? detail;
  } catch {
    // a proxy's own page
  }
  throw new Refused(answer.status, detail);
}

export const get = async (path, parameters) => (await answered(path, parameters)).json();
export const text = async (path, parameters) => (await answered(path, parameters)).text();
export const blob = async (path, parameters, accept) => (await answered(path, parameters, { headers: { accept } })).blob();

/** The events of a stream of server-sent events, from its text as it comes. */
export async function* events(chunks) {
  let rest = "";
  for await (const chunk of chunks) {
    const parts = (rest + chunk).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const found = {};
      for (const line of part.split("\n")) {
        const at = line.indexOf(":");
        if (at > 0) found[line.slice(0, at)] = line.slice(at + 1).trimStart();
      }
      if (found.event) yield found;
    }
  }
}

async function* decoded(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

const PAUSES = [500, 1000, 2000, 4000];
const QUIET = 40_000; // the service says that it is alive every 15 seconds

/** Follow a stream from after a slot on, until `signal` ends it: `seen(slot)` for each release, `live(yes)` as it stands. */
export async function follow(stream, since, { signal, seen, live }) {
  for (let tries = 0; !signal.aborted; ) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener("abort", stop);
    let quiet = setTimeout(stop, QUIET);
    try {
      const headers = since === null ? {} : { "last-event-id": String(since) };
      const answer = await answered(`streams/${stream}/follow`, {}, { headers, signal: attempt.signal });
      tries = 0;
      live(true);
      const heard = async function* () {
        for await (const chunk of decoded(answer.body)) {
          clearTimeout(quiet);
          quiet = setTimeout(stop, QUIET);
          yield chunk;
        }
      };
      for await (const event of events(heard())) {
        if (event.event !== "release") continue;
        since = Number(event.id);
        seen(since);
      }
    } catch (error) {
      if (error instanceof Refused && error.status < 500 && error.status !== 429) {
        live(false, error);
        return;
      }
    } finally {
      clearTimeout(quiet);
      signal.removeEventListener("abort", stop);
    }
    if (signal.aborted) return;
    live(false);
    await new Promise((done) => setTimeout(done, PAUSES[Math.min(tries++, PAUSES.length - 1)]));
  }
}
