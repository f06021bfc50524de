// @ts-check
// One attention matrix: queries down, keys across, with the values in the cells of a short text.
import { legend, make, mount, scaleOf, ticker } from "./base.js";
import { attentionChoosers, defaults, roundingOf, sceneOf, shadeOf } from "./attention_maps.js";
import { heatMap } from "./heat_map.js";

/** @typedef {import("./base.js").Context} Context */
/** @typedef {import("./attention_maps.js").Scene} Scene */
const SHORT = 24; // tokens up to which values fit into cells

/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    if (!context.record.maps.length) return;
    attentionChoosers(context);
    const scene = sceneOf(context);
    if (scene) drawMatrix(context, scene, context.body);
  });
}
/** @param {Context} context @param {Scene} scene @param {HTMLElement} host */
export function drawMatrix(context, scene, host) {
  const short = Math.max(scene.queries.length, scene.keys.length) <= SHORT;
  if (short) ticker(context, "values", ["shown"], ["in the cells"], "values");
  const valued = short && context.state.values.includes("shown");
  const pixels = scaleOf(context.root, context.state.colours);
  host.append(make("p", { class: "note" }, "Rows are queries, columns are keys. ", scene.map.allowed ? "Grey cells are masked. " : "", scene.hidden, roundingOf(scene.map),
    context.record.note ? ` Note: ${context.record.note}.` : ""));
  const map = heatMap(host, {
    rows: scene.queries, columns: scene.keys, pixels, label: `${scene.map.name} attention`, focus: "matrix",
    value: (query, key) => (scene.masked(query, key) ? null : scene.shown[query][key]),
    shade: shadeOf(context, scene.peak), room: host.clientWidth || context.root.clientWidth,
    cell: valued ? 38 : undefined, text: valued ? (query, key) => scene.shown[query][key].toFixed(2) : undefined,
    point: (query, key) => scene.point({ query, key }), keep: (query, key) => scene.keep({ query, key }), leave: scene.release,
  });
  scene.watch.push(({ query, key }) => map.point(query, key));
  host.append(legend(pixels, "0", scene.peak.toFixed(4)));
}
