// @ts-check
// A matrix of colours on a canvas, with labels at its edges, a cursor, and texts in its cells.
import { clip, cssColour, cursor, draw, inkOn, longest, make, paint, textWidth, within } from "./base.js";

/**
 * @typedef {object} HeatMap
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {(row: number, column: number) => number | null} value null where there is none
 * @property {(value: number) => number} shade from 0 to 255
 * @property {Uint32Array} pixels
 * @property {string} label what it is, for those who do not see it
 * @property {(row: number | null, column: number | null) => void} point
 * @property {(row: number | null, column: number | null) => void} [keep]
 * @property {(row: null, column: null) => void} [leave] when Escape is pressed
 * @property {(row: number, column: number) => string} [text]
 * @property {number} [cell] least width of a cell in pixels
 * @property {[number, number, string][]} [marks] outlines: row, column and class
 * @property {number} [room] width in pixels that is there
 * @property {string} [focus]
 */
const ANGLE = 1; // labels of columns rise by one radian
const MOST_TEXTS = 3000; // cells with a text

/** Append a heat map to an element. @param {HTMLElement} host @param {HeatMap} map
 * @returns {{element: HTMLElement, point: (row: number | null, column: number | null) => void}} */
export function heatMap(host, map) {
  const rows = map.rows.map((name) => clip(name));
  const columns = map.columns.map((name) => clip(name));
  const longer = Math.max(rows.length, columns.length, 1);
  const room = (map.room ?? host.clientWidth) - longest(rows, 14) - 30;
  const fitting = Math.floor(Math.min(480 / longer, room / (columns.length + 0.5)));
  const width = Math.max(map.cell ?? 0, longer > 400 ? 2 : longer > 160 ? 4 : 14, Math.min(34, fitting));
  const height = map.cell ? Math.min(width, 26) : width;
  const labelled = height >= 10;
  const size = Math.max(10.5, Math.min(14, height * 0.62));
  const rise = labelled ? longest(columns, size) * Math.sin(ANGLE) + size : 6;
  const side = labelled ? longest(rows, size) + 12 : 6;
  const ends = columns.map((name, c) => (c + 1) * width + (labelled ? textWidth(name, size) * Math.cos(ANGLE) : 0));
  const [wide, high] = [columns.length * width, rows.length * height];

  const canvas = make("canvas", { class: "pixels", style: { width: `${wide}px`, height: `${high}px` } });
  paint(canvas, rows.length, columns.length, map.pixels, (row, column) => {
    const value = map.value(row, column);
    return value === null ? -1 : within(Math.round(map.shade(value)), 256);
  });
  const names = labelled ? columns.map((name, c) => draw("text", {
    transform: `translate(${((c + 0.5) * width + 3).toFixed(1)} ${(rise - 4).toFixed(1)}) rotate(${(-180 * ANGLE / Math.PI).toFixed(1)})`,
    "font-size": size,
  }, name)) : [];
  const lines = labelled ? rows.map((name) => make("li", { style: { height: `${height}px`, "line-height": `${height}px`, "font-size": `${size}px` } }, name)) : [];
  const rowBand = draw("rect", { class: "band", width: wide, height, visibility: "hidden" });
  const columnBand = draw("rect", { class: "band", width, height: high, visibility: "hidden" });
  const spot = draw("rect", { class: "band", width, height, "stroke-width": 2, visibility: "hidden" });
  const over = draw("svg", { width: wide, height: high, "aria-hidden": "true" },
    ...texts(map, width, height), ...(map.marks ?? []).map(([row, column, kind]) => draw("rect", {
      class: `mark ${kind}`, x: column * width + 1.5, y: row * height + 1.5, width: width - 3, height: height - 3,
    })), rowBand, columnBand, spot);
  const cells = make("div", { class: "cells", style: { width: `${wide}px`, height: `${high}px` } }, canvas, over);
  const element = make("div", {
    class: "heat", "data-scroll": "", tabindex: 0, role: "application", "data-focus": map.focus ?? map.label,
    "aria-label": `${map.label}: ${rows.length} rows, ${columns.length} columns; the arrow keys move from cell to cell`,
    style: { "scroll-padding": `${rise}px 0 0 ${side}px` },
  },
  make("div", { class: "corner" }),
  draw("svg", { class: "columns", width: Math.ceil(Math.max(0, ...ends)), height: Math.ceil(rise), "aria-hidden": "true" }, ...names),
  make("ol", { class: "rows", "aria-hidden": "true", style: { width: `${side}px` } }, ...lines),
  cells);
  host.append(element);

  let lit = /** @type {Element[]} */ ([]);
  /** @param {number | null} row @param {number | null} column */
  const show = (row, column) => {
    for (const each of lit) each.classList.remove("on");
    lit = [row === null ? null : lines[row], column === null ? null : names[column]].filter((each) => !!each);
    for (const each of lit) each.classList.add("on");
    rowBand.setAttribute("visibility", row === null ? "hidden" : "visible");
    columnBand.setAttribute("visibility", column === null ? "hidden" : "visible");
    spot.setAttribute("visibility", row === null || column === null ? "hidden" : "visible");
    rowBand.setAttribute("y", (row ?? 0) * height);
    columnBand.setAttribute("x", (column ?? 0) * width);
    spot.setAttribute("y", (row ?? 0) * height);
    spot.setAttribute("x", (column ?? 0) * width);
  };
  /** @param {PointerEvent | MouseEvent} event @returns {(number | null)[]} */
  const placeOf = (event) => {
    const target = /** @type {Element} */ (event.target);
    if (cells.contains(target)) {
      const box = cells.getBoundingClientRect();
      return [within(Math.floor((rows.length * (event.clientY - box.top)) / box.height), rows.length),
        within(Math.floor((columns.length * (event.clientX - box.left)) / box.width), columns.length)];
    }
    const [row, column] = [lines.indexOf(/** @type {any} */ (target)), names.indexOf(/** @type {any} */ (target))];
    return [row < 0 ? null : row, column < 0 ? null : column];
  };
  const keyboard = cursor(element, rows.length, columns.length, (row, column) => {
    map.point(row, column);
    spot.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, () => (map.leave ?? map.point)(null, null), (row, column) => map.keep?.(row, column));
  let last = "";
  element.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const [row, column] = placeOf(event);
    if (last === (last = `${row} ${column}`)) return;
    keyboard.place(row === null || column === null ? null : [row, column]);
    map.point(row, column);
  });
  element.addEventListener("pointerleave", () => { last = ""; map.point(null, null); });
  element.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const [row, column] = placeOf(event);
    if (row !== null || column !== null) map.keep?.(row, column);
  });
  return { element, point: show };
}

/** @param {HeatMap} map @param {number} width @param {number} height */
function texts(map, width, height) {
  if (!map.text || map.rows.length * map.columns.length > MOST_TEXTS) return [];
  const { text } = map;
  return map.rows.flatMap((_, row) => map.columns.flatMap((_, column) => {
    const value = map.value(row, column);
    const shown = text(row, column);
    if (value === null || !shown) return [];
    const letter = draw("text", {
      class: "value", x: (column + 0.5) * width, y: (row + 0.5) * height + 4, "text-anchor": "middle", "font-size": 11,
    }, clip(shown, Math.max(3, Math.floor(width / 6.2))));
    letter.style.fill = inkOn(map.pixels[within(Math.round(map.shade(value)), 256)]);
    return [letter];
  }));
}
/** The colour of a value. @param {HeatMap} map @param {number} value */
export const colourOf = (map, value) => cssColour(map.pixels[within(Math.round(map.shade(value)), 256)]);
