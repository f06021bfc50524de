// @ts-check
// Heads while they form: a grid of heads for each step of training, a slider, and curves.
// record: steps, losses, places [[site, layer, head]], figures {name: {about, values (steps, heads), exists, most, digits, chart}}, loss.
import { chooser, cssColour, figure, inkOn, make, mount, range, rowsOf, scaleOf, slider, within } from "./base.js";
import { drawCharts } from "./charts.js";

/** @param {import("./base.js").ViewRecord} record */
const defaults = (record) => ({ step: record.steps[record.steps.length - 1], figure: record.first });
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    const { state } = context;
    const { steps, losses, places, figures, loss } = context.record;
    if (!steps.includes(state.step)) state.step = steps[steps.length - 1];
    if (!(state.figure in figures)) state.figure = context.record.first;
    const at = steps.indexOf(state.step);
    chooser(context, "figure", Object.keys(figures), Object.keys(figures));
    slider(context, "step", steps, (step) => `step ${step}`);
    const { about, most, digits, chart } = figures[state.figure];
    const values = rowsOf(context.record, figures[state.figure].values)[at];
    const exists = rowsOf(context.record, figures[state.figure].exists)[at];
    const pixels = scaleOf(context.root);
    for (const site of new Set(places.map((/** @type {any[]} */ place) => place[0]))) {
      const own = range(places.length).filter((i) => places[i][0] === site);
      const [layers, heads] = [1, 2].map((axis) => 1 + Math.max(...own.map((i) => places[i][axis])));
      const cell = (/** @type {number} */ layer, /** @type {number} */ head) => {
        const i = own.find((each) => places[each][1] === layer && places[each][2] === head);
        if (i === undefined || !exists[i]) return make("td", { class: "cell quiet" }, "–");
        const pixel = pixels[within(Math.round((255 * Math.abs(values[i])) / (most || 1)), 256)];
        return make("td", { class: "cell", style: { background: cssColour(pixel), color: inkOn(pixel) } }, values[i].toFixed(digits));
      };
      context.body.append(make("div", { class: "scrolls head-grid", tabindex: 0, role: "group", "aria-label": `${site}: ${state.figure} of each head` }, make("table", {},
        make("caption", {}, `${site}: ${about}`),
        make("tr", {}, make("td"), ...range(heads).map((head) => make("th", { scope: "col" }, `head ${head}`))),
        ...range(layers).map((layer) => make("tr", {}, make("th", { scope: "row" }, `layer ${layer}`), ...range(heads).map((head) => cell(layer, head)))))));
    }
    drawCharts(context, [loss, chart], state.step);
    const best = range(places.length).filter((i) => exists[i]).sort((one, other) => values[other] - values[one])[0];
    const [site, layer, head] = places[best] ?? [];
    context.say(`step ${state.step}: dev loss ${losses[at]?.toFixed(4) ?? "not finite"}`,
      best === undefined ? "" : `; highest ${state.figure}: ${site}, layer ${layer}, head ${head}, ${figure(values[best])}`);
  });
}
