// @ts-check
// Report on heads: a grid of layers and heads, coloured by role or by a figure, and tables. Python draws the grid;
// here its cells become buttons, and have the colours of a figure.
// record: sites [{name, layers: [[{role, summary, figures}]]}], drawing, figures {name: {about, most}}, tables, notes.
import { chooser, figure, make, mount, table } from "./base.js";
import { colourCell, drawingOf, handle, inRows, moveBetween } from "./marks.js";

/** @typedef {import("./base.js").Context} Context */
const FEW = 12; // rows of a table that is open at first
/** The roles come first, unless no head has one. @param {import("./base.js").ViewRecord} record */
const defaults = ({ sites, figures }) => {
  const isBlank = !sites.some((/** @type {any} */ site) => site.layers.flat().some((/** @type {any} */ cell) => cell.role));
  return { colour: isBlank && "importance" in figures ? "importance" : "role", site: null, layer: null, head: null };
};
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    const { sites, figures, drawing, tables = [], notes = [] } = context.record;
    const names = Object.keys(figures);
    if (context.state.colour !== "role" && !names.includes(context.state.colour)) context.state.colour = "role";
    chooser(context, "colour", ["role", ...names], ["role", ...names]);
    const { svg } = drawingOf(context, drawing, "data-cell", "heads by layer");
    const cells = /** @type {SVGElement[]} */ ([...svg.querySelectorAll("[data-cell]")]);
    const rows = /** @type {SVGElement[][]} */ ([]);
    const heads = sites.flatMap((/** @type {any} */ site) => site.layers.flatMap((/** @type {any[]} */ layer, /** @type {number} */ number) => {
      rows.push(cells.splice(0, layer.length));
      return layer.map((head, i) => ({ ...head, site: site.name, layer: number, head: i, cell: rows[rows.length - 1][i] }));
    }));
    const { colour } = context.state;
    if (colour !== "role") {
      const most = figures[colour].most ?? (Math.max(...heads.map((/** @type {any} */ head) => Math.abs(head.figures[colour] ?? 0))) || 1);
      for (const head of heads) colourCell(context, head.cell, head.figures[colour] ?? null, most, figure(head.figures[colour] ?? null));
      svg.querySelector("[data-legend]")?.remove();
      context.body.append(make("p", { class: "note" }, `${colour}: ${figures[colour].about}; darkest at ${figure(most)}`));
    }
    for (const head of heads) makeButton(context, head);
    context.body.prepend(make("div", { class: "scrolls", "data-scroll": "" }, svg));
    moveBetween(svg, inRows(rows));
    for (const { columns, rows, title } of tables) {
      const listed = table(columns, rows, title);
      context.body.append(rows.length > FEW ? make("details", {}, make("summary", {}, `${title}: a table of ${rows.length} rows`), listed) : listed);
    }
    for (const note of notes) context.body.append(make("p", { class: "note" }, note));
    context.say("Point at a head, or use Tab and the arrow keys, to read its figures.");
  });
}
/** @param {Context} context @param {any} head with its cell */
function makeButton(context, { site, layer, head, cell, summary, figures }) {
  const shown = Object.entries(figures).filter(([, value]) => value !== null).map(([name, value]) => `${name} ${figure(/** @type {number} */ (value))}`).join(", ");
  const told = `${site} layer ${layer}, head ${head}: ${summary || "no role"}; ${shown}`;
  const { state } = context;
  handle(cell, {
    focus: `${site} ${layer} ${head}`, label: told, isFirst: !layer && !head,
    isChosen: state.site === site && state.layer === layer && state.head === head,
    point: () => context.say(told),
    choose: () => {
      context.select({ site, layer, head, kept: true });
      context.set({ site, layer, head });
      context.say(told);
    },
  });
}
