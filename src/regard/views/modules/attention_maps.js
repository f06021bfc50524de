// @ts-check
// Attention maps of a record: their weights, what is hidden of them, and what is pointed at.
//
// record.maps is a list of {name, queries, keys, special: {queries, keys}, allowed, unchosen, layers, mean}.
// A layer is {heads, weights}; weights are {units} in ten-thousandths, or {levels, peaks, steps}: level =
// steps * share ** 0.75 of the largest weight of a row. Weights of null are asked for: options.load(map, layer).
import { arrayOf, checkChoice, chooser, numbers, range, SCALES, ticker, word } from "./base.js";

/** @typedef {import("./base.js").Context} Context */
/** @typedef {import("./base.js").ViewRecord} ViewRecord */
/** @typedef {{values: Float32Array, height: number, width: number}} Matrix */
/** @typedef {{query: number | null, key: number | null}} Pointed */

const UNIT = 10000;
const POWER = 0.75;
const KEPT = 40; // matrices that stay unpacked
const SINK = 0.1; // share of a head's weight, the mean over queries, from which on a key may be a sink
const TIMES = 2; // and so many times what equal weights would give it
const LONG = 60; // keys from which on special tokens and sinks are hidden at first

/** @param {ViewRecord} record */
export function defaults(record) {
  const long = Math.max(0, ...record.maps.map((/** @type {any} */ map) => map.keys.length)) >= LONG;
  return {
    map: 0, layer: null, head: null, ...record.chosen, hide: long ? ["special", "sinks"] : [],
    weights: "raw", scale: "linear", colours: "cividis", view: "both", heads: [], word: null, values: [],
  };
}

// ---- weights ----------------------------------------------------------------------------------

const unpacked = /** @type {WeakMap<object, Map<string, Matrix>>} */ (new WeakMap());
/** @param {any} map @param {string} key @param {() => Matrix} compute @returns {Matrix} */
function keep(map, key, compute) {
  let matrices = unpacked.get(map);
  if (!matrices) unpacked.set(map, matrices = new Map());
  const matrix = matrices.get(key) ?? compute();
  matrices.delete(key);
  matrices.set(key, matrix);
  if (matrices.size > KEPT) matrices.delete(matrices.keys().next().value ?? "");
  return matrix;
}
/** @param {{buffers: Uint8Array[]}} record @param {any} weights @param {number} head @param {any} map @returns {Matrix} */
function unpack(record, weights, head, map) {
  const [height, width] = [map.queries.length, map.keys.length];
  const size = height * width;
  const values = new Float32Array(size);
  if (weights.units) {
    const units = arrayOf(record, weights.units);
    for (let i = 0, at = head * size; i < size; i++, at++) values[i] = units[at] / UNIT;
  } else {
    const [levels, peaks] = [arrayOf(record, weights.levels), arrayOf(record, weights.peaks)];
    const shares = Float32Array.from({ length: weights.steps + 1 }, (_, level) => (level / weights.steps) ** (1 / POWER));
    for (let query = 0, i = 0, at = head * size; query < height; query++) {
      const peak = peaks[head * height + query];
      for (let key = 0; key < width; key++, i++, at++) values[i] = peak * shares[levels[at]];
    }
  }
  return { values, height, width };
}
/** The matrix of a head, or the mean of heads; null while it is not loaded.
 * @param {ViewRecord} record @param {any} map @param {number | null} layer @param {number | null} head @returns {Matrix | null} */
