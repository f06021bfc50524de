// @ts-check
// Cross-attention of a sentence pair over words, with the links of an alignment and of a gold standard.
// record: source_words, target_words, weights (target, source), links, sure and possible: lists of [source, target].
import { draw, legend, make, mount, rowsOf, scaleOf, SCALES, chooser, word } from "./base.js";
import { largest } from "./attention_maps.js";
import { heatMap } from "./heat_map.js";

/** @param {import("./base.js").ViewRecord} record */
const defaults = (record) => ({ colours: "cividis", scale: "linear", layer: record.layer ?? null });

/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    const { source_words: source, target_words: target, weights, links = [], sure = [], possible = [] } = context.record;
    chooser(context, "scale", ["linear", "root"], ["linear", "square root"]);
    chooser(context, "colours", SCALES, SCALES);
    const rows = rowsOf(context.record, weights);
    const peak = largest(rows) || 1;
    const pixels = scaleOf(context.root, context.state.colours);
    const has = (/** @type {number[][]} */ list, /** @type {number} */ row, /** @type {number} */ column) =>
      list.some(([one, other]) => one === column && other === row);
    /** @param {number[][]} list @param {string} kind @returns {[number, number, string][]} */
    const outlines = (list, kind) => list.map(([one, other]) => [other, one, kind]);
    const map = heatMap(context.body, {
      rows: target, columns: source, pixels, label: "cross-attention of words", focus: "alignment",
      value: (row, column) => rows[row][column], room: context.root.clientWidth,
      shade: (value) => 255 * (context.state.scale === "root" ? Math.sqrt(value / peak) : value / peak),
      marks: [...outlines(possible, "possible"), ...outlines(sure, "sure"), ...outlines(links, "link")],
      point: (row, column) => {
        map.point(row, column);
        context.select({ target: row, source: column, kept: false });
        if (row === null || column === null) return context.say("Point at a cell, or use the arrow keys.");
        const gold = has(sure, row, column) ? ", a sure link of the gold standard" : has(possible, row, column) ? ", a possible link of the gold standard" : "";
        context.say(word(target[row]), " looks at ", word(source[column]), ` ${rows[row][column].toFixed(4)}`, has(links, row, column) ? ", linked" : "", gold);
      },
      keep: (row, column) => context.select({ target: row, source: column, kept: true }),
    });
    context.body.append(legend(pixels, "0", peak.toFixed(4)), linkLegend(links.length, sure.length, possible.length));
    context.say("Rows are words of the target, columns of the source.");
  });
}
/** @param {number} links @param {number} sure @param {number} possible */
function linkLegend(links, sure, possible) {
  const items = /** @type {[number, string, string][]} */ ([[links, "link", "link"], [sure, "sure", "gold: sure"], [possible, "possible", "gold: possible"]]);
  return make("p", { class: "legend" }, ...items.filter(([count]) => count).flatMap(([count, kind, name]) => [
    draw("svg", { width: 18, height: 18, "aria-hidden": "true" }, draw("rect", { class: `mark ${kind}`, x: 2, y: 2, width: 14, height: 14 })), make("span", {}, `${name} (${count})`)]));
}
