// @ts-check
// Marks of a drawing of Python: found by their id, read out when they are pointed at, chosen, and reached by keys.
import { cssColour, drawnShapes, inkOn, scaleOf, textOf, within } from "./base.js";

/** @typedef {import("./base.js").Context} Context */
/** A drawing of the record, and its marks by the value of an attribute.
 * @param {Context} context @param {import("./base.js").ArrayReference} reference @param {string} attribute @param {string} label
 * @returns {{svg: SVGSVGElement, marks: Map<string, SVGElement>}} */
export function drawingOf(context, reference, attribute, label) {
  const svg = drawnShapes(textOf(context.record, reference));
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-label", label);
  svg.querySelector("title")?.remove(); // of the whole drawing: its label says it
  const marks = /** @type {SVGElement[]} */ ([...svg.querySelectorAll(`[${attribute}]`)]);
  return { svg, marks: new Map(marks.map((mark) => [mark.getAttribute(attribute) ?? "", mark])) };
}
/** What a mark says is said when it is pointed at or reached; a mark that can be chosen is a button.
 * @param {SVGElement} mark
 * @param {{focus: string, label: string, isFirst: boolean, isChosen?: boolean, point: () => void, choose?: () => void}} given
 * focus: a name that stays the same when the view is drawn anew; isFirst: Tab leads to it */
export function handle(mark, { focus, label, isFirst, isChosen, point, choose }) {
  const role = choose ? { role: "button", "aria-pressed": String(Boolean(isChosen)), "data-go": "" } : { role: "listitem" };
  const attributes = { ...role, tabindex: isFirst ? 0 : -1, "aria-label": label, "data-focus": focus };
  for (const [name, value] of Object.entries(attributes)) mark.setAttribute(name, String(value));
  mark.querySelector("title")?.remove(); // the line above says it
  for (const event of ["focus", "pointerenter"]) mark.addEventListener(event, point);
  if (choose) mark.addEventListener("click", choose);
}
const STEPS = /** @type {Record<string, number[]>} */ ({
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-10, 0], PageDown: [10, 0],
});
/** Keys move from mark to mark, Enter chooses one. @param {SVGSVGElement} svg
 * @param {(active: any, key: string) => SVGElement | null | undefined} next undefined for a key without a meaning */
export function moveBetween(svg, next) {
  svg.addEventListener("keydown", (event) => {
    const active = document.activeElement;
    if (event.key === "Enter" || event.key === " ") active?.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    else {
      const mark = next(active, event.key);
      if (mark === undefined) return;
      mark?.focus();
    }
    event.preventDefault();
  });
}
/** The mark that a key leads to, of marks in rows. @param {SVGElement[][]} rows
 * @returns {(active: any, key: string) => SVGElement | null | undefined} */
export const inRows = (rows) => (active, key) => {
  const at = rows.findIndex((row) => row.includes(active));
  if (at < 0 || !(key in STEPS)) return undefined;
  const [down, right] = STEPS[key];
  const row = rows[within(at + down, rows.length)];
  return row[within(rows[at].indexOf(active) + right, row.length)];
};
/** Write a value into a cell, on its colour. @param {Context} context @param {SVGElement} cell @param {number | null} value
 * @param {number} most @param {string} text */
export function colourCell(context, cell, value, most, text) {
  const pixel = scaleOf(context.root)[within(Math.round((255 * Math.abs(value ?? 0)) / (most || 1)), 256)];
  const [rect, shown] = /** @type {SVGElement[]} */ ([cell.querySelector("rect"), cell.querySelector("text")]);
  rect.style.fill = value === null ? "var(--band)" : cssColour(pixel);
  shown.style.fill = value === null ? "var(--quiet)" : inkOn(pixel);
  shown.textContent = text;
}
