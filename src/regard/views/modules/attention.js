// @ts-check
// Attention over a text: one matrix, the lines between words, and all heads, with one set of choices.
import { chooser, make, mount } from "./base.js";
import { attentionChoosers, defaults, sceneOf } from "./attention_maps.js";
import { drawGrid } from "./attention_grid.js";
import { drawLines } from "./attention_lines.js";
import { drawMatrix } from "./matrix.js";

/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    if (!context.record.maps.length) return;
    attentionChoosers(context);
    chooser(context, "view", ["both", "matrix", "lines"], ["both", "heat map", "lines"]);
    const scene = sceneOf(context);
    if (!scene) return;
    const { view } = context.state;
    const parts = make("div", { class: "parts" });
    context.body.append(parts);
    /** @param {string} name @param {string} title @param {typeof drawMatrix} drawPart */
    const add = (name, title, drawPart) => {
      const section = make("section", { "data-part": name }, make("h3", {}, title));
      parts.append(section);
      return () => drawPart(context, scene, section);
    };
    const drawings = [];
    if (view !== "lines") drawings.push(add("matrix", "Heat map", drawMatrix));
    if (view !== "matrix") drawings.push(add("lines", "Lines", drawLines));
    for (const each of drawings) each(); // when all are there, so that each knows its width
    const all = make("section", { "data-part": "grid" }, make("h3", {}, "All heads"));
    context.body.append(all);
    drawGrid(context, scene, all);
    if (all.childNodes.length < 2) all.remove();
    if (context.state.word) scene.point({});
  });
}
