// @ts-check
// The path of a forward pass: functions in the order of their first call, by file. Python draws it; here its lines are
// read out.
// record: steps [{file, line, function}], visits (numbers of their first steps) and drawings, each by what is shown:
// {files, functions}; about.
import { chooser, make, mount } from "./base.js";
import { drawingOf, handle, inRows, moveBetween } from "./marks.js";

const defaults = () => ({ shown: "files", step: 0 });
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    const { steps, visits, drawings, about } = context.record;
    chooser(context, "shown", ["files", "functions"], ["visits of files", "every function"], "show");
    const { svg, marks } = drawingOf(context, drawings[context.state.shown], "data-step", "functions in order");
    svg.setAttribute("role", "list");
    for (const [name, mark] of marks) {
      const { file, line } = steps[visits[context.state.shown][Number(name)]];
      const label = mark.querySelector("title")?.textContent ?? "";
      const point = () => { context.select({ step: Number(name), file, line, kept: false }); context.say(label); };
      handle(mark, { focus: `step ${name}`, label, isFirst: name === "0", point });
    }
    moveBetween(svg, inRows([...marks.values()].map((mark) => [mark])));
    context.body.append(make("div", { class: "scrolls", "data-scroll": "", style: { "max-height": "40rem" } }, svg));
    context.say(about);
  });
}
