// @ts-check
// All layers and heads as small pictures, each scaled to its own largest weight.
import { isDark, make, mount, paint, range, scaleOf, within } from "./base.js";
import { attentionChoosers, defaults, headsOf, largest, loadLayer, matrixOf, sceneOf, shadeOf } from "./attention_maps.js";

/** @typedef {import("./base.js").Context} Context */
/** @typedef {import("./attention_maps.js").Scene} Scene */
const AT_ONCE = 500000; // weights that are painted before the browser may do something else
const FINEST = 2; // pixels of a picture for each pixel of the screen
const painted = /** @type {WeakMap<object, {map: object, canvases: Map<string, HTMLCanvasElement>}>} */ (new WeakMap());

/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    if (!context.record.maps.length) return;
    attentionChoosers(context, ["layer", "head"]);
    const scene = sceneOf(context);
    if (scene) drawGrid(context, scene, context.body);
    context.say("Choose a head with the arrow keys and Enter, or by pointing at it.");
  });
}

/** @param {Context} context @param {Scene} scene @param {HTMLElement} host */
export function drawGrid(context, scene, host) {
  const { map } = scene;
  const columns = headsOf(map, null);
  if (map.layers.length * columns < 2) return;
  const side = Math.max(36, Math.min(120, ((host.clientWidth || context.root.clientWidth) - 90) / columns - 8));
  const scale = side / Math.max(scene.queries.length, scene.keys.length, 1);
  const [across, down] = [scene.keys.length, scene.queries.length].map((count) => Math.max(10, count * scale));
  const jobs = /** @type {(() => void)[]} */ ([]);
  const buttons = /** @type {HTMLButtonElement[][]} */ ([]);
  const key = [context.state.map, context.state.scale, context.state.colours, context.state.weights, isDark(context.root), Math.round(side), scene.rows.length, scene.columns].join();
  const before = painted.get(context.root);
  const cache = before && before.map === map ? before.canvases : new Map();
  painted.set(context.root, { map, canvases: cache });
  const rows = map.layers.map((/** @type {any} */ own, /** @type {number} */ layer) => {
    buttons.push([]);
    const cells = range(own.heads).map((head) => {
      const name = `${key} ${layer} ${head}`;
      const known = cache.get(name);
      const canvas = known ?? make("canvas", { style: { width: `${across}px`, height: `${down}px` } });
      if (!known) {
        if (scale >= 1) canvas.style.imageRendering = "pixelated";
        jobs.push(() => paintHead(context, scene, canvas, layer, head, across, down, () => cache.set(name, canvas)));
      }
      const button = make("button", {
        type: "button", "aria-label": `layer ${layer}, head ${head}`, title: `layer ${layer}, head ${head}`, "data-focus": `picture ${layer} ${head}`,
        "aria-pressed": String(context.state.layer === layer && context.state.head === head),
        tabindex: layer === (context.state.layer ?? 0) && head === (context.state.head ?? 0) ? 0 : -1,
        onclick: () => { context.select({ map: map.name, layer, head, kept: true }); context.set({ layer, head }); },
        onfocus: () => context.say(`layer ${layer}, head ${head}`),
      }, canvas);
      buttons[layer].push(button);
      return make("td", {}, button);
    });
    return make("tr", {}, make("th", { scope: "row" }, `layer ${layer}`), ...cells);
  });
  const head = make("tr", {}, make("td"), ...range(columns).map((each) => make("th", { scope: "col" }, `head ${each}`)));
  const pictures = make("div", { class: "scrolls pictures", "data-scroll": "" }, make("table", {}, head, ...rows));
  pictures.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const step = /** @type {Record<string, number[]>} */ ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] })[event.key];
    const at = buttons.findIndex((each) => each.includes(/** @type {any} */ (document.activeElement)));
    if (!step || at < 0) return;
    event.preventDefault();
    const row = buttons[within(at + step[0], buttons.length)];
    row[within(buttons[at].indexOf(/** @type {any} */ (document.activeElement)) + step[1], row.length)]?.focus();
  });
  host.append(make("p", { class: "note" }, "Each head is scaled to its own largest weight. ", make("span", { class: "hint" }, "Choose one to show it.")), pictures);
  const several = Math.max(1, Math.floor(AT_ONCE / (scene.queries.length * scene.keys.length || 1)));
  const some = () => {
    if (context.signal.aborted) return;
    for (const job of jobs.splice(0, several)) job();
    pictures.dataset.waiting = jobs.length;
    if (jobs.length) setTimeout(some);
  };
  if (jobs.length <= several) some();
  else setTimeout(some);
}

/** Of a long text, a pixel is the largest of several weights: a mean would hide diagonals.
 * @param {Context} context @param {Scene} scene @param {HTMLCanvasElement} canvas @param {number} layer @param {number} head
 * @param {number} across @param {number} down @param {() => void} done */
function paintHead(context, scene, canvas, layer, head, across, down, done) {
  const matrix = matrixOf(context.record, scene.map, layer, head);
  if (!matrix) return loadLayer(context, layer, () => paintHead(context, scene, canvas, layer, head, across, down, done));
  const counts = [[scene.queries, down], [scene.keys, across]].map(([labels, side]) => {
    const { length } = /** @type {string[]} */ (labels);
    return Math.max(1, Math.ceil(length / Math.max(1, Math.ceil(length / (FINEST * /** @type {number} */ (side))))));
  });
  const [tall, wide] = [Math.ceil(scene.queries.length / counts[0]), Math.ceil(scene.keys.length / counts[1])];
  const pooled = range(counts[0]).map(() => new Float32Array(counts[1]));
  scene.trim(matrix).forEach((row, query) => {
    const into = pooled[Math.floor(query / tall)];
    for (let key = 0; key < row.length; key++) {
      const column = Math.floor(key / wide);
      if (row[key] > into[column]) into[column] = row[key];
    }
  });
  const shade = shadeOf(context, largest(pooled));
  paint(canvas, counts[0], counts[1], scaleOf(context.root, context.state.colours), (row, column) =>
    scene.masked(Math.min((row + 1) * tall, scene.queries.length) - 1, Math.min(column * wide, scene.keys.length - 1)) ? -1
      : within(Math.round(shade(pooled[row][column])), 256));
  done();
}
