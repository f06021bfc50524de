// @ts-check
// The candidates of a search, step by step: a beam with what was pruned and why, or the tokens of a
// generation with their alternatives. record: nodes [{parent, step, piece, label, figures, why, text, rank,
// fate, probability}], winner, pruned (fates), hypotheses [{node, text, score}], choices, summary.
import { chooser, clip, draw, make, mount, range, table, textWidth, word } from "./base.js";

/** @typedef {import("./base.js").Context} Context */
const [ROW, GAP, SIZE, LETTERS] = [30, 34, 13, 14];
/** @param {import("./base.js").ViewRecord} record */
const defaults = (record) => ({ node: null, pruned: record.nodes.length > 400 ? "hidden" : "shown", first: 0 });

/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, drawTree);
}
/** @param {Context} context */
function drawTree(context) {
  const { record, state } = context;
  const { nodes, winner, hypotheses } = record;
  if (state.node !== null && !nodes[state.node]) state.node = null;
  const gone = new Set(record.pruned);
  const others = nodes.filter((/** @type {any} */ node) => gone.has(node.fate)).length;
  if (others) chooser(context, "pruned", ["shown", "hidden"], [`shown (${others})`, "hidden"], "pruned candidates");
  const shown = range(nodes.length).filter((i) => state.pruned === "shown" || !gone.has(nodes[i].fate) || winner.includes(i));
  const kept = state.node !== null ? pathOf(nodes, state.node) : winner;
  const places = layOut(nodes, shown);
  const all = [...places.values()];
  const size = [Math.max(...all.map(({ x, width }) => x + width)) + 8, Math.max(...all.map(({ y }) => y)) + ROW];
  const boxes = new Map(shown.map((i) => [i, box(context, i, places.get(i))]));
  const lines = shown.filter((i) => nodes[i].parent !== null && places.has(nodes[i].parent)).map((i) => {
    const [from, to] = [places.get(nodes[i].parent), places.get(i)];
    const [start, middle] = [from.x + from.width, (from.x + from.width + to.x) / 2];
    const line = draw("path", { class: "rule", d: `M${start} ${from.y}C${middle} ${from.y} ${middle} ${to.y} ${to.x} ${to.y}` });
    if (kept.includes(i)) line.classList.add("way");
    return line;
  });
  const svg = draw("svg", { width: size[0], height: size[1], role: "group", "aria-label": "candidates by step" },
    ...lines, ...boxes.values());
  const scroller = make("div", { class: "tree", "data-scroll": "", style: { "max-height": "40rem" } }, svg);
  /** @param {number} i */
  const point = (i) => {
    for (const [other, each] of boxes) each.classList.toggle("way", pathOf(nodes, i).includes(other));
    tell(context, i);
  };
  for (const [i, each] of boxes) {
    each.classList.toggle("way", kept.includes(i));
    each.addEventListener("pointerenter", () => point(i));
    each.addEventListener("focus", () => point(i));
    each.addEventListener("click", () => { context.select({ node: i, kept: true }); context.set({ node: state.node === i ? null : i }); });
  }
  svg.addEventListener("pointerleave", () => { for (const [i, each] of boxes) each.classList.toggle("way", kept.includes(i)); });
  svg.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const at = [...boxes].find(([, each]) => each === document.activeElement)?.[0];
    if (at === undefined) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); return boxes.get(at).dispatchEvent(new MouseEvent("click", { bubbles: true })); }
    if (event.key === "Escape") return context.set({ node: null });
    const column = shown.filter((i) => nodes[i].step === nodes[at].step).sort((one, other) => places.get(one).y - places.get(other).y);
    const children = shown.filter((i) => nodes[i].parent === at);
    const next = event.key === "ArrowLeft" ? nodes[at].parent : event.key === "ArrowRight" ? children.find((i) => kept.includes(i)) ?? children[0]
      : event.key === "ArrowUp" ? column[column.indexOf(at) - 1] : event.key === "ArrowDown" ? column[column.indexOf(at) + 1] : undefined;
    if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    boxes.get(next)?.focus();
  });
  context.body.append(make("p", { class: "note" }, record.summary), scroller);
  if (state.node !== null) {
    tell(context, state.node);
    boxes.get(state.node)?.scrollIntoView({ block: "nearest", inline: "center" });
  } else context.say("Point at a candidate, or use Tab and the arrow keys, to see its figures and why it was kept or pruned.");
  context.body.append(table(["rank", "hypothesis", "score"], hypotheses.map((/** @type {any} */ each, /** @type {number} */ i) => [i + 1, each.text, each.score]), "Hypotheses that ended"));
  if (record.choices?.length)
    context.body.append(table(["length penalty", "best hypothesis", "score"], record.choices.map((/** @type {any} */ each) => [each.formula, hypotheses[each.hypothesis].text, each.score]), "Best under other length penalties"));
}
/** @param {any[]} nodes @param {number} i */
function pathOf(nodes, i) {
  const path = [i];
  while (nodes[path[0]].parent !== null) path.unshift(nodes[path[0]].parent);
  return path;
}
/** @param {Context} context @param {number} i */
function tell(context, i) {
  const node = context.record.nodes[i];
  context.select({ node: i, kept: false });
  context.say(word(node.text || node.piece), ` · step ${node.step}, rank ${node.rank} · ${node.figures} · ${node.why}`);
}
/** A column for each step, the best candidate at the top. @param {any[]} nodes @param {number[]} shown
 * @returns {Map<number, any>} */
function layOut(nodes, shown) {
  const places = new Map();
  let x = 4;
  for (const step of range(1 + Math.max(...shown.map((i) => nodes[i].step)))) {
    const column = shown.filter((i) => nodes[i].step === step).sort((one, other) => nodes[one].rank - nodes[other].rank);
    const width = Math.max(40, ...column.map((i) => textWidth(`${clip(nodes[i].piece, LETTERS)}  ${nodes[i].label}`, SIZE) + 18));
    column.forEach((i, row) => places.set(i, { x, width, y: row * ROW + ROW / 2 + 2 }));
    x += width + GAP;
  }
  return places;
}
/** @param {Context} context @param {number} i @param {any} place */
function box(context, i, { x, y, width }) {
  const { nodes, pruned, winner } = context.record;
  const node = nodes[i];
  const group = draw("g", {
    class: `node ${node.fate} ${pruned.includes(node.fate) || node.fate === "passed" ? "pruned" : ""} ${winner.includes(i) ? "won" : ""}`, "data-node": i, "data-go": "", "data-focus": `node ${i}`,
    role: "button", tabindex: i === (context.state.node ?? 0) ? 0 : -1, "aria-pressed": String(context.state.node === i),
    "aria-label": `${clip(node.piece, LETTERS)} ${node.label}, step ${node.step}, rank ${node.rank}: ${node.figures}, ${node.why}`,
  },
  draw("rect", { x, y: y - 11, width, height: 22, rx: 4 }),
  draw("text", { x: x + 7, y: y + 4.5, "font-size": SIZE }, clip(node.piece, LETTERS)), " ",
  draw("text", { class: "quiet", x: x + width - 7, y: y + 4.5, "font-size": 11.5, "text-anchor": "end" }, node.label));
  if (node.probability !== undefined && node.probability !== null)
    group.append(draw("rect", { class: "chance", x: x + 1, y: y + 8, width: Math.max(0, (width - 2) * node.probability), height: 2.5 }));
  return group;
}
