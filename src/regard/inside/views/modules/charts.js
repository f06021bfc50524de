// @ts-check
// Line charts: accuracies of probes by layer, and losses of one or several runs by step.
// record: charts [{title, across, up, ticks, lines: [{name, points, intervals}], decades, fitted, spanned}], table, notes.
import { draw, figure, hueOf, HUES, make, mount, table, textWidth, ticker, within, word } from "./base.js";

/** @typedef {import("./base.js").Context} Context */
const [HEIGHT, TOP, BOTTOM] = [270, 14, 44];
const defaults = () => ({ hidden: [] });
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    const { charts, notes = [], table: listed } = context.record;
    const names = [...new Set(charts.flatMap((/** @type {any} */ chart) => chart.lines.map((/** @type {any} */ line) => line.name)))];
    if (names.length > 1 && names.length <= 24) ticker(context, "hidden", names, names, "hide");
    const parts = make("div", { class: charts.length > 1 ? "parts" : "" });
    context.body.append(parts);
    const hosts = charts.map((/** @type {any} */ chart) => make("section", {}, make("h3", {}, chart.title)));
    parts.append(...hosts);
    charts.forEach((/** @type {any} */ chart, /** @type {number} */ i) => drawChart(context, hosts[i], chart, names));
    if (listed) context.body.append(table(listed.columns, listed.rows, listed.title ?? "All values"));
    for (const note of notes) context.body.append(make("p", { class: "note" }, note));
    context.say("Point at a chart, or use the arrow keys, to read the values of its lines.");
  });
}
/** Round numbers that enclose two values. @param {number} low @param {number} high @param {number} [most] */
export function roundTicks(low, high, most = 5) {
  if (high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high))) [low, high] = [low - (0.1 * Math.abs(low) || 1), high + (0.1 * Math.abs(high) || 1)];
  const power = 10 ** Math.floor(Math.log10((high - low) / most));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each * most >= high - low) ?? power;
  const ticks = [];
  for (let tick = Math.floor(low / step + 1e-9); tick <= Math.ceil(high / step - 1e-9); tick++) ticks.push(Number((tick * step).toPrecision(12)));
  return ticks;
}
/** Append a chart with a cursor over its places. @param {Context} context @param {HTMLElement} host @param {any} chart @param {any[]} names
 * @param {number | null} [at] a place that is marked */
