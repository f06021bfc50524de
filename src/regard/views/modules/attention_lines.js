// @ts-check
// Lines between queries and keys: of the chosen weights, or of several heads, each in its colour.
import { clip, cursor, draw, hueOf, HUES, longest, make, mount, range } from "./base.js";
import { attentionChoosers, defaults, headsOf, largest, matrixOf, sceneOf } from "./attention_maps.js";

/** @typedef {import("./base.js").Context} Context */
/** @typedef {import("./attention_maps.js").Scene} Scene */
/** @typedef {{matrix: Float32Array[], head: number | null, hue: string, dashed: boolean, shift: number}} Bundle */
const FAINT = 1 / 20; // share of the largest weight below which lines would only be haze
const FAINT_ALONE = 1 / 200; // of one word
const MOST_ALONE = 60; // lines of one word

/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    if (!context.record.maps.length) return;
    attentionChoosers(context, ["colours"]);
    const scene = sceneOf(context);
    if (scene) drawLines(context, scene, context.body);
  });
}

/** @param {Context} context @param {Scene} scene @param {HTMLElement} host */
export function drawLines(context, scene, host) {
  host.append(make("p", { class: "note" }, "Queries on the left, keys on the right. ",
    make("span", { class: "hint" }, "Point at a word to see only its lines, click to keep them. Switch on heads to see each in its colour. "), scene.hidden));
  headButtons(context, scene, host);
  const bundles = bundlesOf(context, scene);
  scene.bundles = bundles;
  const peak = Math.max(...bundles.map(({ matrix }) => largest(matrix))) || 1;
  const tall = Math.max(scene.queries.length, scene.keys.length, 1);
  const [height, size] = tall > 40 ? [17, 11.5] : [27, 14.5];
  const room = (host.clientWidth || context.root.clientWidth) - 4;
  const most = room < 480 ? 11 : 20; // letters of a label
  const [left, right] = [scene.queries, scene.keys].map((labels) => longest(labels.map((label) => clip(label, most)), size) + 14);
  const gap = Math.max(70, Math.min(Math.max(300, room / 2), room - left - right));
  const [from, to] = [left + 4, left + gap - 4];

  /** @param {Bundle} bundle @param {number} query @param {number} key */
  const curve = ({ matrix, hue, dashed, shift, head }, query, key) => {
    const [start, end] = [query, key].map((row) => ((row + 0.5) * height + shift).toFixed(1));
    const middle = (from + to) / 2;
    const share = matrix[query][key] / peak;
    const path = draw("path", {
      class: "line", d: `M${from} ${start}C${middle} ${start} ${middle} ${end} ${to} ${end}`, "data-head": head,
      "stroke-opacity": (context.state.scale === "root" ? Math.sqrt(share) : share).toFixed(3), "stroke-dasharray": dashed ? "5 4" : null,
    });
    if (hue) path.style.stroke = hue;
    return path;
  };
  /** @param {string} side @param {string[]} labels @param {number} x @param {string} anchor */
  const words = (side, labels, x, anchor) => labels.map((label, i) => draw("text", {
    "data-side": side, "data-index": i, "data-go": "", x, y: ((i + 0.5) * height + size * 0.34).toFixed(1), "text-anchor": anchor, "font-size": size,
  }, clip(label, most)));
  const sides = { query: words("query", scene.queries, left - 7, "end"), key: words("key", scene.keys, left + gap + 7, "start") };
  const all = draw("g", {}, ...strands(bundles, peak, tall).map(([, bundle, query, key]) => curve(bundle, query, key)));
  const alone = draw("g");
  const svg = draw("svg", { width: Math.ceil(left + gap + right), height: tall * height, "aria-hidden": "true" }, all, alone, ...sides.query, ...sides.key);
  const element = make("div", {
    class: "words-lines", "data-scroll": "", tabindex: 0, role: "application", "data-focus": "lines", style: { "max-height": "44rem" },
    "aria-label": `lines between ${scene.queries.length} queries and ${scene.keys.length} keys; the arrow keys move from word to word, left and right from side to side, Enter keeps a word`,
  }, svg);
  host.append(element);

  let lit = /** @type {Element[]} */ ([]);
  scene.watch.push(({ query, key }) => {
    const someone = query !== null || key !== null;
    all.setAttribute("visibility", someone ? "hidden" : "visible");
    alone.replaceChildren(...(someone ? oneWord(bundles, peak, query, key).map(([, bundle, q, k]) => curve(bundle, q, k)) : []));
    for (const each of lit) each.classList.remove("on");
    lit = [query === null ? null : sides.query[query], key === null ? null : sides.key[key]].filter((each) => !!each);
    for (const each of lit) each.classList.add("on");
  });
  /** @param {Event} event */
  const wordAt = (event) => {
    const { side, index } = /** @type {any} */ (event.target).dataset ?? {};
    return side ? { [side]: Number(index) } : {};
  };
  element.addEventListener("pointermove", (/** @type {Event} */ event) => scene.point(wordAt(event)));
  element.addEventListener("pointerleave", () => scene.point({}));
  element.addEventListener("click", (/** @type {Event} */ event) => { if ("side" in (/** @type {any} */ (event.target).dataset ?? {})) scene.keep(wordAt(event)); });
  /** @param {number} row @param {number} column */
  const target = (row, column) => {
    const [side, labels] = column ? ["key", scene.keys] : ["query", scene.queries];
    return { [/** @type {string} */ (side)]: Math.min(row, labels.length - 1) };
  };
  cursor(element, tall, 2, (row, column) => {
    scene.point(target(row, column));
    lit[0]?.scrollIntoView({ block: "nearest" });
  }, scene.release, (row, column) => scene.keep(target(row, column)));
}

