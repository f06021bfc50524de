// @ts-check
// Attention over a text: one matrix, the lines between words, and all heads, with one set of choices.
import { chooser, make, mount } from "./base.js";
import { attentionChoosers, defaults, headsOf, sceneOf } from "./attention_maps.js";
import { drawGrid } from "./attention_grid.js";
import { drawLines } from "./attention_lines.js";
import { drawMatrix } from "./matrix.js";

const FEW = 4; // heads whose pictures fit beside a heat map and lines

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
    const heads = headsOf(scene.map, null);
    if (scene.map.layers.length * heads > 1) {
      drawings.push(add("grid", "All heads", drawGrid));
      if (drawings.length > 2 && heads > FEW) parts.lastElementChild.classList.add("row");
    }
    for (const each of drawings) each(); // when all are there, so that each knows its width
    if (context.state.word) scene.point({});
  });
}
