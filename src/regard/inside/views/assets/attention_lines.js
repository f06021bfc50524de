// Lines between queries and keys: of the weights in the heat map, or of several heads of the layer,
// each in its colour. It needs attention.js and attention_hidden.js.
const HUES = [
  "#c04a2a", "#3a80c0", "#47995a", "#b8841c", "#9365be", "#4f9b9e",
  "#b95789", "#857f76", "#a5673a", "#8f9a2c", "#e5906f", "#74b9e2",
];
const hueOf = (head) => HUES[head % HUES.length];
const lines = {}; // sizes and elements of the lines, and bundles: see bundle
const SIDES = ["query", "key"];

// ---- heads ------------------------------------------------------------------------------------

function layHeads() {
  const heads = [...Array(headsOf(chosen.layer)).keys()];
  at("heads").hidden = heads.length < 2;
  const count = String(heads.length);
  if (at("heads").dataset.count !== count) {
    at("heads").dataset.count = count;
    const several = (name, values) => {
      const button = make("button", { type: "button", class: "several" }, name);
      button.addEventListener("click", () => choose({ heads: values }));
      return button;
    };
    const buttons = heads.map((head) => {
      const names = { title: `head ${head}`, "aria-label": `head ${head}` };
      const button = make("button", { type: "button", "data-head": head, ...names }, String(head));
      button.style.setProperty("--hue", hueOf(head));
      button.addEventListener("click", () => toggle(head));
      return button;
    });
    at("heads").replaceChildren(...buttons, several("all", heads), several("none", []));
  }
  for (const button of at("heads").querySelectorAll("[data-head]"))
    button.setAttribute("aria-pressed", chosen.heads.includes(Number(button.dataset.head)));
}
function toggle(head) {
  const others = chosen.heads.filter((each) => each !== head);
  const heads = others.length < chosen.heads.length ? others : [...others, head];
  choose({ heads: heads.sort((one, other) => one - other) });
}

// What is drawn: matrices, each with a colour, and a shift so that none lies on another.
function bundle() {
  const { heads, layer } = chosen;
  const apart = Math.min(2.5, (0.6 * lines.height) / Math.max(heads.length, 1));
  lines.bundles = heads.map((head, i) => ({
    matrix: trim(weights(layer, head)),
    head,
    style: `stroke:${hueOf(head)}` + (head < HUES.length ? "" : ";stroke-dasharray:5 4"),
    colour: hueOf(head),
    shift: (i - (heads.length - 1) / 2) * apart,
  }));
  if (!heads.length)
    lines.bundles.push({ matrix: shown, head: null, style: "", colour: "", shift: 0 });
  lines.peak = Math.max(...lines.bundles.map(({ matrix }) => largest(matrix))) || 1;
}

// ---- drawing ----------------------------------------------------------------------------------