/** What is drawn: matrices, each with a colour, and a shift so that none lies on another.
 * @param {Context} context @param {Scene} scene @returns {Bundle[]} */
function bundlesOf(context, scene) {
  const { heads, layer } = context.state;
  if (!heads.length) return [{ matrix: scene.shown, head: null, hue: "", dashed: false, shift: 0 }];
  return heads.flatMap((/** @type {number} */ head, /** @type {number} */ i) => {
    const matrix = matrixOf(context.record, scene.map, layer, head);
    const bundle = { head, hue: hueOf(head), dashed: head >= HUES, shift: (i - (heads.length - 1) / 2) * Math.min(2.5, 14 / heads.length) };
    return matrix ? [{ ...bundle, matrix: scene.trim(matrix) }] : [];
  });
}
/** @typedef {[number, Bundle, number, number]} Strand */
/** Pairs of tokens from the largest weight down, a few for each token.
 * @param {Bundle[]} bundles @param {number} peak @param {number} tall @returns {Strand[]} */
function strands(bundles, peak, tall) {
  const found = /** @type {Strand[]} */ ([]);
  for (const bundle of bundles)
    bundle.matrix.forEach((row, query) => {
      for (let key = 0; key < row.length; key++) if (row[key] >= peak * FAINT) found.push([row[key], bundle, query, key]);
    });
  return found.sort(([one], [other]) => other - one).slice(0, Math.max(400, 3 * tall));
}
/** @param {Bundle[]} bundles @param {number} peak @param {number | null} query @param {number | null} key @returns {Strand[]} */
function oneWord(bundles, peak, query, key) {
  const found = /** @type {Strand[]} */ ([]);
  for (const bundle of bundles) {
    const { matrix } = bundle;
    const queries = query !== null ? [query] : range(matrix.length);
    for (const q of queries) {
      const keys = query !== null ? range(matrix[q].length) : [/** @type {number} */ (key)];
      for (const k of keys) if (matrix[q][k] >= peak * FAINT_ALONE) found.push([matrix[q][k], bundle, q, k]);
    }
  }
  return found.sort(([one], [other]) => other - one).slice(0, MOST_ALONE);
}
/** @param {Context} context @param {Scene} scene @param {HTMLElement} host */
function headButtons(context, scene, host) {
  const heads = range(headsOf(scene.map, context.state.layer));
  if (heads.length < 2) return;
  const chosen = context.state.heads;
  /** @param {string} name @param {number[]} next @param {Record<string, any>} more */
  const button = (name, next, more) => make("button", { type: "button", "data-focus": `heads ${name}`, onclick: () => context.set({ heads: next }), ...more }, name);
  host.append(make("div", { class: "head-buttons hint", role: "group", "aria-label": "Heads in colours" },
    ...heads.map((head) => button(String(head), chosen.includes(head) ? chosen.filter((/** @type {number} */ each) => each !== head) : [...chosen, head].sort((one, other) => one - other),
      { "aria-label": `head ${head}`, "aria-pressed": String(chosen.includes(head)), style: { "--hue": hueOf(head) } })),
    button("all", heads, {}), button("none", [], {})));
}
