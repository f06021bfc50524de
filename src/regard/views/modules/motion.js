// @ts-check
// Motion: marks that stay when a view is drawn anew go to their new place, and turn to their new colour.

const MILLISECONDS = 200;
const MOST = 600; // marks that are followed
const FOLLOWED = ["data-cell", "data-node", "data-paper"];

/** @typedef {{mark: Element, shape: Element | null, x: number, y: number, fill: string}} Place */
/** Places and colours of the marks of drawings, by their name; of none, where motion is not wanted.
 * @param {HTMLElement} body @returns {Map<string, Place>} */
export function placesOf(body) {
  const marks = [...body.querySelectorAll(FOLLOWED.map((name) => `svg [${name}]`).join())];
  if (marks.length > MOST || matchMedia("(prefers-reduced-motion: reduce)").matches) return new Map();
  const origin = body.getBoundingClientRect();
  const zoom = origin.width / body.offsetWidth || 1;
  return new Map(marks.map((mark) => {
    const [box, shape] = [mark.getBoundingClientRect(), mark.querySelector("rect")];
    const name = FOLLOWED.map((each) => `${each} ${mark.getAttribute(each)}`).join();
    return [name, { mark, shape, x: (box.x - origin.x) / zoom, y: (box.y - origin.y) / zoom, fill: shape ? getComputedStyle(shape).fill : "" }];
  }));
}
/** Let the marks of a view that was drawn anew come from where they were. @param {HTMLElement} body @param {Map<string, Place>} before */
export function move(body, before) {
  if (!before.size) return;
  for (const [name, { mark, shape, x, y, fill }] of placesOf(body)) {
    const was = before.get(name);
    if (!was) continue;
    const [left, top] = [was.x - x, was.y - y];
    if (Math.abs(left) + Math.abs(top) > 1) mark.animate([{ transform: `translate(${left}px, ${top}px)` }, { transform: "none" }], { duration: MILLISECONDS, easing: "ease-out" });
    if (shape && was.fill !== fill) shape.animate([{ fill: was.fill }, { fill }], { duration: MILLISECONDS, easing: "ease-out" });
  }
}