export function drawChart(context, host, chart, names, at = null) {
  const hidden = context.state.hidden ?? [];
  const lines = chart.lines.filter((/** @type {any} */ line) => line.points.length && !hidden.includes(line.name));
  const values = lines.flatMap((/** @type {any} */ line) => [...line.points.map((/** @type {number[]} */ point) => point[1]), ...(line.intervals ?? []).flat()]);
  values.push(...(chart.spanned ?? []));
  if (!chart.fitted && !chart.decades) values.push(0);
  const places = [...new Set(lines.flatMap((/** @type {any} */ line) => line.points.map((/** @type {number[]} */ point) => point[0])))].sort((one, other) => one - other);
  const scale = chart.decades ? Math.log10 : (/** @type {number} */ value) => value;
  const finite = values.filter(Number.isFinite);
  const heights = chart.decades ? roundTicks(...ends(finite.map(Math.log10))).map((power) => 10 ** power) : roundTicks(...ends(finite));
  const [floor, top] = [scale(heights[0]), scale(heights[heights.length - 1])];
  const left = Math.max(...heights.map((tick) => textWidth(figure(tick), 11))) + 14;
  const width = Math.max(260, (host.clientWidth || context.root.clientWidth) - 4);
  const [first, last] = ends([...places, ...chart.ticks.map((/** @type {any[]} */ tick) => tick[0])]);
  const right = Math.max(12, textWidth(chart.ticks.at(-1)?.[1] ?? "", 11) / 2 + 2);
  const x = (/** @type {number} */ place) => left + (width - left - right) * (last > first ? (place - first) / (last - first) : 0.5);
  const y = (/** @type {number} */ value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (scale(value) - floor) / (top - floor || 1);
  const parts = heights.map((tick) => draw("g", {}, draw("line", { class: "tick", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
    draw("text", { class: "quiet", x: left - 6, y: y(tick) + 4, "text-anchor": "end", "font-size": 11 }, figure(tick))));
  const every = Math.ceil((chart.ticks.length * 44) / Math.max(1, width - left));
  parts.push(...chart.ticks.filter((/** @type {any} */ _, /** @type {number} */ i) => i % every === 0).map((/** @type {any[]} */ tick) =>
    draw("text", { class: "quiet", x: x(tick[0]), y: HEIGHT - BOTTOM + 17, "text-anchor": "middle", "font-size": 11 }, tick[1])));
  parts.push(draw("text", { class: "quiet", x: left, y: HEIGHT - 6, "font-size": 11 }, [chart.across, chart.up].filter(Boolean).join(" · ")));
  for (const line of lines) {
    const number = names.indexOf(line.name);
    const path = draw("polyline", {
      fill: "none", "stroke-width": 2, "stroke-dasharray": number >= HUES.length ? "5 4" : null,
      points: line.points.map((/** @type {number[]} */ point) => `${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`).join(" "),
    });
    path.style.stroke = hueOf(number);
    parts.push(path);
    for (const [i, interval] of (line.intervals ?? []).entries()) {
      const bar = draw("line", { x1: x(line.points[i][0]), x2: x(line.points[i][0]), y1: y(interval[0]), y2: y(interval[1]) });
      bar.style.stroke = hueOf(number);
      parts.push(bar);
    }
    if (line.points.length <= 60) for (const point of line.points) {
      const dot = draw("circle", { cx: x(point[0]), cy: y(point[1]), r: 3 });
      dot.style.fill = hueOf(number);
      parts.push(dot);
    }
  }
  const mark = draw("line", { class: "mark", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  mark.style.stroke = "var(--ink)";
  const still = at === null ? [] : [draw("line", { class: "mark now", x1: x(at), x2: x(at), y1: TOP, y2: HEIGHT - BOTTOM, stroke: "currentColor" })];
  const svg = draw("svg", { width, height: HEIGHT, "aria-hidden": "true" }, ...parts, ...still, mark);
  const figureElement = make("div", {
    class: "scrolls", tabindex: 0, role: "application", "data-focus": `chart ${chart.title}`,
    "aria-label": `${chart.title}: ${lines.length} lines by ${chart.across}; the arrow keys move from place to place`,
  }, svg);
  host.append(figureElement, make("p", { class: "legend names" }, ...lines.flatMap((/** @type {any} */ line) => [
    make("span", { class: "swatch", style: { background: hueOf(names.indexOf(line.name)) } }), make("span", { dir: "auto" }, line.name)])));
  let index = -1;
  const point = (/** @type {number} */ i) => {
    if (!places.length) return;
    index = within(i, places.length);
    const place = places[index];
    mark.setAttribute("visibility", "visible");
    mark.setAttribute("x1", x(place));
    mark.setAttribute("x2", x(place));
    context.select({ chart: chart.title, place, kept: false });
    context.say(`${chart.across} ${figure(place)}: `, ...lines.flatMap((/** @type {any} */ line) => {
      const found = line.points.find((/** @type {number[]} */ each) => each[0] === place);
      return found ? [word(line.name), ` ${figure(found[1])}   `] : [];
    }));
  };
  figureElement.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const place = event.clientX - svg.getBoundingClientRect().left;
    let best = 0;
    places.forEach((each, i) => { if (Math.abs(x(each) - place) < Math.abs(x(places[best]) - place)) best = i; });
    point(best);
  });
  figureElement.addEventListener("pointerleave", () => mark.setAttribute("visibility", "hidden"));
  figureElement.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const step = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 })[event.key];
    if (!step) return;
    event.preventDefault();
    point(index < 0 ? 0 : index + step);
  });
}
/** @param {number[]} values @returns {[number, number]} */
function ends(values) {
  return values.length ? [values.reduce((one, other) => Math.min(one, other)), values.reduce((one, other) => Math.max(one, other))] : [0, 1];
}
