// The page of a text: a heat map of queries and keys, and lines between them. It needs
// attention.js. query and key are those under the pointer, or null.
const pointed = { query: null, key: null };
const masked = (query, key) => map().allowed !== null && !map().allowed[query][key];

// ---- text -------------------------------------------------------------------------------------

const ruler = document.createElement("canvas").getContext("2d");
function textWidth(text, size) {
  ruler.font = `600 ${size}px ${getComputedStyle(document.documentElement).fontFamily}`;
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

// 256 steps from paper to accent. Mixed here, not by opacity, whose rounding tints faint cells.
let ramp;
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const [paper, accent] = ["--paper", "--accent"]
    .map((name) => style.getPropertyValue(name).trim().split(" ").map(Number));
  const mix = (share) => paper.map((level, i) => Math.round(level + (accent[i] - level) * share));
  ramp = [...Array(256).keys()].map((step) => mix(step / 255));
}
function step(weight, most) {
  return Math.round(255 * darkness(weight, most));
}

// ---- heat map ---------------------------------------------------------------------------------

const heat = {}; // sizes and elements of the heat map, laid out anew for each map

function layHeat() {
  const { queries, keys } = map();
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
  heat.squares = draw("g");
  heat.row = draw("rect", { class: "band", width, height: cell, visibility: "hidden" });
  heat.column = draw("rect", { class: "band", width: cell, height, visibility: "hidden" });
  heat.spot = draw("rect", { class: "spot", width: cell, height: cell });
  heat.cells = draw(
    "svg", { class: "cells", width, height }, heat.squares, heat.row, heat.column, heat.spot,
  );
  at("heat").replaceChildren(
    make("div", { class: "corner" }),
    draw("svg", { class: "columns", width: Math.max(0, ...ends), height: rise }, ...heat.columns),
    make("ol", { class: "rows", style: `width:${side}px` }, ...heat.rows),
    heat.cells,
  );
}