export function matrixOf(record, map, layer, head) {
  if (layer === null && head === null && map.mean) return keep(map, "mean", () => unpack(record, map.mean, 0, map));
  const every = layer !== null ? [layer] : map.unchosen === "all" ? range(map.layers.length).slice(-1) : range(map.layers.length);
  const open = every.filter((each) => map.layers[each].heads > (head ?? 0));
  if (open.some((each) => !map.layers[each].weights)) return null;
  const places = open.flatMap((each) => (head !== null ? [[each, head]] : range(map.layers[each].heads).map((one) => [each, one])));
  /** @param {number[]} place */
  const one = ([each, number]) => {
    const own = map.layers[each];
    return unpack(own.buffers ? own : record, own.weights, number, map);
  };
  if (places.length === 1) return keep(map, places[0].join(), () => one(places[0]));
  return keep(map, `mean ${layer} ${head}`, () => {
    const [height, width] = [map.queries.length, map.keys.length];
    const mean = { values: new Float32Array(height * width), height, width };
    for (const place of places) {
      const { values } = one(place);
      const share = 1 / (open.length * (head !== null ? 1 : map.layers[place[0]].heads));
      for (let i = 0; i < values.length; i++) mean.values[i] += values[i] * share;
    }
    return mean;
  });
}
/** Ask the host for a layer; then draw anew. @param {Context} context @param {number} layer @param {() => void} [then] */
export function loadLayer(context, layer, then) {
  const own = context.record.maps[context.state.map].layers[layer];
  if (own.weights || !context.options.load) return;
  own.asked ??= Promise.resolve(context.options.load(context.state.map, layer)).then((/** @type {any} */ loaded) => {
    own.buffers = loaded.buffers;
    own.weights = loaded.weights;
  });
  own.asked.then(() => { if (!context.signal.aborted) then ? then() : context.set({}); });
}
/** @param {any} map @param {number | null} layer */
export function headsOf(map, layer) {
  const counts = map.layers.map((/** @type {any} */ each) => each.heads);
  return layer === null ? Math.max(0, ...counts) : counts[layer];
}

// ---- choices ----------------------------------------------------------------------------------

/** Choosers that the views of attention share; choices that the map does not have are dropped.
 * @param {Context} context @param {string[]} [without] */
export function attentionChoosers(context, without = []) {
  const { record, state } = context;
  if (!record.maps[state.map]) state.map = 0;
  const map = record.maps[state.map];
  if (state.layer !== null && !(state.layer < map.layers.length)) state.layer = null;
  if (state.head !== null && !(state.head < headsOf(map, state.layer))) state.head = null;
  state.hide = state.hide.filter((/** @type {string} */ each) => ["special", "sinks"].includes(each));
  state.heads = [...new Set(state.heads)].filter((head) => Number(head) < headsOf(map, state.layer));
  /** @param {string} name @param {() => void} add */
  const unless = (name, add) => { if (!without.includes(name)) add(); };
  checkChoice(context, "view", ["both", "matrix", "lines"]);
  checkChoice(context, "weights", ["raw", "renormalised"]);
  checkChoice(context, "scale", ["linear", "root"]);
  checkChoice(context, "colours", SCALES);
  const [, side, index] = /^([qk])(\d{1,6})$/.exec(state.word ?? "") ?? [];
  if (!side || Number(index) >= (side === "q" ? map.queries : map.keys).length) state.word = null;
  chooser(context, "map", range(record.maps.length), record.maps.map((/** @type {any} */ each) => each.name));
  unless("layer", () => numbers(context, "layer", map.layers.length, map.unchosen));
  unless("head", () => numbers(context, "head", headsOf(map, state.layer), "mean"));
  unless("hide", () => ticker(context, "hide", ["special", "sinks"], ["special tokens", "sinks"]));
  if (state.hide.length) unless("weights", () => chooser(context, "weights", ["raw", "renormalised"], ["as they are", "renormalised"]));
  unless("scale", () => chooser(context, "scale", ["linear", "root"], ["linear", "square root"]));
  unless("colours", () => chooser(context, "colours", SCALES, SCALES));
}

/** How dark a weight is, from 0 to 255; the root lifts what a few large weights would hide.
 * @param {Context} context @param {number} peak @returns {(weight: number) => number} */
export function shadeOf(context, peak) {
  const most = peak || 1;
  return context.state.scale === "root" ? (weight) => 255 * Math.sqrt(weight / most) : (weight) => (255 * weight) / most;
}

// ---- hidden tokens ----------------------------------------------------------------------------

/** The mean over queries of the weight of each key; of equal weights without a matrix.
 * @param {any} map @param {Uint8Array | null} allowed @param {Matrix | null} matrix */
