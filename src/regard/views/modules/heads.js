// @ts-check
// Report on heads: a grid of layers and heads, coloured by role or by a figure, and tables. Python draws the grid;
// here its cells become buttons, and have the colours of a figure.
// record: sites [{name, layers: [[{role, summary, figures}]]}], drawing, figures {name: {about, most}}, tables, notes.
import { chooser, cssColour, drawnShapes, figure, inkOn, make, mount, scaleOf, table, textOf, within } from "./base.js";

/** @typedef {import("./base.js").Context} Context */
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
    const svg = drawnShapes(textOf(context.record, drawing));
    svg.setAttribute("role", "group");
    const cells = /** @type {SVGGElement[]} */ ([...svg.querySelectorAll("[data-cell]")]);
    const rows = /** @type {SVGGElement[][]} */ ([]);
    const heads = sites.flatMap((/** @type {any} */ site) => site.layers.flatMap((/** @type {any[]} */ layer, /** @type {number} */ number) => {
      rows.push(cells.splice(0, layer.length));
      return layer.map((head, i) => ({ ...head, site: site.name, layer: number, head: i, cell: rows[rows.length - 1][i] }));
    }));
    const { colour } = context.state;
    if (colour !== "role") {
      const most = figures[colour].most ?? (Math.max(...heads.map((/** @type {any} */ head) => Math.abs(head.figures[colour] ?? 0))) || 1);
      for (const head of heads) colourCell(context, head.cell, head.figures[colour] ?? null, most);
      svg.querySelector("[data-legend]")?.remove();
      context.body.append(make("p", { class: "note" }, `${colour}: ${figures[colour].about}; darkest at ${figure(most)}`));
    }
    for (const head of heads) makeButton(context, head);
    context.body.prepend(make("div", { class: "scrolls", "data-scroll": "" }, svg));
    svg.addEventListener("keydown", (event) => move(event, rows));
    for (const each of tables) context.body.append(table(each.columns, each.rows, each.title));
    for (const note of notes) context.body.append(make("p", { class: "note" }, note));
    context.say("Point at a head, or use Tab and the arrow keys, to read its figures.");
  });
}
/** Write a value into a cell, on its colour. @param {Context} context @param {SVGGElement} cell @param {number | null} value @param {number} most */
function colourCell(context, cell, value, most) {
  const pixel = scaleOf(context.root)[within(Math.round((255 * Math.abs(value ?? 0)) / most), 256)];
  const [rect, text] = /** @type {SVGElement[]} */ ([cell.querySelector("rect"), cell.querySelector("text")]);
  rect.style.fill = value === null ? "var(--band)" : cssColour(pixel);
  text.style.fill = value === null ? "var(--quiet)" : inkOn(pixel);
  text.textContent = figure(value);
}
/** @param {Context} context @param {any} head with its cell */
function makeButton(context, { site, layer, head, cell, summary, figures }) {
  const shown = Object.entries(figures).filter(([, value]) => value !== null).map(([name, value]) => `${name} ${figure(/** @type {number} */ (value))}`).join(", ");
  const told = `${site} layer ${layer}, head ${head}: ${summary || "no role"}; ${shown}`;
  const { state } = context;
  const isChosen = state.site === site && state.layer === layer && state.head === head;
  const attributes = { role: "button", tabindex: layer + head ? -1 : 0, "aria-label": told, "aria-pressed": String(isChosen), "data-focus": `${site} ${layer} ${head}`, "data-go": "" };
  for (const [name, value] of Object.entries(attributes)) cell.setAttribute(name, String(value));
  cell.querySelector("title")?.remove(); // the line above says it
  for (const event of ["focus", "pointerenter"]) cell.addEventListener(event, () => context.say(told));
  cell.addEventListener("click", () => {
    context.select({ site, layer, head, kept: true });
    context.set({ site, layer, head });
    context.say(told);
  });
}
/** Arrow keys move between cells, Enter chooses one. @param {KeyboardEvent} event @param {SVGGElement[][]} rows */
function move(event, rows) {
  const active = /** @type {any} */ (document.activeElement);
  const at = rows.findIndex((row) => row.includes(active));
  const step = /** @type {Record<string, number[]>} */ ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] })[event.key];
  if (at < 0) return;
  if (event.key === "Enter" || event.key === " ") active.dispatchEvent(new MouseEvent("click"));
  else if (step) {
    const row = rows[within(at + step[0], rows.length)];
    row[within(rows[at].indexOf(active) + step[1], row.length)]?.focus();
  } else return;
  event.preventDefault();
}
