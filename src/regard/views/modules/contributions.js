// @ts-check
// What embedding, heads and feed-forward layers add to a logit: a grid by layer, and the largest as bars.
// record: grids, components [{name, value}], logit, target.
import { figure, make, mount, word } from "./base.js";
import { drawGrids } from "./grids.js";

const LISTED = 16;
const defaults = () => ({ grid: 0, values: [] });
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    const { grids, components, logit, target } = context.record;
    const sorted = [...components].sort((one, other) => Math.abs(other.value) - Math.abs(one.value));
    const most = Math.abs(sorted[0]?.value ?? 1) || 1;
    const [left, right] = [make("div"), make("div")];
    context.body.append(make("div", { class: "parts" }, left, right));
    drawGrids(context, grids, left);
    right.append(make("h3", {}, `Largest contributions to ${target} = ${figure(logit)}`),
      make("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": "largest contributions" }, make("table", {}, ...sorted.slice(0, LISTED).map((each) => make("tr", {},
        make("th", { scope: "row" }, each.name), make("td", { class: "figure" }, `${each.value < 0 ? "" : "+"}${figure(each.value)}`),
        make("td", {}, make("span", { class: each.value < 0 ? "bar below" : "bar", style: { width: `${(14 * Math.abs(each.value)) / most}rem` } })))))));
    context.say(word(target), ` = ${figure(logit)}, the sum of ${components.length} contributions.`);
  });
}
