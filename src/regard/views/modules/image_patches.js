// @ts-check
// An image under the attention of one of its tokens or patches, and all heads over the image.
// record: maps as of attention, image (bytes of a PNG), grid [rows, columns], tokens before the patches, classes.
import { arrayOf, chooser, cursor, legend, make, mount, overlayScale, range, table, within, word } from "./base.js";
import { attentionChoosers, defaults as attentionDefaults, headsOf, loadLayer, matrixOf, sceneOf, shadeOf, strongest } from "./attention_maps.js";

/** @typedef {import("./base.js").Context} Context */
/** @param {import("./base.js").ViewRecord} record */
const defaults = (record) => ({ ...attentionDefaults(record), hide: [], from: record.chosen?.from ?? null });
const OPACITY = 0.78; // of the largest weight over the image

/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    attentionChoosers(context, ["hide", "weights", "colours"]);
    const scene = sceneOf(context);
    if (scene) drawImage(context, scene);
  });
}
/** @param {Context} context @param {import("./attention_maps.js").Scene} scene */
function drawImage(context, scene) {
  const { record, state } = context;
  const { grid: [rows, columns], tokens, classes = [] } = record;
  const labels = scene.map.queries;
  if (state.from !== null && !(state.from < labels.length)) state.from = null;
  const kept = state.from !== null && state.from >= tokens.length ? [state.from] : [];
  chooser(context, "from", [...range(tokens.length), null, ...kept], [...tokens, "mean of patches", ...kept.map((at) => `patch ${labels[at]}`)]);
  const pixels = overlayScale(context.root);
  const image = new Image();
  image.alt = record.title ?? "image";
  image.src = uriOf(arrayOf(record, record.image));
  const canvas = make("canvas", { "aria-hidden": "true" });
  const frame = make("div", { class: "patch", hidden: true });
  const figure = make("div", {
    class: "picture", tabindex: 0, role: "application", "data-focus": "picture",
    "aria-label": `attention over ${rows} × ${columns} patches; the arrow keys move from patch to patch, Enter keeps one`,
  }, canvas, frame);
  const scale = make("div");
  const sections = [make("section", {}, make("h3", {}, "Attention"), figure, scale),
    make("section", {}, make("h3", {}, "Image"), make("div", { class: "picture" }, image),
      ...(classes.length ? [table(["class", "score"], classes, "scores of classes")] : []))];
  context.body.append(make("div", { class: "parts" }, ...sections));
  /** Weights of the patches, from a query. @param {ArrayLike<number>[]} matrix @param {number | null} from */
  const rowOf = (matrix, from) => {
    if (from !== null) return Array.from(matrix[from]);
    const own = matrix.slice(tokens.length);
    return range(labels.length).map((key) => own.reduce((sum, row) => sum + row[key] / own.length, 0));
  };
  /** @param {HTMLCanvasElement} into @param {number[]} weights */
  const over = (into, weights) => {
    const [least, most] = [Math.min(...weights), Math.max(...weights)];
    const shade = shadeOf(context, most - least);
    const heat = new ImageData(columns, rows);
    weights.forEach((weight, patch) => {
      const level = within(Math.round(shade(weight - least)), 256);
      const pixel = pixels[level];
      heat.data.set([pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255, 70 + (255 * OPACITY - 70) * (level / 255)], 4 * patch);
    });
    const small = make("canvas", { width: columns, height: rows });
    small.getContext("2d").putImageData(heat, 0, 0);
    const target = /** @type {CanvasRenderingContext2D} */ (into.getContext("2d"));
    target.filter = "grayscale(1)";
    target.drawImage(image, 0, 0, into.width, into.height);
    target.filter = "none";
    target.drawImage(small, 0, 0, into.width, into.height);
    return [least, most];
  };
  let pointed = /** @type {number | null} */ (null);
  const show = () => {
    const from = pointed ?? state.from;
    const row = rowOf(scene.shown, from);
    const [least, most] = over(canvas, row.slice(tokens.length));
    scale.replaceChildren(legend(pixels, least.toFixed(4), most.toFixed(4)));
    const patch = from === null ? -1 : from - tokens.length;
    frame.hidden = patch < 0;
    Object.assign(frame.style, {
      top: `${(100 * Math.floor(patch / columns)) / rows}%`, left: `${(100 * (patch % columns)) / columns}%`,
      height: `${100 / rows}%`, width: `${100 / columns}%`,
    });
    const name = from === null ? "the mean of all patches" : from < tokens.length ? `the ${tokens[from]} token` : `patch ${labels[from]}`;
    context.say(word(name), " looks most at ", ...strongest(row, labels));
  };
  /** @param {number | null} patch */
  const point = (patch) => {
    if (pointed === (pointed = patch)) return;
    show();
    context.select({ layer: state.layer, head: state.head, token: pointed, kept: false });
  };
  image.onload = () => {
    const side = 680 / Math.max(image.naturalWidth, image.naturalHeight);
    Object.assign(canvas, { width: Math.round(image.naturalWidth * side), height: Math.round(image.naturalHeight * side) });
    image.width = canvas.width;
    show();
    if (!context.signal.aborted) allHeads();
  };
  figure.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const box = figure.getBoundingClientRect();
    const row = within(Math.floor((rows * (event.clientY - box.top)) / box.height), rows);
    const column = within(Math.floor((columns * (event.clientX - box.left)) / box.width), columns);
    point(tokens.length + row * columns + column);
  });
  figure.addEventListener("pointerleave", () => point(null));
  figure.addEventListener("click", () => { if (pointed !== null) context.set({ from: pointed }); });
  cursor(figure, rows, columns, (row, column) => point(tokens.length + row * columns + column), () => point(null),
    (row, column) => context.set({ from: tokens.length + row * columns + column }));

  const allHeads = () => {
    const { map } = scene;
    const count = headsOf(map, null);
    if (map.layers.length * count < 2) return;
    const side = Math.max(40, Math.min(120, (context.root.clientWidth - 90) / count - 8));
    const ratio = side / Math.max(image.naturalWidth, image.naturalHeight);
    const rows = map.layers.map((/** @type {any} */ own, /** @type {number} */ layer) => make("tr", {}, make("th", { scope: "row" }, `layer ${layer}`),
      ...range(own.heads).map((head) => {
        const small = make("canvas", { width: Math.round(2 * image.naturalWidth * ratio), height: Math.round(2 * image.naturalHeight * ratio), style: { width: `${image.naturalWidth * ratio}px` } });
        const paintHead = () => {
          const matrix = matrixOf(record, map, layer, head);
          if (!matrix) return loadLayer(context, layer, paintHead);
          over(small, rowOf(scene.trim(matrix), state.from).slice(tokens.length));
        };
        paintHead();
        return make("td", {}, make("button", {
          type: "button", "aria-label": `layer ${layer}, head ${head}`, "data-focus": `picture ${layer} ${head}`,
          "aria-pressed": String(state.layer === layer && state.head === head), onclick: () => context.set({ layer, head }),
        }, small));
      })));
    context.body.append(make("h3", {}, "All heads"), make("div", { class: "scrolls pictures", "data-scroll": "" }, make("table", {}, ...rows)));
  };
}
/** @param {ArrayLike<number>} bytes */
function uriOf(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i++) text += String.fromCharCode(bytes[i]);
  return `data:image/png;base64,${btoa(text)}`;
}
