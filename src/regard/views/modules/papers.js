// @ts-check
// Lineage of papers over the years, and what each changed. record: papers [{name, year, title, reference, link,
// after, tables: {heading: [{column: value}]}}].
import { chooser, draw, make, mount, table, textWidth } from "./base.js";

const [YEAR, LINE, INDENT, LEFT, TOP, SIZE] = [88, 24, 18, 12, 46, 14];
/** @param {import("./base.js").ViewRecord} record */
const defaults = (record) => ({ paper: record.papers[0]?.name ?? null, tables: "one" });
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    const { papers } = context.record;
    const known = new Set(papers.map((/** @type {any} */ paper) => paper.name));
    const order = /** @type {any[]} */ ([]);
    const follow = (/** @type {string | null} */ parent) => {
      for (const paper of papers)
        if ((known.has(paper.after) ? paper.after : null) === parent) { order.push(paper); follow(paper.name); }
    };
    follow(null);
    chooser(context, "tables", ["one", "all"], ["of the chosen paper", "of all papers"]);
    const first = Math.min(...order.map((paper) => paper.year));
    const last = Math.max(...order.map((paper) => paper.year));
    const narrow = context.root.clientWidth < LEFT + YEAR * (last - first + 2); // then there are no columns of years
    const [top, year] = narrow ? [SIZE, 0] : [TOP, YEAR];
    const parts = Array.from({ length: narrow ? 0 : last - first + 1 }, (_, i) => draw("text", { class: "quiet", x: LEFT + year * i, y: 18, "font-size": 12 }, String(first + i)));
    const at = new Map();
    let right = LEFT + year * (last - first + 1);
    const names = order.map((paper, row) => {
      let [x, y] = [LEFT + year * (paper.year - first), top + LINE * row];
      const above = at.get(paper.after);
      if (above) {
        x = Math.max(x, above.x + INDENT);
        parts.push(draw("path", { class: "rule", d: `M${above.x + 6} ${above.y + 5}V${y - 5}H${x - 4}` }));
      }
      at.set(paper.name, { x, y });
      const end = x + textWidth(paper.name, SIZE) + LEFT;
      if (narrow) parts.push(draw("text", { class: "quiet", x: end, y, "font-size": 12 }, String(paper.year)));
      right = Math.max(right, end + (narrow ? textWidth("2000", 12) + LEFT : 0));
      const name = draw("text", {
        x, y, "font-size": SIZE, "data-go": "", "data-focus": `paper ${paper.name}`, role: "button", tabindex: paper.name === context.state.paper ? 0 : -1,
        "aria-label": `${paper.name}, ${paper.year}${above ? `, after ${paper.after}` : ""}`, "aria-pressed": String(paper.name === context.state.paper),
        onclick: () => { context.select({ paper: paper.name, kept: true }); context.set({ paper: paper.name }); },
        onfocus: () => context.say(`${paper.name} (${paper.year}): ${paper.title}`), onpointerenter: () => context.say(`${paper.name} (${paper.year}): ${paper.title}`),
      }, paper.name);
      name.classList.toggle("on", paper.name === context.state.paper);
      return name;
    });
    const svg = draw("svg", { width: Math.ceil(right), height: top + LINE * order.length, role: "group", "aria-label": "which paper comes after which" }, ...parts, ...names);
    svg.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const row = names.indexOf(/** @type {any} */ (document.activeElement));
      const step = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1 })[event.key];
      if (row < 0) return;
      if (event.key === "Enter" || event.key === " ") names[row].dispatchEvent(new MouseEvent("click"));
      else if (step) names[Math.min(Math.max(row + step, 0), names.length - 1)].focus();
      else return;
      event.preventDefault();
    });
    context.body.append(make("div", { class: "scrolls", "data-scroll": "" }, svg));
    const { paper, tables } = context.state;
    context.body.append(...order.filter(({ name }) => tables === "all" || name === paper).map(section));
    context.say("Choose a paper to see what it changed.");
  });
}
const PLAIN = /** @type {Record<string, string>} */ ({ True: "yes", False: "no", "()": "none" });
const NOTHING = ["–", "no", "none", "0", "0.0"]; // values that need not be told
const MOST = 8; // settings of a sentence
/** What a paper changed, added and left out, in a sentence. @param {string[][]} rows of a fact, its value before, and now @param {any} paper */
function toldChanges(rows, { name, after }) {
  const told = { changes: new Set(), adds: new Set(), drops: new Set() };
  for (const [fact, before, now] of rows) {
    const short = fact.replace(/^(source|target|trunk)\./, "").replace(/^(stack|embed)\./, "").replaceAll(/[._]/g, " ");
    if (before !== "–" && now !== "–") told.changes.add(`${short} (${before} → ${now})`);
    else if (!NOTHING.includes(now)) told.adds.add(`${short} (${now})`);
    else if (!NOTHING.includes(before)) told.drops.add(`${short} (${before})`);
  }
  const parts = Object.entries(told).filter(([, found]) => found.size).map(([verb, found]) =>
    `${verb} ${[...found].slice(0, MOST).join(", ")}${found.size > MOST ? ` and ${found.size - MOST} more` : ""}`);
  return `Compared with ${after}, ${name} ${parts.join("; ") || "differs in details only"}.`;
}
/** @param {any} paper */
function section(paper) {
  const safe = /^https?:\/\//.test(paper.link ?? "");
  const where = safe ? make("a", { href: paper.link, rel: "noreferrer" }, paper.reference) : paper.reference;
  const tables = Object.entries(paper.tables).filter(([, rows]) => /** @type {any[]} */ (rows).length).flatMap(([heading, rows]) => {
    const plain = /** @type {any[]} */ (rows).map((row) => Object.values(row).map((value) => PLAIN[value] ?? value));
    const listed = table(Object.keys(/** @type {any[]} */ (rows)[0]), plain, heading);
    return "fact" in /** @type {any[]} */ (rows)[0] ? [make("p", {}, toldChanges(plain, paper)), make("details", {}, make("summary", {}, `All ${plain.length} settings that differ`), listed)] : [listed];
  });
  return make("section", {}, make("h3", {}, `${paper.name} (${paper.year})`), make("p", { class: "note" }, `${paper.title}, `, where), ...tables);
}
