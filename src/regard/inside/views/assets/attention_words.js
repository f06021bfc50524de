// The page of a text: a heat map of queries and keys, and lines between them. It needs
// attention.js, attention_hidden.js and attention_lines.js. query and key are indices, among the
// tokens that are not hidden, of those under the pointer, or null.
const pointed = { query: null, key: null };

// ---- text -------------------------------------------------------------------------------------

const ruler = document.createElement("canvas").getContext("2d");
const family = getComputedStyle(document.documentElement).fontFamily;
function textWidth(text, size) {
  ruler.font = `600 ${size}px ${family}`;
  return ruler.measureText(text).width;
}
function longest(labels, size) {
  return Math.max(0, ...labels.map((label) => textWidth(label, size)));
}
function clip(label, most = 20) {
  const letters = [...label];
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : label;
}

// ---- colour -----------------------------------------------------------------------------------

// 256 steps from paper to accent, as pixels. Mixed here, not by opacity, whose rounding tints faint
// cells.
let ramp;
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const [paper, accent] = ["--paper", "--accent"]
    .map((name) => style.getPropertyValue(name).trim().split(" ").map(Number));
  const mix = (share) => paper.map((level, i) => Math.round(level + (accent[i] - level) * share));
  const pixels = [...Array(256).keys()].flatMap((step) => [...mix(step / 255), 255]);
  ramp = new Uint32Array(Uint8Array.from(pixels).buffer);
}

// One pixel per weight, stretched by the browser. Masked ones are transparent: the canvas is grey.
function paintWeights(canvas, matrix, most, masked) {
  const [width, height] = [matrix.length && matrix[0].length, matrix.length];
  Object.assign(canvas, { width: Math.max(width, 1), height: Math.max(height, 1) });
  const image = new ImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let q = 0, i = 0; q < height; q++)
    for (let k = 0; k < width; k++, i++)
      if (!masked(q, k)) pixels[i] = ramp[Math.round(255 * darkness(matrix[q][k], most))];
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// ---- heat map ---------------------------------------------------------------------------------

const heat = {}; // sizes and elements of the heat map, laid out anew for other tokens

function layHeat() {
  const { queries, keys } = part;
  const rows = queries.map((query) => clip(query));
  const columns = keys.map((key) => clip(key));
  const longer = Math.max(queries.length, keys.length, 1);
  const room = at("heat").parentElement.clientWidth - longest(rows, 15) - 24;
  const fitting = Math.floor(Math.min(440 / longer, room / (keys.length + 0.5)));
  const cell = Math.max(15, Math.min(32, fitting));
  const size = Math.max(11, Math.min(15, cell * 0.62));
  const rise = longest(columns, size) * Math.sin(1) + size; // labels rise by one radian
  const ends = columns.map((name, k) => (k + 1) * cell + textWidth(name, size) * Math.cos(1));
  const width = keys.length * cell;
  const height = queries.length * cell;
  const side = longest(rows, size) + 12;
  at("heat").style.scrollPadding = `${rise}px 0 0 ${side}px`; // the labels lie over what scrolls
  heat.cell = cell;

  heat.columns = columns.map((name, k) => {
    const transform = `translate(${(k + 0.6) * cell} ${rise - 4}) rotate(${-180 / Math.PI})`;
    return draw("text", { transform, "font-size": size }, name);
  });
  const style = `height:${cell}px;line-height:${cell}px;font-size:${size}px`;
  heat.rows = rows.map((name) => make("li", { style }, name));
  heat.row = draw("rect", { class: "band", width, height: cell, visibility: "hidden" });
  heat.column = draw("rect", { class: "band", width: cell, height, visibility: "hidden" });
  heat.spot = draw("rect", { class: "spot", width: cell, height: cell });
  heat.squares = make("canvas", { style: `width:${width}px;height:${height}px` });
  const bands = draw("svg", { width, height }, heat.row, heat.column, heat.spot);
  bands.style.setProperty("--cell", `${cell}px`);
  heat.cells = make("div", { class: "cells" }, heat.squares, bands);
  at("heat").replaceChildren(
    make("div", { class: "corner" }),
    draw("svg", { class: "columns", width: Math.max(0, ...ends), height: rise }, ...heat.columns),
    make("ol", { class: "rows", style: `width:${side}px` }, ...heat.rows),
    heat.cells,
  );
}

