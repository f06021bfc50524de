// @ts-check
// Requests to the server, and their timing: typing waits for nothing, and an old request is given up.
import { decode, visible } from "../views/base.js";

export const LONGEST = 4000; // characters of a text
const GONE = "The studio does not answer: it was stopped, or cannot be reached. Start it again with regard studio and your models, then reload this page.";
/** Refuse a text without a word. @param {string[]} texts */
export function needText(...texts) {
  if (texts.some((text) => !text.trim())) throw new Error("The text is empty: type one.");
}
/** Refuse a text that is too long to be read while one types. @param {any} body */
function check(body) {
  for (const [name, value] of Object.entries(body ?? {})) {
    const texts = (Array.isArray(value) ? value : [value]).filter((each) => typeof each === "string" && name !== "image");
    const most = Math.max(0, ...texts.map((text) => text.length));
    if (most > LONGEST) throw new Error(`The text has too many characters; the studio reads at most ${LONGEST.toLocaleString("en")}.`);
  }
}
/** @param {string} path @param {unknown} body @param {AbortSignal} [signal] */
async function send(path, body, signal) {
  check(body);
  const given = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  const response = await fetch(path, { ...given, signal }).catch((error) => { throw signal?.aborted ? error : new Error(GONE); });
  if (response.ok) return response;
  const content = await response.json().catch(() => null);
  throw new Error(visible(content?.error?.message ?? `the server answered ${response.status}`));
}
/** A module of the studio. @param {string} path @returns {Promise<any>} */
export const load = (path) => import(path).catch(() => { throw new Error(GONE); });
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

/** Events that would change what is shown, or ask for more of it. */
const ACTIONS = ["click", "keydown"];
/** What is shown of an older request is dimmed, said to be busy, and does nothing until the new one is answered.
 * @param {HTMLElement} place */
function guard(place) {
  for (const name of ACTIONS) place.addEventListener(name, (event) => {
    if (!place.classList.contains("old") || /** @type {KeyboardEvent} */ (event).key === "Tab") return;
    event.stopPropagation();
    if (name === "click") event.preventDefault();
  }, { capture: true });
}
/** Runs work once typing pauses; what runs already is given up. Equal work is not done again.
 * @param {(signal: AbortSignal) => Promise<void>} work @param {HTMLElement[]} places where its results are shown
 * @param {(error: Error | null) => void} done */
export function live(work, places, done) {
  let control = new AbortController();
  let timer = 0;
  let last = "";
  places.forEach(guard);
  /** @param {boolean} isOld @param {boolean} isBusy */
  const mark = (isOld, isBusy) => {
    for (const place of places) {
      place.classList.toggle("old", isOld);
      if (isBusy) place.setAttribute("aria-busy", "true");
      else place.removeAttribute("aria-busy");
    }
  };
  const giveUp = () => { clearTimeout(timer); control.abort(); last = ""; };
  return {
    /** @param {string} key what the work depends on @param {boolean} [now] */
    request(key, now = false) {
      if (key === last) return;
      giveUp();
      last = key;
      mark(true, true);
      const own = control = new AbortController();
      timer = setTimeout(async () => {
        let fault = null;
        try {
          await work(own.signal);
        } catch (error) { fault = /** @type {Error} */ (error); }
        if (own.signal.aborted) return;
        mark(fault !== null, false);
        if (fault) last = "";
        done(fault);
      }, now ? 0 : PAUSE);
    },
    /** What is shown is of an older input, and its request has to wait for another answer. */
    outdate() { giveUp(); mark(true, true); },
    stop() { giveUp(); mark(false, false); },
  };
}
