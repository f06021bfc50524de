// @ts-check
// The candidates of a search, step by step: a beam with what was pruned and why, or the tokens of a generation with
// their alternatives. Python draws them; here they are pointed at, kept, hidden and reached by keys.
// record: nodes [{parent, step, piece, label, figures, why, text, rank, fate}], drawing, winner, pruned (fates),
// hypotheses [{node, text, score}], choices, summary.
import { chooser, make, mount, table, word } from "./base.js";
import { drawingOf, handle, moveBetween } from "./marks.js";

/** @typedef {import("./base.js").Context} Context */
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
  const { svg, marks } = drawingOf(context, record.drawing, "data-node", "candidates by step");
  const edges = new Map([...svg.querySelectorAll("[data-edge]")].map((edge) => [Number(edge.getAttribute("data-edge")), edge]));
  const kept = state.node !== null ? pathOf(nodes, state.node) : winner;
  const boxes = /** @type {Map<number, SVGElement>} */ (new Map());
  for (const [name, mark] of marks) {
    const i = Number(name);
    if (state.pruned === "shown" || !gone.has(nodes[i].fate) || winner.includes(i)) boxes.set(i, mark);
    else for (const each of [mark, edges.get(i)]) each?.remove();
  }
  crop(svg, [...boxes.values()]);
  /** @param {number[]} path */
  const light = (path) => { for (const [i, each] of boxes) for (const mark of [each, edges.get(i)]) mark?.classList.toggle("way", path.includes(i)); };
  for (const [i, mark] of boxes) {
    const node = nodes[i];
    handle(mark, {
      focus: `node ${i}`, label: `${mark.textContent?.trim()}, step ${node.step}, rank ${node.rank}: ${node.figures}, ${node.why}`,
      isFirst: i === (state.node ?? 0), isChosen: state.node === i,
      point: () => { light(pathOf(nodes, i)); tell(context, i); },
      choose: () => { context.select({ node: i, kept: true }); context.set({ node: state.node === i ? null : i }); },
    });
  }
  light(kept);
  svg.addEventListener("pointerleave", () => light(kept));
  moveBetween(svg, (active, key) => {
    const at = Number(active?.dataset.node);
    if (!boxes.has(at)) return undefined;
    if (key === "Escape") { context.set({ node: null }); return null; }
    const column = [...boxes.keys()].filter((i) => nodes[i].step === nodes[at].step);
    const children = [...boxes.keys()].filter((i) => nodes[i].parent === at);
    const to = /** @type {Record<string, number | undefined>} */ ({
      ArrowLeft: nodes[at].parent, ArrowRight: children.find((i) => kept.includes(i)) ?? children[0],
      ArrowUp: column[column.indexOf(at) - 1], ArrowDown: column[column.indexOf(at) + 1],
    });
    return key in to ? boxes.get(to[key] ?? -1) ?? null : undefined;
  });
  context.body.append(make("p", { class: "note" }, record.summary), make("div", { class: "tree", "data-scroll": "", style: { "max-height": "40rem" } }, svg));
  if (state.node !== null) {
    tell(context, state.node);
    boxes.get(state.node)?.scrollIntoView({ block: "nearest", inline: "center" });
  } else context.say("Point at a candidate, or use Tab and the arrow keys, to see its figures and why it was kept or pruned.");
  context.body.append(table(["rank", "hypothesis", "score"], hypotheses.map((/** @type {any} */ each, /** @type {number} */ i) => [i + 1, each.text, each.score]), "Hypotheses that ended"));
  if (record.choices?.length)
    context.body.append(table(["length penalty", "best hypothesis", "score"], record.choices.map((/** @type {any} */ each) => [each.formula, hypotheses[each.hypothesis].text, each.score]), "Best under other length penalties"));
}
/** End a drawing below its lowest box. @param {SVGSVGElement} svg @param {SVGElement[]} boxes */
function crop(svg, boxes) {
  const bottom = Math.max(...boxes.map((box) => ["y", "height"].reduce((sum, side) => sum + Number(box.querySelector("rect")?.getAttribute(side)), 14)));
  svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${bottom}`);
  svg.setAttribute("height", String(bottom));
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