// One path for all squares of a colour: however long the text, a few hundred elements.
function paintHeat() {
  const { cell } = heat;
  const square = `h${cell - 1}v${cell - 1}h${1 - cell}z`;
  const paths = ramp.map(() => []);
  const forbidden = [];
  shown.forEach((row, q) => row.forEach((weight, k) => {
    const path = masked(q, k) ? forbidden : paths[step(weight, peak)];
    path.push(`M${k * cell} ${q * cell}${square}`);
  }));
  const drawn = paths.map((path, i) => draw("path", { fill: `rgb(${ramp[i]})`, d: path.join("") }));
  const grey = draw("path", { class: "masked", d: forbidden.join("") });
  heat.squares.replaceChildren(grey, ...drawn.slice(1)); // the first is as light as the paper
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
at("heat").addEventListener("pointermove", (event) => {
  const row = heat.rows.indexOf(event.target);
  const column = heat.columns.indexOf(event.target);
  if (row >= 0) return point({ query: row });
  if (column >= 0) return point({ key: column });
  if (!heat.cells.contains(event.target)) return point({});
  const box = heat.cells.getBoundingClientRect();
  point({
    query: within(Math.floor((event.clientY - box.top) / heat.cell), map().queries),
    key: within(Math.floor((event.clientX - box.left) / heat.cell), map().keys),
  });
});
at("heat").addEventListener("pointerleave", () => point({}));
at("heat").addEventListener("keydown", (event) => {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (event.key === "Escape") return point({});
  if (!(event.key in steps)) return;
  event.preventDefault();
  const [down, right] = pointed.query === null || pointed.key === null ? [0, 0] : steps[event.key];
  const query = within((pointed.query ?? 0) + down, map().queries);
  const key = within((pointed.key ?? 0) + right, map().keys);
  point({ query, key });
  heat.spot.scrollIntoView({ block: "nearest", inline: "nearest" });
});

// ---- lines ------------------------------------------------------------------------------------

const lines = {}; // the same for the lines

function layLines() {
  const { queries, keys } = map();
  const longer = Math.max(queries.length, keys.length, 1);
  const height = longer > 40 ? 18 : 28;
  const size = longer > 40 ? 12 : 15;
  const left = longest(queries.map((query) => clip(query)), size) + 14;
  const right = longest(keys.map((key) => clip(key)), size) + 14;
  const gap = Math.max(120, Math.min(300, at("lines").clientWidth - left - right - 2));
  Object.assign(lines, { height, from: left + 4, to: left + gap - 4 });

  const words = (side, labels, x, width, anchor, inset) => labels.map((label, i) => {
    const box = { x, y: i * height + 2, width, height: height - 4, rx: 3 };
    const place = { x: x + inset, y: (i + 0.5) * height + size * 0.33, "text-anchor": anchor };
    return draw(
      "g", { "data-side": side, "data-index": i },
      draw("rect", { class: "mark", "fill-opacity": 0, ...box }),
      draw("text", { "font-size": size, ...place }, clip(label)),
    );
  });
  lines.query = words("query", queries, 0, left, "end", left - 7);
  lines.key = words("key", keys, left + gap, right, "start", 7);
  lines.all = draw("g");
  lines.alone = draw("g");
  at("lines").replaceChildren(draw(
    "svg", { width: left + gap + right, height: longer * height },
    lines.all, lines.alone, ...lines.query, ...lines.key,
  ));
}

function curve(query, key) {
  const { height, from, to } = lines;
  const [start, end, middle] = [(query + 0.5) * height, (key + 0.5) * height, (from + to) / 2];
  const d = `M${from} ${start}C${middle} ${start} ${middle} ${end} ${to} ${end}`;
  const opacity = darkness(shown[query][key], peak).toFixed(3);
  return draw("path", { class: "line", d, "stroke-opacity": opacity });
}

// Less than a twentieth of the peak would only be haze, and so would more than a few thousand.
function paintLines() {
  const pairs = [];
  shown.forEach((row, q) => row.forEach((weight, k) => {
    if (weight >= peak / 20) pairs.push([q, k]);
  }));
  pairs.sort(([q, k], [r, l]) => shown[r][l] - shown[q][k]);
  lines.all.replaceChildren(...pairs.slice(0, 4000).map(([q, k]) => curve(q, k)));
}

function pointLines() {
  const { query, key } = pointed;
  const someone = query !== null || key !== null;
  const pairs = [];
  if (query !== null) map().keys.forEach((_, k) => pairs.push([query, k]));
  else if (key !== null) map().queries.forEach((_, q) => pairs.push([q, key]));
  const visible = pairs.filter(([q, k]) => shown[q][k] >= peak / 200);
  lines.all.setAttribute("visibility", someone ? "hidden" : "visible");
  lines.alone.replaceChildren(...visible.map(([q, k]) => curve(q, k)));
  for (const side of ["query", "key"])
    lines[side].forEach((word, i) => {
      const share = side === "key" ? shown[query]?.[i] : query === null ? shown[i][key] : undefined;
      word.classList.toggle("on", pointed[side] === i);
      word.firstChild.setAttribute("fill-opacity", (darkness(share ?? 0, peak) * 0.45).toFixed(3));
    });
}

at("lines").addEventListener("pointermove", (event) => {
  const word = event.target.closest("g[data-side]");
  point(word ? { [word.dataset.side]: Number(word.dataset.index) } : {});
});
at("lines").addEventListener("pointerleave", () => point({}));

// ---- what the reader points at ----------------------------------------------------------------

function point({ query = null, key = null }) {
  Object.assign(pointed, { query, key });
  pointHeat();
  pointLines();
  at("readout").replaceChildren(...readout());
}

function readout() {
  const { queries, keys } = map();
  const { query, key } = pointed;
  if (query === null && key === null) return ["Point at a cell or a word to read its weights."];
  if (query !== null && key !== null && masked(query, key))
    return [word(queries[query]), " may not look at ", word(keys[key])];
  if (query !== null && key !== null)
    return [word(queries[query]), " looks at ", word(keys[key]), number(shown[query][key])];
  const most = query !== null
    ? strongest(shown[query], keys)
    : strongest(shown.map((row) => row[key]), queries);
  return query !== null
    ? [word(queries[query]), " looks most at ", ...most]
    : [word(keys[key]), " is seen most by ", ...most];
}

// ---- small pictures ---------------------------------------------------------------------------

// One pixel per weight, stretched by the browser: hundreds of heads stay quick.
function picture(matrix) {
  const height = matrix.length;
  const width = height ? matrix[0].length : 0;
  const [across, down, scale] = pictureSides(width, height);
  const canvas = make("canvas", { width: Math.max(width, 1), height: Math.max(height, 1) });
  Object.assign(canvas.style, { width: `${across}px`, height: `${down}px` });
  if (scale >= 1) canvas.style.imageRendering = "pixelated";
  const image = new ImageData(canvas.width, canvas.height);
  const most = largest(matrix) || 1;
  image.data.fill(255);
  matrix.forEach((row, q) => row.forEach((weight, k) => {
    if (masked(q, k)) image.data[4 * (q * width + k) + 3] = 0; // transparent: the canvas is grey
    else image.data.set(ramp[step(weight, most)], 4 * (q * width + k));
  }));
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// ---- begin ------------------------------------------------------------------------------------

function show(change) {
  at("masked").hidden = map().allowed === null;
  if ("map" in change) { layHeat(); layLines(); }
  paintHeat();
  paintLines();
  point({});
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readColours();
  choose({ map: chosen.map });
});

readColours();
begin({ choosers: () => [], show, picture, pictured: ["scale"] });