function sharesOfKeys(map, allowed, matrix) {
  const [height, width] = [map.queries.length, map.keys.length];
  const shares = new Float64Array(width);
  for (let query = 0; query < height; query++) {
    const row = allowed?.subarray(query * width, (query + 1) * width) ?? null;
    const free = matrix ? 1 : row === null ? width : row.reduce((sum, may) => sum + may, 0) || 1;
    for (let key = 0; key < width; key++) {
      const weight = matrix ? matrix.values[query * width + key] : row === null ? 1 : row[key];
      shares[key] += weight / (free * height);
    }
  }
  return shares;
}
/** Keys that are sinks of any of these matrices. @param {any} map @param {Uint8Array | null} allowed @param {Matrix[]} matrices */
function sinksOf(map, allowed, matrices) {
  const equal = sharesOfKeys(map, allowed, null);
  const every = matrices.map((matrix) => sharesOfKeys(map, allowed, matrix));
  return range(map.keys.length).filter((key) => every.some((shares) => shares[key] > Math.max(SINK, TIMES * equal[key])));
}

// ---- a scene ----------------------------------------------------------------------------------

/**
 * What the views of one map show: the tokens that are left, their weights, and what is pointed at.
 * @typedef {object} Scene
 * @property {any} map
 * @property {number[]} rows
 * @property {number[]} columns
 * @property {string[]} queries
 * @property {string[]} keys
 * @property {Float32Array[]} shown
 * @property {number} peak
 * @property {(query: number, key: number) => boolean} masked
 * @property {(matrix: Matrix) => Float32Array[]} trim
 * @property {((pointed: Pointed) => void)[]} watch
 * @property {Pointed} pointed
 * @property {(target: Partial<Pointed>) => void} point
 * @property {(target: Partial<Pointed>) => void} keep
 * @property {string} hidden which tokens are hidden, and what their weights are then
 * @property {{matrix: Float32Array[], head: number | null}[]} bundles what is read out of a word
 * @property {() => void} release let go of the word that is kept
 */
