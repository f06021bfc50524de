// @ts-check
// Heads while they form: a grid of heads for each step of training, a slider, and curves. Python draws the grid; here
// its cells have the figures of the chosen step.
// record: steps, losses, places [[site, layer, head]], drawing, figures {name: {about, values (steps, heads), exists,
// most, digits, chart}}, loss.
import { chooser, figure, make, mount, range, rowsOf, slider } from "./base.js";
import { drawCharts } from "./charts.js";
import { colourCell, drawingOf } from "./marks.js";

/** @param {import("./base.js").ViewRecord} record */
const defaults = (record) => ({ step: record.steps[record.steps.length - 1], figure: record.first });
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    const { state } = context;
    const { steps, losses, places, drawing, figures, loss } = context.record;
    if (!steps.includes(state.step)) state.step = steps[steps.length - 1];
    if (!(state.figure in figures)) state.figure = context.record.first;
    const at = steps.indexOf(state.step);
    chooser(context, "figure", Object.keys(figures), Object.keys(figures));
    slider(context, "step", steps, (step) => `step ${step}`);
    const { about, most, digits, chart } = figures[state.figure];
    const values = rowsOf(context.record, figures[state.figure].values)[at];
    const exists = rowsOf(context.record, figures[state.figure].exists)[at];
    const { svg, marks } = drawingOf(context, drawing, "data-cell", `${state.figure} of each head`);
    places.forEach((/** @type {any[]} */ place, /** @type {number} */ i) => {
      const cell = /** @type {SVGElement} */ (marks.get(place.join("-")));
      cell.querySelector("title")?.remove(); // it says the roles of heads, which are not known here
      colourCell(context, cell, exists[i] ? values[i] : null, most, exists[i] ? values[i].toFixed(digits) : "–");
    });
    context.body.append(make("div", { class: "scrolls", "data-scroll": "", tabindex: 0, role: "group", "aria-label": `${state.figure} of each head` }, svg),
      make("p", { class: "note" }, `${state.figure}: ${about}; darkest at ${figure(most)}`));
    drawCharts(context, [loss, chart], state.step);
    const best = range(places.length).filter((i) => exists[i]).sort((one, other) => values[other] - values[one])[0];
    const [site, layer, head] = places[best] ?? [];
    context.say(`step ${state.step}: dev loss ${losses[at]?.toFixed(4) ?? "not finite"}`,
      best === undefined ? "" : `; highest ${state.figure}: ${site}, layer ${layer}, head ${head}, ${figure(values[best])}`);
  });
}
