// @ts-check
// A page of its own: the views of its records, with what is chosen in the address of the page.
import { captions, decode, make, written } from "./base.js";

/** @typedef {import("./base.js").Options} Options */
/** @typedef {import("./base.js").ViewRecord} ViewRecord */
const HAS_ADDRESS = ["file:", "http:", "https:"].includes(location.protocol); // in a notebook it has none

/** Bytes of base64 of raw deflate. @param {string} text */
async function inflate(text) {
  const letters = atob(text.trim());
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) packed[i] = letters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).arrayBuffer();
}
/** Draw every record of the page with the view of its kind.
 * @param {Record<string, (element: HTMLElement, record: ViewRecord, options: Options) => import("./base.js").View>} views */
export async function open(views) {
  const blocks = [...document.querySelectorAll("script[data-record]")];
  for (const block of blocks) {
    const record = decode(await inflate(block.textContent ?? ""));
    const element = make("div");
    block.replaceWith(element);
    const prefix = blocks.length > 1 ? `${blocks.indexOf(block)}.` : "";
    const [notes] = [captions(record).slice(1)];
    show(element, record, views[record.kind], prefix);
    if (Object.keys(record.source ?? {}).length) element.after(make("p", { class: "source" }, notes.slice(record.caption ? 1 : 0).join(" · ")));
  }
  document.documentElement.dataset.ready = "";
}
/** @param {HTMLElement} element @param {ViewRecord} record @param {any} render @param {string} prefix */
function show(element, record, render, prefix) {
  const first = /** @type {Options} */ ({});
  /** @param {Options} changes @param {Options} state */
  const onOptions = (changes, state) => {
    if (!HAS_ADDRESS) return;
    const address = new URLSearchParams(location.hash.slice(1));
    for (const name of Object.keys(changes)) {
      const text = written(state[name]);
      if (text === written(first[name] ?? null)) address.delete(prefix + name);
      else address.set(prefix + name, text);
    }
    const next = address.toString().replaceAll("%2C", ",");
    if (next !== location.hash.slice(1)) history.pushState(null, "", next ? `#${next}` : location.pathname + location.search);
  };
  const choices = (/** @type {Options} */ state) => ({ ...Object.assign(first, state), ...parsed(prefix) });
  const view = render(element, record, { choices, onOptions });
  if (HAS_ADDRESS) addEventListener("hashchange", () => view.update());
}
/** Choices of the address; views drop those that they do not know. @param {string} prefix @returns {Options} */
function parsed(prefix) {
  const options = /** @type {Options} */ ({});
  for (const [name, text] of new URLSearchParams(location.hash.slice(1)))
    if (name.startsWith(prefix) && name.length > prefix.length) options[name.slice(prefix.length)] = text;
  return options;
}