/** @param {Context} context @returns {Scene | null} null while weights are not loaded */
export function sceneOf(context) {
  const { record, state } = context;
  const map = record.maps[state.map];
  const allowed = map.allowed ? arrayOf(record, map.allowed) : null;
  const matrices = [state.head, ...state.heads].map((head) => matrixOf(record, map, state.layer, head));
  if (matrices.includes(null)) {
    range(map.layers.length).filter((layer) => state.layer === null || state.layer === layer).forEach((layer) => loadLayer(context, layer));
    context.body.append("loading weights …");
    return null;
  }
  const drawn = /** @type {Matrix[]} */ (matrices);
  const sinks = state.hide.includes("sinks") ? sinksOf(map, /** @type {Uint8Array | null} */ (allowed), drawn) : [];
  const special = state.hide.includes("special") ? map.special : { queries: [], keys: [] };
  const gone = { queries: new Set(special.queries), keys: new Set([...special.keys, ...sinks]) };
  const rows = range(map.queries.length).filter((query) => !gone.queries.has(query));
  const columns = range(map.keys.length).filter((key) => !gone.keys.has(key));
  const width = map.keys.length;
  /** @param {Matrix} matrix */
  const trim = ({ values }) => rows.map((query) => {
    const row = new Float32Array(columns.length);
    let sum = 0;
    for (let key = 0; key < columns.length; key++) sum += row[key] = values[query * width + columns[key]];
    if (state.weights === "renormalised" && sum > 0) for (let key = 0; key < row.length; key++) row[key] /= sum;
    return row;
  });
  const shown = trim(drawn[0]);
  /** @type {Scene} */
  const scene = {
    map, rows, columns, shown, trim, peak: largest(shown),
    queries: rows.map((query) => map.queries[query]), keys: columns.map((key) => map.keys[key]),
    masked: (query, key) => allowed !== null && !allowed[rows[query] * width + columns[key]],
    watch: [], pointed: { query: null, key: null },
    point: (target) => {
      const { query = null, key = null } = target.query == null && target.key == null ? kept() : target;
      if (scene.pointed.query === query && scene.pointed.key === key) return;
      scene.pointed = { query, key };
      for (const each of scene.watch) each(scene.pointed);
      context.say(...readout(scene));
      context.select(selection(false));
    },
    keep: ({ query = null, key = null }) => {
      const name = query !== null ? `q${rows[query]}` : key !== null ? `k${columns[key]}` : null;
      state.word = state.word === name ? null : name;
      context.options.onOptions?.({ word: state.word }, state);
      scene.pointed = { query: null, key: null };
      scene.point({ query, key });
      context.select(selection(true));
    },
    hidden: hiddenTokens(context, map, special, sinks),
    bundles: [{ matrix: shown, head: null }],
    release: () => {
      state.word = null;
      context.options.onOptions?.({ word: null }, state);
      scene.point({});
    },
  };
  const kept = () => {
    const [, side, text] = /^([qk])(\d+)$/.exec(state.word ?? "") ?? [];
    const index = (side === "q" ? rows : columns).indexOf(Number(text));
    if (!side || index < 0) return { query: null, key: null };
    return side === "q" ? { query: index, key: null } : { query: null, key: index };
  };
  /** @param {boolean} clicked */
  const selection = (clicked) => {
    const { query, key } = scene.pointed;
    return {
      map: map.name, layer: state.layer, head: state.head, kept: clicked,
      query: query === null ? null : rows[query], key: key === null ? null : columns[key],
    };
  };
  context.say("Point at a cell or a word, or use the arrow keys, to read its weights.");
  return scene;
}
/** @param {Context} context @param {any} map @param {{queries: number[], keys: number[]}} special @param {number[]} sinks */
function hiddenTokens(context, map, special, sinks) {
  const names = [...new Set([...special.queries.map((i) => map.queries[i]), ...special.keys.map((i) => map.keys[i])])];
  const other = sinks.filter((key) => !special.keys.includes(key)).map((key) => map.keys[key]);
  const parts = [names.length ? `special tokens ${names.join(" ")}` : "", other.length ? `sinks ${other.join(" ")}` : ""].filter(Boolean);
  if (!parts.length) return context.state.hide.length ? "Hidden: nothing, for there is none. " : "The weights of a row sum to one. ";
  const rule = context.state.hide.includes("sinks") ? ` A sink is a key that takes more than ${100 * SINK} % of a head's weight, the mean over all queries, and more than twice what equal weights would give it.` : "";
  const sum = context.state.weights === "renormalised" ? "The weights that are left in a row are divided by their sum." : "The weights are as they are, so that those left in a row sum to less than one.";
  return `Hidden: ${parts.join("; ")}.${rule} ${sum} `;
}
/** What is lost by rounding. @param {any} map */
export function roundingOf(map) {
  const steps = map.layers.find((/** @type {any} */ layer) => layer.weights)?.weights.steps ?? null;
  if (steps === null) return "";
  return `Weights are rounded, each by less than ${Math.ceil(100 * (1 - (1 - 0.5 / steps) ** (1 / POWER)))} % of the largest in its row. `;
}
/** @param {Float32Array[]} rows */
export function largest(rows) {
  let peak = 0;
  for (const row of rows) for (let key = 0; key < row.length; key++) if (row[key] > peak) peak = row[key];
  return peak;
}
/** What is pointed at, in words. @param {Scene} scene */
function readout(scene) {
  const { query, key } = scene.pointed;
  if (query === null && key === null) return ["Point at a cell or a word, or use the arrow keys, to read its weights."];
  if (query !== null && key !== null) {
    const pair = [word(scene.queries[query]), scene.masked(query, key) ? " may not look at " : " looks at ", word(scene.keys[key])];
    return scene.masked(query, key) ? pair : [...pair, ` ${scene.shown[query][key].toFixed(4)}`];
  }
  /** @param {string[]} labels @param {(matrix: Float32Array[]) => ArrayLike<number>} weights */
  const most = (labels, weights) => strongest(scene.bundles.flatMap(({ matrix }) => Array.from(weights(matrix))),
    scene.bundles.flatMap(({ head }) => labels.map((label) => label + (head === null ? "" : ` (head ${head})`))));
  if (query !== null) return [word(scene.queries[query]), " looks most at ", ...most(scene.keys, (matrix) => matrix[query])];
  return [word(scene.keys[key ?? 0]), " is seen most by ", ...most(scene.queries, (matrix) => matrix.map((row) => row[key ?? 0]))];
}
/** The largest of some weights with their labels. @param {ArrayLike<number>} weights @param {string[]} labels */
export function strongest(weights, labels) {
  return Array.from(weights, (weight, i) => /** @type {[number, string]} */ ([weight, labels[i]]))
    .sort(([one], [other]) => other - one).slice(0, 4)
    .flatMap(([weight, label]) => [word(label), ` ${weight.toFixed(4)}   `]);
}