function layLines() {
  const { queries, keys } = part;
  const longer = Math.max(queries.length, keys.length, 1);
  const height = longer > 40 ? 18 : 28;
  const size = longer > 40 ? 12 : 15;
  const room = at("lines").clientWidth;
  const most = room < 480 ? 12 : 20; // letters of a label
  const left = longest(queries.map((query) => clip(query, most)), size) + 14;
  const right = longest(keys.map((key) => clip(key, most)), size) + 14;
  const gap = Math.max(110, Math.min(Math.max(340, room / 2), room - left - right - 2));
  Object.assign(lines, { height, from: left + 4, to: left + gap - 4 });

  const words = (side, labels, x, width, anchor, inset) => labels.map((label, i) => {
    const box = { x, y: i * height + 2, width, height: height - 4, rx: 3 };
    const place = { x: x + inset, y: (i + 0.5) * height + size * 0.33, "text-anchor": anchor };
    return draw(
      "g", { "data-side": side, "data-index": i },
      draw("rect", { class: "mark", "fill-opacity": 0, ...box }),
      draw("text", { "font-size": size, ...place }, clip(label, most)),
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

function curve({ matrix, style, shift, head }, query, key) {
  const { height, from, to } = lines;
  const [start, end] = [query, key].map((row) => ((row + 0.5) * height + shift).toFixed(1));
  const middle = (from + to) / 2;
  const d = `M${from} ${start}C${middle} ${start} ${middle} ${end} ${to} ${end}`;
  const opacity = darkness(matrix[query][key], lines.peak).toFixed(3);
  return draw("path", { class: "line", d, "stroke-opacity": opacity, style, "data-head": head });
}

// Pairs of tokens with their bundles, from the largest weight down. Less than a share of the peak
// would only be haze, and so would more than a few lines for each token.
function strands(least, wanted) {
  const most = Math.max(400, 4 * lines.query.length);
  const enough = (weight, q, k) => weight >= lines.peak * least && wanted(q, k);
  const weights = [];
  const found = [];
  eachWeight((weight, q, k) => { if (enough(weight, q, k)) weights.push(weight); });
  const lowest = Float64Array.from(weights).sort().at(-most) ?? 0; // of those that are drawn
  eachWeight((weight, q, k, each) => {
    if (weight >= lowest && enough(weight, q, k)) found.push([weight, each, q, k]);
  });
  return found.sort(([one], [other]) => other - one).slice(0, most);
}
function eachWeight(visit) {
  for (const each of lines.bundles)
    each.matrix.forEach((row, q) => row.forEach((weight, k) => visit(weight, q, k, each)));
}
const curves = (found) => found.map(([, each, q, k]) => curve(each, q, k));

function paintLines() {
  bundle();
  lines.all.replaceChildren(...curves(strands(1 / 20, () => true)));
}

function pointLines() {
  const { query, key } = pointed;
  const someone = query !== null || key !== null;
  const wanted = (q, k) => (query !== null ? q === query : k === key);
  lines.all.setAttribute("visibility", someone ? "hidden" : "visible");
  lines.alone.replaceChildren(...(someone ? curves(strands(1 / 200, wanted)) : []));
  for (const side of SIDES)
    lines[side].forEach((word, i) => {
      const seen = side === "key" ? query !== null : query === null && key !== null;
      const pair = side === "key" ? [query, i] : [i, key];
      const [weight, colour] = seen ? heaviest(...pair) : [0, ""];
      word.classList.toggle("on", pointed[side] === i);
      word.firstChild.style.fill = colour;
      word.firstChild.setAttribute("fill-opacity", (darkness(weight, lines.peak) * 0.45).toFixed(3));
    });
}
function heaviest(query, key) {
  return lines.bundles.map(({ matrix, colour }) => [matrix[query][key], colour])
    .reduce((most, each) => (each[0] > most[0] ? each : most));
}

// ---- pointing ---------------------------------------------------------------------------------

const wordAt = (event) => {
  const word = event.target.closest("g[data-side]");
  return word ? { [word.dataset.side]: Number(word.dataset.index) } : {};
};
at("lines").addEventListener("pointermove", (event) => point(wordAt(event)));
at("lines").addEventListener("pointerleave", () => point({}));
at("lines").addEventListener("click", (event) => keep(wordAt(event)));
at("lines").addEventListener("keydown", (event) => {
  const side = pointed.key !== null && pointed.query === null ? "key" : "query";
  const index = pointed[side];
  const far = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (event.key === "Escape") return choose({ word: null });
  if (event.key === "Enter" || event.key === " ") keep(index === null ? {} : { [side]: index });
  else if (event.key === "ArrowLeft") point({ query: within(index ?? 0, part.queries) });
  else if (event.key === "ArrowRight") point({ key: within(index ?? 0, part.keys) });
  else if (far) point({ [side]: index === null ? 0 : within(index + far, lines[side]) });
  else return;
  event.preventDefault();
  for (const each of SIDES) lines[each][pointed[each]]?.scrollIntoView({ block: "nearest" });
});
