// What the pages of texts and of images share. Everything is drawn from one block of JSON, a list
// of maps {name, queries, keys, allowed, unchosen, special, steps, layers, means, mean}. A packed
// matrix of weights (attention_weights.js) is layers[layer][head]; means[layer], null if the layer has
// fewer than two heads; and mean, what is shown of all layers and heads. Unpacked, allowed[query][key]
// is 0 where the mask forbids it (null if it forbids nothing). A layer or head of null means none is
// chosen: the mean is shown, or of a rollout (unchosen is "all") the last layer. The form says what is
// chosen at first.
const maps = JSON.parse(document.getElementById("data").textContent);
for (const each of maps) each.allowed = each.allowed && unpackMask(each.allowed, each);
const chosen = { ...JSON.parse(at("choosers").dataset.chosen), scale: "linear" };
const map = () => maps[chosen.map];
let page; // what this page adds: see begin

// ---- numbers ----------------------------------------------------------------------------------

// The (query × key) matrix of a layer and head; the mean over whatever is left open.
function weights(layer, head) {
  const { layers, queries, keys } = map();
  if (layer === null && head === null && map().mean) return matrixOf(null, null);
  const all = [...layers.keys()];
  const every = layer !== null ? [layer] : map().unchosen === "all" ? all.slice(-1) : all;
  const open = every.filter((each) => layers[each].length > (head ?? 0));
  if (open.length === 1) return matrixOf(open[0], head);
  return keepMatrix(["mean", layer, head], () => {
    const mean = queries.map(() => new Float64Array(keys.length));
    for (const each of open)
      matrixOf(each, head).forEach((row, q) => {
        const into = mean[q];
        for (let k = 0; k < row.length; k++) into[k] += row[k] / open.length;
      });
    return mean;
  });
}
function largest(matrix) {
  let peak = 0;
  for (const row of matrix) for (let k = 0; k < row.length; k++) if (row[k] > peak) peak = row[k];
  return peak;
}
let shown = []; // the matrix on display
let peak = 1; // its largest weight

// How dark a weight is, from 0 to 1; the root lifts what a few large weights would hide.
function darkness(weight, most) {
  return chosen.scale === "root" ? Math.sqrt(weight / most) : weight / most;
}

// The largest of some weights with their labels, for the line under the choosers.
function strongest(weights, labels) {
  return [...weights].map((weight, i) => [weight, labels[i]])
    .sort(([one], [other]) => other - one)
    .slice(0, 4)
    .flatMap(([weight, label]) => [word(label), number(weight)]);
}
const word = (text) => make("b", { dir: "auto" }, text);
const number = (weight) => ` ${weight.toFixed(4)}   `;

// ---- choosers ---------------------------------------------------------------------------------

function chooser(name, values, labels) {
  const group = make("fieldset", { id: name }, make("legend", {}, name));
  values.forEach((value, i) => {
    const button = make("input", { type: "radio", name, value: String(value) });
    button.addEventListener("change", () => choose({ [name]: value }));
    group.append(make("label", {}, button, make("span", {}, labels[i])));
  });
  return group;
}
// Boxes to tick: chosen[name] is the list of those that are ticked, in their order.
function ticker(name, values, labels) {
  const group = make("fieldset", { id: name }, make("legend", {}, name));
  values.forEach((value, i) => {
    const box = make("input", { type: "checkbox", name, value });
    box.addEventListener("change", () => choose({
      [name]: values.filter((each) => (each === value) ? box.checked : chosen[name].includes(each)),
    }));
    group.append(make("label", {}, box, make("span", {}, labels[i])));
  });
  return group;
}
// Buttons for so many layers or heads. Those that are there stay, so that they keep the focus.
function layNumbers(name, count, unchosen) {
  if (at(name).dataset.count === `${count} ${unchosen}`) return;
  const all = [...Array(count).keys()];
  const group = chooser(name, [null, ...all], [unchosen, ...all]);
  group.hidden = count < 2; // a single layer or head is its own mean
  group.dataset.count = `${count} ${unchosen}`;
  at(name).replaceWith(group);
}
function tickChosen() {
  for (const input of at("choosers").querySelectorAll("input")) {
    const value = chosen[input.name];
    input.checked = Array.isArray(value) ? value.includes(input.value) : String(value) === input.value;
  }
}
function headsOf(layer) {
  const counts = map().layers.map((heads) => heads.length);
  return layer === null ? Math.max(0, ...counts) : counts[layer];
}

