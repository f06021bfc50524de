// @ts-check
// Report on heads: a grid of layers and heads, coloured by role or by a figure, and tables.
// record: sites [{name, layers: [[{role, short, summary, figures}]]}], roles, figures {name: {about, most}}, tables, notes.
import { chooser, cssColour, figure, hueOf, inkOn, make, mount, scaleOf, table, within } from "./base.js";

/** @typedef {import("./base.js").Context} Context */
/** The roles come first, unless no head has one. @param {import("./base.js").ViewRecord} record */
const defaults = ({ sites, figures }) => {
  const isBlank = !sites.some((/** @type {any} */ site) => site.layers.flat().some((/** @type {any} */ cell) => cell.role));
  return { colour: isBlank && "importance" in figures ? "importance" : "role", site: null, layer: null, head: null };
};
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    const { sites, roles, figures, tables = [], notes = [] } = context.record;
    const names = Object.keys(figures);
    if (context.state.colour !== "role" && !names.includes(context.state.colour)) context.state.colour = "role";
    chooser(context, "colour", ["role", ...names], ["role", ...names]);
    const pixels = scaleOf(context.root);
    const { colour } = context.state;
    const cells = sites.flatMap((/** @type {any} */ site) => site.layers.flat());
    const most = colour === "role" ? 1 : figures[colour].most ?? (Math.max(...cells.map((/** @type {any} */ cell) => Math.abs(cell.figures[colour] ?? 0))) || 1);
    /** @param {any} cell @returns {[string, string, string]} text, background and ink */
    const look = (cell) => {
      if (colour === "role") return cell.role ? [cell.short, hueOf(roles.indexOf(cell.role)), "#ffffff"] : ["·", "var(--band)", "var(--quiet)"];
      const value = cell.figures[colour] ?? null;
      if (value === null) return ["–", "var(--band)", "var(--quiet)"];
      const pixel = pixels[within(Math.round((255 * Math.abs(value)) / most), 256)];
      return [figure(value), cssColour(pixel), inkOn(pixel)];
    };
    for (const site of sites) drawSite(context, site, look);
    if (colour === "role") {
      const used = roles.filter((/** @type {string} */ role) => cells.some((/** @type {any} */ cell) => cell.role === role));
      context.body.append(make("p", { class: "legend names" }, ...used.flatMap((/** @type {string} */ role) =>
        [make("span", { class: "swatch", style: { background: hueOf(roles.indexOf(role)) } }), make("span", {}, role)])));
    } else context.body.append(make("p", { class: "note" }, `${colour}: ${figures[colour].about}; darkest at ${figure(most)}`));
    for (const each of tables) context.body.append(table(each.columns, each.rows, each.title));
    for (const note of notes) context.body.append(make("p", { class: "note" }, note));
    context.say("Point at a head, or use Tab and the arrow keys, to read its figures.");
  });
}
/** @param {Context} context @param {any} site @param {(cell: any) => [string, string, string]} look */
function drawSite(context, site, look) {
  const widest = Math.max(0, ...site.layers.map((/** @type {any[]} */ layer) => layer.length));
  const buttons = /** @type {HTMLElement[][]} */ ([]);
  const rows = site.layers.map((/** @type {any[]} */ layer, /** @type {number} */ number) => {
    buttons.push([]);
    return make("tr", {}, make("th", { scope: "row" }, `layer ${number}`), ...layer.map((cell, head) => {
      const [text, background, ink] = look(cell);
      const figures = Object.entries(cell.figures).filter(([, value]) => value !== null).map(([name, value]) => `${name} ${figure(/** @type {number} */ (value))}`).join(", ");
      const told = `${site.name} layer ${number}, head ${head}: ${cell.summary || "no role"}; ${figures}`;
      const button = make("button", {
        type: "button", class: "head", "aria-label": told, "data-focus": `${site.name} ${number} ${head}`, tabindex: number + head ? -1 : 0, style: { background, color: ink },
        "aria-pressed": String(context.state.site === site.name && context.state.layer === number && context.state.head === head),
        onfocus: () => context.say(told), onpointerenter: () => context.say(told),
        onclick: () => { context.select({ site: site.name, layer: number, head, kept: true }); context.set({ site: site.name, layer: number, head }); context.say(told); },
      }, text);
      buttons[number].push(button);
      return make("td", {}, button);
    }));
  });
  const head = make("tr", {}, make("th", {}, site.name), ...Array.from({ length: widest }, (_, i) => make("th", { scope: "col" }, String(i))));
  const grid = make("div", { class: "scrolls head-grid", "data-scroll": "" }, make("table", {}, head, ...rows));
  grid.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const step = /** @type {Record<string, number[]>} */ ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] })[event.key];
    const active = /** @type {HTMLElement} */ (document.activeElement);
    const at = buttons.findIndex((each) => each.includes(active));
    if (!step || at < 0) return;
    event.preventDefault();
    const row = buttons[within(at + step[0], buttons.length)];
    row[within(buttons[at].indexOf(active) + step[1], row.length)]?.focus();
  });
  context.body.append(grid);
}
