// @ts-check
// Queries and keys of one head: their vectors, and how a product of two becomes a score and a weight.
// record: layer, head, queries and keys (labels), q (tokens, size), k (tokens, size), weights
// and scores (queries, keys; scores may be null), scale.
import { chooser, draw, figure, legend, make, mount, range, rowsOf, scaleOf, signedScale, word } from "./base.js";
import { largest } from "./attention_maps.js";
import { heatMap } from "./heat_map.js";

/** @typedef {import("./base.js").Context} Context */
const defaults = () => ({ query: 0, key: null, order: "as they are" });
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, drawVectors);
}
/** @param {Context} context */
function drawVectors(context) {
  const { record, state } = context;
  const [q, k, weights] = [record.q, record.k, record.weights].map((each) => rowsOf(record, each));
  const { queries, keys, scale } = record;
  if (!queries[state.query]) state.query = 0;
  if (state.key === null || !keys[state.key]) state.key = weights[state.query].indexOf(Math.max(...weights[state.query]));
  chooser(context, "order", ["as they are", "by product"], ["as they are", "by their product"], "dimensions");
  const product = range(q[0].length).map((d) => q[state.query][d] * k[state.key][d] * scale);
  const order = range(product.length);
  if (state.order === "by product") order.sort((one, other) => product[other] - product[one]);
  const pixels = signedScale(context.root);
  const peak = Math.max(...[...q, ...k].map((row) => row.reduce((most, value) => Math.max(most, Math.abs(value)), 0))) || 1;
  const score = product.reduce((sum, value) => sum + value, 0);
  const parts = make("div", { class: "parts" });
  context.body.append(parts);
  const hosts = ["Queries", "Keys"].map((name) => make("section", {}, make("h3", {}, name)));
  parts.append(...hosts);
  /** @param {number} side @param {string[]} rows @param {Float32Array[]} vectors @param {string} name */
  const vectors = (side, rows, vectors, name) => {
    const map = heatMap(hosts[side], {
      rows, columns: order.map(String), pixels, label: `${name} vectors`, focus: name, value: (row, column) => vectors[row][order[column]],
      shade: (value) => 127.5 + (127.5 * value) / peak, room: hosts[side].clientWidth,
      point: (row, column) => {
        map.point(row ?? state[name], column);
        if (row !== null && column !== null) context.say(`${name} `, word(rows[row]), `, dimension ${order[column]}: ${figure(vectors[row][order[column]])}`);
      },
      keep: (row) => { if (row !== null) { context.select({ [name]: row, kept: true }); context.set({ [name]: row }); } },
    });
    map.point(state[name], null);
  };
  vectors(0, queries, q, "query");
  vectors(1, keys, k, "key");
  context.body.append(legend(pixels, `−${figure(peak)}`, figure(peak)), make("h3", {}, `Product of ${queries[state.query]} and ${keys[state.key]}, by dimension`), bars(product, order));
  context.body.append(make("h3", {}, "Weights"));
  const most = largest(weights) || 1;
  const grid = heatMap(context.body, {
    rows: queries, columns: keys, pixels: scaleOf(context.root), label: "weights", focus: "weights", value: (row, column) => weights[row][column],
    shade: (value) => (255 * value) / most, room: context.root.clientWidth,
    point: (row, column) => {
      grid.point(row ?? state.query, column ?? state.key);
      if (row !== null && column !== null) context.say(word(queries[row]), " looks at ", word(keys[column]), ` ${weights[row][column].toFixed(4)}; Enter shows their vectors`);
    },
    keep: (row, column) => { if (row !== null && column !== null) { context.select({ query: row, key: column, kept: true }); context.set({ query: row, key: column }); } },
  });
  grid.point(state.query, state.key);
  context.say(word(queries[state.query]), " · ", word(keys[state.key]), ` = ${figure(score)} (product / √${q[0].length})${record.scores ? `; score ${figure(rowsOf(record, record.scores)[state.query][state.key])}` : ""}; after the softmax: weight ${weights[state.query][state.key].toFixed(4)}`);
}
/** @param {number[]} values @param {number[]} order */
function bars(values, order) {
  const most = Math.max(...values.map(Math.abs)) || 1;
  const [width, height] = [Math.max(4, Math.min(14, 760 / values.length)), 90];
  return make("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": "product by dimension" }, draw("svg", { width: width * values.length, height }, ...order.map((d, i) => {
    const tall = (Math.abs(values[d]) / most) * (height / 2 - 2);
    const bar = draw("rect", { x: i * width, y: values[d] < 0 ? height / 2 : height / 2 - tall, width: width - 1, height: Math.max(0.5, tall) }, draw("title", {}, `dimension ${d}: ${figure(values[d])}`));
    bar.style.fill = values[d] < 0 ? "var(--below)" : "var(--accent)";
    return bar;
  })));
}
