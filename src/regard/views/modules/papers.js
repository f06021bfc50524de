// @ts-check
// Lineage of papers over the years, and what each changed. Python draws it; here a paper is chosen.
// record: papers [{name, year, title, reference, link, after, changes, tables: {heading: [{column: value}]}}], in the
// order of the drawings {wide, narrow}.
import { chooser, make, mount, table } from "./base.js";
import { drawingOf, handle, inRows, moveBetween } from "./marks.js";

/** @param {import("./base.js").ViewRecord} record */
const defaults = (record) => ({ paper: record.papers[0]?.name ?? null, tables: "one" });
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    const { papers, drawings } = context.record;
    const { paper: chosen, tables } = context.state;
    chooser(context, "tables", ["one", "all"], ["of the chosen paper", "of all papers"]);
    const drawn = (/** @type {string} */ name) => drawingOf(context, drawings[name], "data-paper", "which paper comes after which");
    const wide = drawn("wide");
    const { svg, marks } = Number(wide.svg.getAttribute("width")) <= context.root.clientWidth ? wide : drawn("narrow");
    for (const { name, year, title, after } of papers) {
      const mark = /** @type {SVGElement} */ (marks.get(name));
      mark.classList.toggle("on", name === chosen);
      handle(mark, {
        focus: `paper ${name}`, label: `${name}, ${year}${after ? `, after ${after}` : ""}`, isFirst: name === chosen, isChosen: name === chosen,
        point: () => context.say(`${name} (${year}): ${title}`),
        choose: () => { context.select({ paper: name, kept: true }); context.set({ paper: name }); },
      });
    }
    moveBetween(svg, inRows(papers.map((/** @type {any} */ { name }) => [marks.get(name)])));
    context.body.append(make("div", { class: "scrolls", "data-scroll": "" }, svg),
      ...papers.filter((/** @type {any} */ { name }) => tables === "all" || name === chosen).map(section));
    context.say("Choose a paper to see what it changed.");
  });
}
/** @param {any} paper */
function section(paper) {
  const safe = /^https?:\/\//.test(paper.link ?? "");
  const where = safe ? make("a", { href: paper.link, rel: "noreferrer" }, paper.reference) : paper.reference;
  const tables = Object.entries(paper.tables).filter(([, rows]) => /** @type {any[]} */ (rows).length).flatMap(([heading, given]) => {
    const rows = /** @type {any[]} */ (given);
    const listed = table(Object.keys(rows[0]), rows.map((row) => Object.values(row)), heading);
    return "fact" in rows[0] ? [make("p", {}, paper.changes), make("details", {}, make("summary", {}, `All ${rows.length} settings that differ`), listed)] : [listed];
  });
  return make("section", {}, make("h3", {}, `${paper.name} (${paper.year})`), make("p", { class: "note" }, `${paper.title}, `, where), ...tables);
}