function paintHeat() {
  paintWeights(heat.squares, shown, peak, masked);
  at("peak").textContent = largest(shown).toFixed(4);
  at("peak").parentElement.style.marginLeft = `${heat.cells.previousElementSibling.offsetWidth}px`;
}

function pointHeat() {
  const { query, key } = pointed;
  heat.rows.forEach((row, q) => row.classList.toggle("on", q === query));
  heat.columns.forEach((column, k) => column.classList.toggle("on", k === key));
  heat.row.setAttribute("visibility", query === null ? "hidden" : "visible");
  heat.row.setAttribute("y", (query ?? 0) * heat.cell);
  heat.column.setAttribute("visibility", key === null ? "hidden" : "visible");
  heat.column.setAttribute("x", (key ?? 0) * heat.cell);
  heat.spot.setAttribute("y", (query ?? 0) * heat.cell);
  heat.spot.setAttribute("x", (key ?? 0) * heat.cell);
}

const within = (index, labels) => Math.min(Math.max(index, 0), labels.length - 1);
const labelAt = (event) => {
  const row = heat.rows.indexOf(event.target);
  const column = heat.columns.indexOf(event.target);
  return row >= 0 ? { query: row } : column >= 0 ? { key: column } : {};
};
at("heat").addEventListener("pointermove", (event) => {
  if (!heat.cells.contains(event.target)) return point(labelAt(event));
  const box = heat.cells.getBoundingClientRect();
  point({
    query: within(Math.floor((event.clientY - box.top) / heat.cell), part.queries),
    key: within(Math.floor((event.clientX - box.left) / heat.cell), part.keys),
  });
});
at("heat").addEventListener("pointerleave", () => point({}));
at("heat").addEventListener("click", (event) => keep(labelAt(event)));
at("heat").addEventListener("keydown", (event) => {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (event.key === "Escape") return choose({ word: null });
  if (!(event.key in steps)) return;
  event.preventDefault();
  const [down, right] = pointed.query === null || pointed.key === null ? [0, 0] : steps[event.key];
  const query = within((pointed.query ?? 0) + down, part.queries);
  const key = within((pointed.key ?? 0) + right, part.keys);
  point({ query, key });
  heat.spot.scrollIntoView({ block: "nearest", inline: "nearest" });
});

// ---- what the reader points at ----------------------------------------------------------------

// chosen.word is the word that is kept, such as "q5", the query of index 5 in the map, or null.
function kept() {
  const index = Number(chosen.word?.slice(1) ?? NaN);
  const [side, left] = chosen.word?.startsWith("q") ? ["query", part.rows] : ["key", part.columns];
  return left.includes(index) ? { [side]: left.indexOf(index) } : {};
}
function keep({ query, key }) {
  if (query === undefined && key === undefined) return;
  const word = query === undefined ? `k${part.columns[key]}` : `q${part.rows[query]}`;
  choose({ word: chosen.word === word ? null : word });
}

function point(target) {
  const { query = null, key = null } = Object.keys(target).length ? target : kept();
  Object.assign(pointed, { query, key });
  pointHeat();
  pointLines();
  at("readout").replaceChildren(...readout());
}

const ofBundles = (values) => lines.bundles.flatMap(values);
function readout() {
  const { queries, keys } = part;
  const { query, key } = pointed;
  if (query === null && key === null) return ["Point at a cell or a word to read its weights."];
  if (query !== null && key !== null && masked(query, key))
    return [word(queries[query]), " may not look at ", word(keys[key])];
  if (query !== null && key !== null)
    return [word(queries[query]), " looks at ", word(keys[key]), number(shown[query][key])];
  const named = (labels, head) => labels.map((label) => label + (head === null ? "" : ` (head ${head})`));
  const most = query !== null
    ? strongest(ofBundles(({ matrix }) => [...matrix[query]]), ofBundles(({ head }) => named(keys, head)))
    : strongest(ofBundles(({ matrix }) => matrix.map((row) => row[key])),
      ofBundles(({ head }) => named(queries, head)));
  return query !== null
    ? [word(queries[query]), " looks most at ", ...most]
    : [word(keys[key]), " is seen most by ", ...most];
}