// Change what is shown, and draw again what depends on it.
function choose(change) {
  Object.assign(chosen, change);
  const { layers, unchosen } = map();
  if (chosen.layer !== null && chosen.layer >= layers.length) chosen.layer = null;
  if (chosen.head !== null && chosen.head >= headsOf(chosen.layer)) chosen.head = null;
  layNumbers("layer", layers.length, unchosen);
  layNumbers("head", headsOf(chosen.layer), "mean");
  page.prepare();
  tickChosen();
  shown = page.trim(weights(chosen.layer, chosen.head));
  peak = largest(shown) || 1;
  page.show();
  if (pictured !== (pictured = page.pictured())) layPictures();
  markPictures();
  writeAddress();
}
let pictured = null; // what the small pictures depend on, as they were drawn last

// ---- overview ---------------------------------------------------------------------------------

function layPictures() {
  const { layers } = map();
  at("overview").hidden = layers.length * headsOf(null) < 2;
  const table = make("table");
  const heads = [...Array(headsOf(null)).keys()];
  const names = heads.map((head) => make("th", { scope: "col" }, heads[1] ? `head ${head}` : ""));
  table.append(make("tr", {}, make("td"), ...names));
  const pictures = [];
  layers.forEach((matrices, layer) => {
    const row = make("tr", {}, make("th", { scope: "row" }, opener(layer, null, `layer ${layer}`)));
    matrices.forEach((_, head) => {
      const canvas = page.picture();
      row.append(make("td", {}, opener(layer, head, canvas)));
      pictures.push(() => page.paintPicture(canvas, matrixOf(layer, head)));
    });
    table.append(row);
  });
  at("pictures").replaceChildren(table);
  paintPictures(pictures);
}

// Pictures of a short text are painted at once, those of a long one a few at a time, so that the page
// stays quick meanwhile. Pictures of another choice take their place.
const AT_ONCE = 500000; // weights
let painting = null;
function paintPictures(pictures) {
  const { queries, keys } = map();
  const count = Math.max(1, Math.floor(AT_ONCE / (queries.length * keys.length || 1)));
  painting = pictures;
  const paintSome = () => {
    if (painting !== pictures) return;
    for (const paint of pictures.splice(0, count)) paint();
    if (pictures.length) setTimeout(paintSome);
  };
  if (pictures.length <= count) paintSome();
  else setTimeout(paintSome);
}

function opener(layer, head, content) {
  const name = head === null ? `layer ${layer}, mean of its heads` : `layer ${layer}, head ${head}`;
  const button = make("button", { type: "button", title: name, "aria-label": name }, content);
  button.addEventListener("click", () => choose({ layer, head }));
  Object.assign(button.dataset, { layer, head });
  return button;
}

function markPictures() {
  for (const button of at("pictures").querySelectorAll("button")) {
    const { layer, head } = button.dataset;
    const open = layer === String(chosen.layer) && head === String(chosen.head);
    button.setAttribute("aria-pressed", open);
  }
}

// The sides of a small picture, so that those of all heads fit into the page.
function pictureSides(width, height) {
  const side = Math.max(48, Math.min(132, 960 / headsOf(null)));
  const scale = side / Math.max(width, height, 1);
  return [Math.max(width * scale, 12), Math.max(height * scale, 12), scale];
}

// The fields of the address.
const fields = () => ({
  map: {
    write: (value) => maps[value].name,
    read: (text) => { const i = maps.findIndex(({ name }) => name === text); return i < 0 ? undefined : i; },
  },
  layer: numberField("mean", () => map().layers.length),
  head: numberField("mean", () => headsOf(chosen.layer)),
  scale: wordField("linear", "root"),
  ...page.fields,
});

// ---- begin ------------------------------------------------------------------------------------

// A page has further choosers(); prepare() that checks its own choices; trim(matrix), the part of a
// matrix that is shown; show() that draws what is chosen; picture(), an empty canvas for a head, and
// paintPicture(canvas, matrix); pictured(), a text of what these pictures depend on; and fields of
// the address (address.js).
function begin(own) {
  page = own;
  if (!maps.length) return;
  at("choosers").append(
    chooser("map", [...maps.keys()], maps.map(({ name }) => name)),
    make("fieldset", { id: "layer" }),
    make("fieldset", { id: "head" }),
    ...page.choosers(),
    chooser("scale", ["linear", "root"], ["linear", "square root"]),
  );
  openAddress();
}
