// @ts-check
// Line charts: accuracies of probes by layer, and losses of one or several runs by step. Python draws them; here
// a cursor moves over the points of their lines, and lines are hidden.
// record: charts [{title, across, lines: [{name, line, points}], drawing}], table, notes.
import { draw, drawnShapes, figure, make, mount, table, textOf, ticker, within, word } from "./base.js";

/** @typedef {import("./base.js").Context} Context */
const defaults = () => ({ hidden: [] });
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    const { charts, notes = [], table: listed } = context.record;
    const names = [...new Set(charts.flatMap((/** @type {any} */ chart) => chart.lines.map((/** @type {any} */ line) => line.name)))];
    if (names.length > 1 && names.length <= 24) ticker(context, "hidden", names, names, "hide");
    drawCharts(context, charts);
    if (listed) context.body.append(table(listed.columns, listed.rows, listed.title ?? "All values"));
    for (const note of notes) context.body.append(make("p", { class: "note" }, note));
    context.say("Point at a chart, or use the arrow keys, to read the values of its lines.");
  });
}
/** Append charts with a cursor over their places. @param {Context} context @param {any[]} charts
 * @param {number | null} [at] a place that is marked @param {HTMLElement} [host] */
export function drawCharts(context, charts, at = null, host = context.body) {
  const parts = make("div", { class: charts.length > 1 ? "parts" : "" });
  host.append(parts);
  for (const chart of charts) parts.append(chartOf(context, chart, at));
}
/** @param {Context} context @param {any} chart @param {number | null} at */
function chartOf(context, chart, at) {
  const hidden = context.state.hidden ?? [];
  const svg = drawnShapes(textOf(context.record, chart.drawing));
  const lines = chart.lines.filter((/** @type {any} */ line) => !hidden.includes(line.name));
  for (const line of chart.lines)
    for (const mark of svg.querySelectorAll(`[data-line="${line.line}"]`)) mark.toggleAttribute("hidden", !lines.includes(line));
  const across = placesOf(svg, lines);
  const places = [...across.keys()].sort((one, other) => one - other);
  const [floor, top] = [...svg.querySelectorAll("g > line")].map((line) => Number(line.getAttribute("y1"))).reduce(([most, least], y) => [Math.max(most, y), Math.min(least, y)], [0, Infinity]);
  /** @param {string} kind @param {number | undefined} x */
  const rule = (kind, x) => draw("line", { class: `place ${kind}`, x1: x, x2: x, y1: top, y2: floor, visibility: x === undefined ? "hidden" : null });
  const mark = rule("pointed", undefined);
  svg.append(...(at === null ? [] : [rule("now", across.get(at))]), mark);
  const element = make("div", {
    class: "scrolls drawn", tabindex: 0, role: "application", "data-focus": `chart ${chart.title}`,
    "aria-label": `${chart.title}: ${lines.length} lines by ${chart.across}; the arrow keys move from place to place`,
  }, svg);
  let index = -1;
  const point = (/** @type {number} */ i) => {
    if (!places.length) return;
    index = within(i, places.length);
    const place = places[index];
    mark.setAttribute("visibility", "visible");
    for (const end of ["x1", "x2"]) mark.setAttribute(end, across.get(place));
    context.select({ chart: chart.title, place, kept: false });
    context.say(`${chart.across} ${figure(place)}: `, ...lines.flatMap((/** @type {any} */ line) => {
      const found = line.points.find((/** @type {number[]} */ each) => each[0] === place);
      return found ? [word(line.name), ` ${figure(found[1])}   `] : [];
    }));
  };
  element.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const { left, width } = svg.getBoundingClientRect();
    const x = ((event.clientX - left) / width) * svg.viewBox.baseVal.width;
    const distances = places.map((place) => Math.abs(Number(across.get(place)) - x));
    point(distances.indexOf(Math.min(...distances)));
  });
  element.addEventListener("pointerleave", () => mark.setAttribute("visibility", "hidden"));
  element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const step = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 })[event.key];
    if (!step) return;
    event.preventDefault();
    point(index < 0 ? 0 : index + step);
  });
  return element;
}
/** Where the points of lines are drawn: the vertices of their polylines, by their value. @param {SVGSVGElement} svg @param {any[]} lines
 * @returns {Map<number, number>} */
function placesOf(svg, lines) {
  return new Map(lines.flatMap((line) => {
    const vertices = svg.querySelector(`[data-line="${line.line}"] polyline`)?.getAttribute("points")?.split(" ") ?? [];
    return line.points.map((/** @type {number[]} */ [place], /** @type {number} */ i) => [place, parseFloat(vertices[i])]);
  }));
}
