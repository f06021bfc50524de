// @ts-check
// Values of words by method: gradients, rollout and others. record: targets, words, methods [{name, title, values
// and shares, the tints from -1 to 1 (targets, words)}], image (optional, bytes of a PNG under the patches of a grid), probabilities, comparison.
import { arrayOf, chooser, cssColour, figure, inkOn, legend, make, mount, range, rowsOf, scaleOf, signedScale, table, within, word } from "./base.js";
import { drawCharts } from "./charts.js";
import { heatMap } from "./heat_map.js";

/** @typedef {import("./base.js").Context} Context */
const defaults = () => ({ method: 0, target: 0 });

/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, drawWords);
}
/** @param {Context} context */
function drawWords(context) {
  const { record, state } = context;
  const { targets, words, methods, comparison, grid } = record;
  if (!methods[state.method]) state.method = 0;
  if (!targets[state.target]) state.target = 0;
  chooser(context, "method", range(methods.length), methods.map((/** @type {any} */ each) => each.title));
  chooser(context, "target", range(targets.length), targets);
  const rows = rowsOf(record, methods[state.method].values);
  const values = rows[state.target];
  const signed = record.signed !== false;
  const pixels = signed ? signedScale(context.root) : scaleOf(context.root);
  const peak = Math.max(...rows.map((row) => row.reduce((most, value) => Math.max(most, Math.abs(value)), 0))) || 1;
  const tints = rowsOf(record, methods[state.method].shares);
  const shade = (/** @type {number} */ share) => (signed ? 127.5 + 127.5 * share : 255 * share);
  /** @param {number} i */
  const tell = (i) => {
    context.select({ word: i, target: state.target, method: methods[state.method].name, kept: false });
    context.say(word(words[i]), ` ${figure(values[i])}`, ...(signed ? [values[i] < 0 ? ": lowers " : ": raises ", word(targets[state.target])] : []));
  };
  if (grid) drawPatches(context, tints[state.target], pixels, shade, tell);
  else drawList(context, words, tints[state.target], pixels, shade, tell);
  context.body.append(signed ? legend(pixels, `−${figure(peak)} lowers`, `raises ${figure(peak)}`) : legend(pixels, "0", figure(peak)));
  const [left, right] = [make("div"), make("div")];
  context.body.append(make("div", { class: "parts" }, left, right));
  if (targets.length > 1) {
    left.append(make("h3", {}, "All targets"));
    const map = heatMap(left, {
      rows: targets, columns: words, pixels, shade, label: "values of words for each target", focus: "targets", value: (row, column) => tints[row][column],
      room: left.clientWidth || context.root.clientWidth,
      point: (row, column) => {
        map.point(row, column);
        if (row !== null && column !== null) context.say(word(words[column]), ` ${figure(rows[row][column])} for `, word(targets[row]));
      },
      keep: (row) => { if (row !== null) context.set({ target: row }); },
    });
  }
  if (comparison?.rows.length) left.append(table(comparison.columns, comparison.rows, signed ? "Comparison of methods" : "Scores"));
  drawCharts(context, record.charts ?? [], null, right);
  for (const note of record.notes ?? []) context.body.append(make("p", { class: "note" }, note));
  context.say("Point at a word, or use the arrow keys, to read its value.");
}
/** @param {Context} context @param {string[]} words @param {Float32Array} tints @param {Uint32Array} pixels
 * @param {(share: number) => number} shade @param {(i: number) => void} tell */
function drawList(context, words, tints, pixels, shade, tell) {
  let at = -1;
  const spans = words.map((text, i) => {
    const span = make("span", { role: "option", id: `w${i}-${Math.random().toString(36).slice(2, 8)}`, "aria-selected": "false", onpointerenter: () => point(i) }, text);
    const pixel = pixels[within(Math.round(shade(tints[i])), 256)];
    span.style.background = cssColour(pixel);
    span.style.color = inkOn(pixel);
    return span;
  });
  const list = make("div", { class: "words", role: "listbox", tabindex: 0, "aria-label": "words with their values; the arrow keys move", "data-focus": "words", dir: "auto" });
  spans.forEach((span) => list.append(span, " "));
  const point = (/** @type {number} */ i) => {
    spans[at]?.classList.remove("on");
    spans[at]?.setAttribute("aria-selected", "false");
    at = within(i, spans.length);
    spans[at]?.classList.add("on");
    spans[at]?.setAttribute("aria-selected", "true");
    list.setAttribute("aria-activedescendant", spans[at]?.id ?? "");
    tell(at);
  };
  list.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const step = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 })[event.key];
    if (!step || !spans.length) return;
    event.preventDefault();
    point(at < 0 ? 0 : at + step);
  });
  context.body.append(list);
}
/** @param {Context} context @param {Float32Array} tints @param {Uint32Array} pixels
 * @param {(share: number) => number} shade @param {(i: number) => void} tell */
function drawPatches(context, tints, pixels, shade, tell) {
  const [rows, columns] = context.record.grid;
  const parts = make("div", { class: "parts" });
  context.body.append(parts);
  const left = make("div");
  parts.append(left);
  if (context.record.image) {
    let text = "";
    for (const byte of arrayOf(context.record, context.record.image)) text += String.fromCharCode(byte);
    parts.append(make("div", { class: "picture" }, make("img", { src: `data:image/png;base64,${btoa(text)}`, alt: context.record.title ?? "image" })));
  }
  const map = heatMap(left, {
    rows: range(rows).map(String), columns: range(columns).map(String), pixels, shade, label: "values of patches", focus: "patches",
    value: (row, column) => tints[row * columns + column], room: context.root.clientWidth / 2,
    point: (row, column) => { map.point(row, column); if (row !== null && column !== null) tell(row * columns + column); },
  });
}
