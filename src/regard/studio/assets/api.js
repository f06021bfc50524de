// @ts-check
// Requests to the server, and their timing: typing waits for nothing, and an old request is given up.
import { decode } from "../views/base.js";

export const LONGEST = 4000; // characters of a text
/** Refuse a text that is too long to be read while one types. @param {any} body */
function check(body) {
  for (const [name, value] of Object.entries(body ?? {})) {
    const texts = (Array.isArray(value) ? value : [value]).filter((each) => typeof each === "string" && name !== "image");
    const most = Math.max(0, ...texts.map((text) => text.length));
    if (most > LONGEST) throw new Error(`The text has ${most.toLocaleString("en")} characters; the studio reads at most ${LONGEST.toLocaleString("en")}.`);
  }
}
/** @param {string} path @param {unknown} body @param {AbortSignal} [signal] */
async function send(path, body, signal) {
  check(body);
  const given = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  const response = await fetch(path, { ...given, signal });
  if (response.ok) return response;
  const content = await response.json().catch(() => null);
  throw new Error(content?.error?.message ?? `the server answered ${response.status}`);
}
/** The answer of a path as JSON; without a body it is a GET. @param {string} path @param {unknown} [body] @param {AbortSignal} [signal] @returns {Promise<any>} */
export const ask = async (path, body, signal) => (await send(path, body, signal)).json();
/** The record of a view. @param {string} path @param {unknown} [body] @param {AbortSignal} [signal] */
export const askRecord = async (path, body, signal) => decode(await (await send(path, body, signal)).arrayBuffer());
/** Records of one input by a path of the server; an error of the input is thrown. @param {string} path @param {object} body @param {AbortSignal} [signal] */
export async function askModel(path, body, signal) {
  const { results } = await ask(`/v1/${path}`, body, signal);
  if (results[0].error) throw new Error(results[0].error);
  return results[0].records;
}

const PAUSE = 250; // milliseconds without a key before a request is sent

/** Runs work once typing pauses; what runs already is given up. Equal work is not done again.
 * @param {(signal: AbortSignal) => Promise<void>} work @param {(error: Error | null) => void} done */
export function live(work, done) {
  let control = new AbortController();
  let timer = 0;
  let last = "";
  return {
    /** @param {string} key what the work depends on @param {boolean} [now] */
    request(key, now = false) {
      if (key === last) return;
      last = key;
      clearTimeout(timer);
      control.abort();
      const own = control = new AbortController();
      timer = setTimeout(async () => {
        try {
          await work(own.signal);
          if (!own.signal.aborted) done(null);
        } catch (error) {
          if (!own.signal.aborted) { last = ""; done(/** @type {Error} */ (error)); }
        }
      }, now ? 0 : PAUSE);
    },
    stop() { clearTimeout(timer); control.abort(); last = ""; },
  };
}