// ---- small pictures ---------------------------------------------------------------------------

const FINEST = 2; // pixels of a small picture for each pixel of the screen

function picture() {
  const [across, down, scale] = pictureSides(part.keys.length, part.queries.length);
  const canvas = make("canvas", { style: `width:${across}px;height:${down}px` });
  if (scale >= 1) canvas.style.imageRendering = "pixelated";
  return canvas;
}

// Of a long text, a pixel is the largest of several weights: a mean would hide diagonals.
function paintPicture(canvas, head) {
  const { queries, keys } = part;
  const [across, down] = pictureSides(keys.length, queries.length);
  const [rows, columns] = [[queries, down], [keys, across]]
    .map(([labels, side]) => Math.ceil(labels.length / Math.ceil(labels.length / (FINEST * side))) || 0);
  const [tall, wide] = [Math.ceil(queries.length / rows), Math.ceil(keys.length / columns)];
  const pooled = Array.from({ length: rows }, () => new Float32Array(columns));
  trim(head).forEach((row, q) => {
    const into = pooled[Math.floor(q / tall)];
    for (let k = 0; k < row.length; k++) {
      const column = Math.floor(k / wide);
      if (row[k] > into[column]) into[column] = row[k];
    }
  });
  const hidden = (row, column) => masked(Math.min((row + 1) * tall, queries.length) - 1, column * wide);
  paintWeights(canvas, pooled, largest(pooled) || 1, hidden);
}

// ---- begin ------------------------------------------------------------------------------------

const VIEWS = ["both", "matrix", "lines"];
const WEIGHTS = ["raw", "renormalised"];
Object.assign(chosen, { view: "both", weights: "raw", heads: [], word: null });

function prepare() {
  chosen.heads = chosen.heads.filter((head) => head < headsOf(chosen.layer));
  hideTokens();
  at("matrix").hidden = chosen.view === "lines";
  at("between").hidden = chosen.view === "matrix";
  for (const name of ["matrix", "between"])
    at(name).classList.toggle("wide", chosen.view !== "both");
}

// The largest error of a weight, in percent: half a step below the largest, where steps are widest.
const roundedBy = (steps) => Math.ceil(100 * (1 - (1 - 0.5 / steps) ** (1 / POWER)));

let laid = ""; // what the layout of heat map and lines depends on, as it was laid out last
const layout = () => [chosen.map, chosen.view, part.rows, part.columns, innerWidth].join(";");
function show() {
  at("masked").hidden = map().allowed === null;
  at("rounded").textContent = map().steps === null ? ""
    : `Weights are rounded, each by less than ${roundedBy(map().steps)} % of the largest in its row.`;
  layHidden();
  layHeads();
  if (laid !== (laid = layout())) { layHeat(); layLines(); }
  paintHeat();
  paintLines();
  point({});
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readColours();
  pictured = null;
  choose({});
});
addEventListener("resize", () => { if (part && laid !== layout()) choose({}); });

readColours();
begin({
  choosers: () => [
    chooser("view", VIEWS, ["both", "heat map", "lines"]),
    ticker("hide", ["special", "sinks"], ["special tokens", "sinks"]),
    chooser("weights", WEIGHTS, ["as they are", "renormalised"]),
  ],
  prepare, trim, show, picture, paintPicture,
  pictured: () => [chosen.map, chosen.scale, chosen.weights, part.rows, part.columns].join(";"),
  fields: {
    view: wordField(...VIEWS),
    hide: listField(wordField("special", "sinks")),
    weights: wordField(...WEIGHTS),
    heads: listField(numberField("", () => headsOf(chosen.layer))),
    word: {
      write: (value) => value ?? "",
      read: (text) => {
        const [, side, index] = /^([qk])(\d{1,6})$/.exec(text) ?? [];
        const labels = side === "q" ? map().queries : map().keys;
        return side && Number(index) < labels.length ? text : undefined;
      },
    },
  },
});
