// The page of an image: the image under the attention of one of its tokens or patches. It needs
// attention.js. A second block of JSON has the grid of patches, the names of the tokens before
// them, and the ramp: colours with opacity, from the least weight to the largest.
const { grid: [rows, columns], tokens, ramp, grey } = JSON.parse(at("picture").textContent);
const image = at("image");
const patches = rows * columns;
let pointed = null; // the patch under the pointer, as a position of a query, or null

// ---- what attends -----------------------------------------------------------------------------

// chosen.from is the position of a query, or null for the mean of all patches.
const query = () => pointed ?? chosen.from;

function nameOf(from) {
  if (from === null) return "the mean of all patches";
  return from < tokens.length ? `the ${tokens[from]} token` : `patch ${map().queries[from]}`;
}

// The weights of all keys, from the query.
function rowOf(matrix, from) {
  if (from !== null) return matrix[from];
  const own = matrix.slice(tokens.length);
  return own[0].map((_, k) => own.reduce((sum, row) => sum + row[k] / patches, 0));
}

function layFrom() {
  const all = [...tokens.keys(), null];
  const labels = [...tokens, "mean"];
  if (chosen.from !== null && chosen.from >= tokens.length) {
    all.push(chosen.from);
    labels.push(`patch ${map().queries[chosen.from]}`);
  }
  return chooser("from", all, labels);
}
function prepare() { // a patch that was not chosen before has no button yet
  if (!at("from").querySelector(`[value="${chosen.from}"]`)) at("from").replaceWith(layFrom());
}

// ---- drawing ----------------------------------------------------------------------------------

// The image in dim greys, so that the colours of weights stand out.
const dim = make("canvas");
function readImage() {
  Object.assign(dim, { width: image.naturalWidth, height: image.naturalHeight });
  const context = dim.getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, dim.width, dim.height);
  for (let i = 0; i < pixels.data.length; i += 4) {
    const [red, green, blue] = pixels.data.subarray(i, i + 3);
    const level = 0.299 * red + 0.587 * green + 0.114 * blue;
    pixels.data.fill(grey[0] + level * (grey[1] - grey[0]) / 255, i, i + 3);
  }
  context.putImageData(pixels, 0, 0);
}

// The dim image, and over it one pixel for each patch, smoothly stretched over all.
function paint(canvas, weights) {
  const least = Math.min(...weights);
  const range = Math.max(...weights) - least || 1;
  const heat = new ImageData(columns, rows);
  weights.forEach((weight, p) => {
    heat.data.set(ramp[Math.round(255 * darkness(weight - least, range))], 4 * p);
  });
  const small = make("canvas", { width: columns, height: rows });
  small.getContext("2d").putImageData(heat, 0, 0);
  const context = canvas.getContext("2d");
  Object.assign(context, { imageSmoothingEnabled: true, imageSmoothingQuality: "high" });
  context.drawImage(dim, 0, 0, canvas.width, canvas.height);
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
}
const ofPatches = (row) => [...row].slice(tokens.length);

function paintHeat() {
  const weights = ofPatches(rowOf(shown, query()));
  paint(at("attention"), weights);
  at("least").textContent = Math.min(...weights).toFixed(4);
  at("peak").textContent = Math.max(...weights).toFixed(4);
  const patch = query() === null ? -1 : query() - tokens.length;
  for (const frame of document.querySelectorAll(".patch")) {
    frame.hidden = patch < 0;
    const [row, column] = [Math.floor(patch / columns), patch % columns];
    Object.assign(frame.style, {
      top: `${100 * row / rows}%`, left: `${100 * column / columns}%`,
      height: `${100 / rows}%`, width: `${100 / columns}%`,
    });
  }
  at("readout").replaceChildren(...readout());
}

function readout() {
  const row = rowOf(shown, query());
  return [word(nameOf(query())), " looks most at ", ...strongest(row, map().keys)];
}

// One picture for each head, all from the chosen query.
function picture() {
  const [width, height] = pictureSides(dim.width, dim.height).map(Math.round);
  const canvas = make("canvas", { width: 2 * width, height: 2 * height });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  return canvas;
}
function paintPicture(canvas, matrix) {
  paint(canvas, ofPatches(rowOf(matrix, chosen.from)));
}

// ---- pointing ---------------------------------------------------------------------------------

const within = (index, size) => Math.min(Math.max(index, 0), size - 1);

function point(patch) {
  if (patch === pointed) return;
  pointed = patch;
  paintHeat();
}

for (const figure of document.querySelectorAll(".picture")) {
  figure.addEventListener("pointermove", (event) => {
    const box = figure.getBoundingClientRect();
    const row = within(Math.floor(rows * (event.clientY - box.top) / box.height), rows);
    const column = within(Math.floor(columns * (event.clientX - box.left) / box.width), columns);
    point(tokens.length + row * columns + column);
  });
  figure.addEventListener("pointerleave", () => point(null));
  figure.addEventListener("click", () => { if (pointed !== null) choose({ from: pointed }); });
  figure.addEventListener("keydown", (event) => {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Escape") return choose({ from: tokens.length ? 0 : null });
    if (!(event.key in steps)) return;
    event.preventDefault();
    const patch = chosen.from === null ? -1 : chosen.from - tokens.length;
    const [down, right] = patch < 0 ? [0, 0] : steps[event.key];
    const row = within(Math.floor(Math.max(patch, 0) / columns) + down, rows);
    const column = within(Math.max(patch, 0) % columns + right, columns);
    choose({ from: tokens.length + row * columns + column });
  });
}

// ---- begin ------------------------------------------------------------------------------------

function start() {
  readImage();
  const scale = 960 / Math.max(dim.width, dim.height);
  Object.assign(at("attention"), { width: dim.width * scale, height: dim.height * scale });
  const colours = ramp.map(([red, green, blue]) => `rgb(${red} ${green} ${blue})`);
  at("ramp").style.background = `linear-gradient(to right, ${colours})`;
  begin({
    choosers: () => [layFrom()], prepare, trim: (matrix) => matrix, show: paintHeat, picture, paintPicture,
    pictured: () => [chosen.map, chosen.from, chosen.scale].join(),
    fields: { from: numberField("mean", () => map().queries.length) },
  });
}
if (image.complete) start();
else image.addEventListener("load", start);
