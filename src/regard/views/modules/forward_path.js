// @ts-check
// The path of a forward pass: functions in the order of their first call, by file.
// record: steps [{file, line, function}], lines {file: number of lines}.
import { chooser, draw, hueOf, make, mount, within } from "./base.js";

const [ROW, LEFT, SIZE] = [22, 14, 13];
const defaults = () => ({ shown: "files", step: 0 });
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    const { steps, lines = {} } = context.record;
    chooser(context, "shown", ["files", "functions"], ["visits of files", "every function"], "show");
    const visits = /** @type {any[][]} */ ([]);
    for (const step of steps)
      if (context.state.shown === "files" && visits.length && visits[visits.length - 1][0].file === step.file) visits[visits.length - 1].push(step);
      else visits.push([step]);
    const floors = [...new Set(steps.map((/** @type {any} */ step) => step.file.split("/")[0]))];
    const rows = visits.map(([step, ...rest], row) => {
      const [x, y] = [LEFT + 26 * floors.indexOf(step.file.split("/")[0]), ROW * (row + 0.7)];
      const told = `${row + 1}. ${step.file}:${step.line} ${[step, ...rest].map((each) => each.function).join(", ")}${lines[step.file] ? ` (${lines[step.file]} lines in the file)` : ""}`;
      const dot = draw("circle", { cx: x, cy: y - 4, r: 5 });
      dot.style.fill = hueOf(floors.indexOf(step.file.split("/")[0]));
      const place = LEFT + 26 * floors.length + 8;
      const tell = () => { context.select({ step: row, file: step.file, line: step.line, kept: false }); context.say(told); };
      return draw("g", { role: "listitem", tabindex: row ? -1 : 0, "aria-label": told, "data-focus": `step ${row}`, onfocus: tell, onpointerenter: tell }, dot,
        draw("text", { x: place, y, "font-size": SIZE }, `${step.file}:${step.line}`),
        draw("text", { class: "quiet", x: place + 300, y, "font-size": SIZE }, step.function + (rest.length ? ` and ${rest.length} more` : "")));
    });
    const links = visits.slice(1).map(([step], row) => {
      const [from, to] = [visits[row][0], step].map((each) => LEFT + 26 * floors.indexOf(each.file.split("/")[0]));
      return draw("path", { class: "rule", d: `M${from} ${ROW * (row + 0.7) - 4}L${to} ${ROW * (row + 1.7) - 4}` });
    });
    const svg = draw("svg", { width: LEFT + 26 * floors.length + 760, height: ROW * (visits.length + 0.5), role: "list", "aria-label": "functions in order" }, ...links, ...rows);
    svg.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const at = rows.indexOf(/** @type {any} */ (document.activeElement));
      const step = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 })[event.key];
      if (at < 0 || !step) return;
      event.preventDefault();
      rows[within(at + step, rows.length)].focus();
    });
    context.body.append(make("div", { class: "scrolls", "data-scroll": "", style: { "max-height": "40rem" } }, svg),
      make("p", { class: "legend names" }, ...floors.flatMap((name, i) => [make("span", { class: "swatch", style: { background: hueOf(i) } }), make("span", {}, String(name))])));
    context.say(`${steps.length} functions of ${new Set(steps.map((/** @type {any} */ step) => step.file)).size} files run, in this order.`);
  });
}
