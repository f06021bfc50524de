// @ts-check
// Nearest neighbours of words, texts or images: for each query a list with cosines.
// record: groups [{query, rows: [{text, cosine}]}].
import { chooser, make, mount, range, word } from "./base.js";

const defaults = () => ({ group: 0 });
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    const { groups } = context.record;
    if (!groups[context.state.group]) context.state.group = 0;
    chooser(context, "group", range(groups.length), groups.map((/** @type {any} */ each) => each.query), "query");
    const { query, rows } = groups[context.state.group] ?? { query: "", rows: [] };
    context.say(rows.length ? "" : "no neighbours of ", word(query), rows.length ? `: ${rows.length} neighbours by cosine` : "");
    context.body.append(make("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": `neighbours of ${query}` }, make("table", {},
      make("tr", {}, ...["rank", "cosine", "", "neighbour"].map((name) => make("th", { scope: "col" }, name))),
      ...rows.map((/** @type {any} */ row, /** @type {number} */ i) => make("tr", {}, make("td", { class: "figure" }, String(i + 1)), make("td", { class: "figure" }, row.cosine.toFixed(4)),
        make("td", {}, make("span", { class: row.cosine < 0 ? "bar below" : "bar", style: { width: `${8 * Math.abs(row.cosine)}rem` } })), make("td", { dir: "auto" }, row.text))))));
  });
}
