// @ts-check
// What all views share: elements, records, colours, choosers, the keyboard cursor, and export.
import { move, placesOf } from "./motion.js";

/**
 * @typedef {{buffer: number, dtype: "u1" | "u2" | "f4", shape: number[]}} ArrayReference
 * @typedef {Record<string, any> & {kind: string, buffers: Uint8Array[]}} ViewRecord
 * @typedef {Record<string, any>} Options
 * @typedef {{update(record?: ViewRecord | null, options?: Options): void, destroy(): void}} View
 * @typedef {string | Node} Part
 */

/**
 * What a view is built from: its record, the state of its choices, and where it draws.
 * @typedef {object} Context
 * @property {ViewRecord} record
 * @property {Options} state
 * @property {HTMLElement} root
 * @property {HTMLElement} tools
 * @property {HTMLElement} body
 * @property {AbortSignal} signal aborted when the view is drawn anew or removed
 * @property {(...parts: Part[]) => void} say write the line under the view, which is announced
 * @property {(changes: Options, quiet?: boolean) => void} set change choices, draw anew, and tell the host
 * @property {(selection: Options) => void} select tell the host what is pointed at or kept
 * @property {Options} options
 */

// ---- elements ---------------------------------------------------------------------------------

/** Text is only inserted as text nodes, so no token can become markup.
 * @param {string} tag @param {Record<string, any>} [attributes] @param {Part[]} children
 * @returns {any} */
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}
/** @param {string} tag @param {Record<string, any>} [attributes] @param {Part[]} children @returns {any} */
export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}
/** @param {any} element @param {Record<string, any>} attributes @param {Part[]} children */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, String(each));
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : SHOWN.includes(name) ? visible(String(value)) : String(value));
  }
  element.append(...children.map((each) => typeof each === "string" ? visible(each) : each));
  return element;
}
/** Attributes that are read by people. */
const SHOWN = ["aria-label", "title", "alt", "placeholder"];
/** A text in which controls, and characters that would turn the text after them around, are visible symbols.
 * @param {string} text */
export const visible = (text) => text
  .replace(/[\0-\x08\v-\x1f]/g, (control) => String.fromCharCode(0x2400 + control.charCodeAt(0)))
  .replace(/[\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
/** @param {string} text */
export const word = (text) => make("b", { dir: "auto" }, text);
/** @param {string} label @param {number} [most] */
export function clip(label, most = 20) {
  const letters = [...label];
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : label;
}
/** @param {number} index @param {number} size */
export const within = (index, size) => Math.min(Math.max(index, 0), size - 1);
/** @param {number} count */
export const range = (count) => [...Array(count).keys()];

let ruler = /** @type {CanvasRenderingContext2D | null} */ (null);
/** Width of a text in pixels. @param {string} text @param {number} size @param {string} [family] */
export function textWidth(text, size, family = "system-ui, sans-serif") {
  ruler ??= document.createElement("canvas").getContext("2d");
  if (!ruler) return text.length * size * 0.6;
  ruler.font = `600 ${size}px ${family}`;
  return ruler.measureText(text).width;
}
/** @param {string[]} labels @param {number} size */
export function longest(labels, size) {
  return labels.reduce((most, label) => Math.max(most, textWidth(label, size)), 0);
}
/** A table of plain texts; rows may have ids. @param {string[]} columns @param {any[][]} rows @param {string} caption */
export function table(columns, rows, caption) {
  const head = make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, name)));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell) =>
    make("td", { class: typeof cell === "number" ? "figure" : null, dir: "auto" }, cellText(cell)))));
  return make("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": caption },
    make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...body)));
}
/** @param {any} cell */
function cellText(cell) {
  if (cell === null || cell === undefined) return "–";
  return typeof cell === "number" && !Number.isInteger(cell) ? figure(cell) : String(cell);
}
/** A number with four significant digits. @param {number | null} value */
export function figure(value) {
  return value === null ? "–" : Number(value.toPrecision(4)).toString();
}

// ---- records ----------------------------------------------------------------------------------

/** The record of bytes as they travel. @param {ArrayBuffer} bytes @returns {ViewRecord} */
export function decode(bytes) {
  const length = new DataView(bytes).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length)));
  let start = 8 + length;
  const buffers = header.lengths.map((/** @type {number} */ size) => {
    const buffer = new Uint8Array(bytes, start, size);
    start += size + ((8 - (size % 8)) % 8);
    return buffer;
  });
  return { ...header.record, kind: header.kind, buffers };
}
/** The numbers of an array, row by row. @param {{buffers: Uint8Array[]}} record @param {ArrayReference} reference */
export function arrayOf(record, { buffer, dtype }) {
  const bytes = record.buffers[buffer];
  const { byteOffset, byteLength } = bytes;
  if (dtype === "u1") return bytes;
  if (dtype === "u2") return new Uint16Array(bytes.buffer, byteOffset, byteLength / 2);
  return new Float32Array(bytes.buffer, byteOffset, byteLength / 4);
}
/** Rows of a matrix. @param {{buffers: Uint8Array[]}} record @param {ArrayReference} reference */
export function rowsOf(record, reference) {
  const all = arrayOf(record, reference);
  const [height, width] = reference.shape;
  return range(height).map((row) => /** @type {Float32Array} */ (all.subarray(row * width, (row + 1) * width)));
}

/** A text of a record. @param {{buffers: Uint8Array[]}} record @param {ArrayReference} reference */
export const textOf = (record, reference) => new TextDecoder().decode(arrayOf(record, reference));

const SHAPES = ["svg", "g", "rect", "line", "path", "polyline", "circle", "text", "title", "desc"];
/** A drawing of Python as elements: shapes with their plain attributes, and nothing else. @param {string} svg
 * @returns {SVGSVGElement} */
export function drawnShapes(svg) {
  const copy = (/** @type {Element} */ from) => {
    const shape = draw(from.localName, Object.fromEntries([...from.attributes].filter(({ name }) => !/^(on|xmlns|style|href)/.test(name)).map(({ name, value }) => [name, value])));
    for (const child of from.childNodes) {
      if (child instanceof Element && SHAPES.includes(child.localName)) shape.append(copy(child));
      if (child.nodeType === Node.TEXT_NODE) shape.append(child.textContent);
    }
    return shape;
  };
  return copy(new DOMParser().parseFromString(svg, "image/svg+xml").documentElement);
}

// ---- colours ----------------------------------------------------------------------------------

// The colours themselves stand in palette.css, where Python finds them for its drawings.
export const SCALES = ["cividis", "viridis"];
export const HUES = 8; // of palette.css
/** @param {number} number */
export const hueOf = (number) => `var(--hue-${number % HUES})`;

/** 256 colours between some. @param {number[][]} stops */
function between(stops) {
  return range(256).map((step) => {
    const place = (step / 255) * (stops.length - 1);
    const left = Math.min(Math.floor(place), stops.length - 2);
    return stops[left].map((level, i) => Math.round(level + (stops[left + 1][i] - level) * (place - left)));
  });
}
/** Pixels of 256 colours. @param {number[][]} colours */
function lookUp(colours) {
  return new Uint32Array(Uint8Array.from(colours.flatMap((rgb) => [...rgb, 255])).buffer);
}
/** @param {Element} element */
export function isDark(element) {
  const chosen = element.closest("[data-theme]")?.getAttribute("data-theme");
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
const tables = new Map();
/** 256 pixels of a scale of palette.css. @param {Element} element @param {string} name @param {boolean} [dark] @returns {Uint32Array} */
function pixelsOf(element, name, dark = isDark(element)) {
  const variable = `--${name}-${dark ? "dark" : "light"}`;
  if (!tables.has(variable)) {
    const stops = getComputedStyle(element.isConnected ? element : document.documentElement).getPropertyValue(variable).match(/[0-9a-f]{6}/g) ?? [];
    tables.set(variable, lookUp(between(stops.map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16))))));
  }
  return tables.get(variable);
}
/** From the least weight to the largest. What is least is near the paper: light on a light page, dark on a dark one.
 * @param {Element} element @param {string} [name] */
export const scaleOf = (element, name = SCALES[0]) => pixelsOf(element, SCALES.includes(name) ? name : SCALES[0]);
/** From -1 to 1. @param {Element} element */
export const signedScale = (element) => pixelsOf(element, "signed");
/** For weights over an image: what is largest is brightest. @param {Element} element */
export const overlayScale = (element) => pixelsOf(element, "viridis", true);
/** A pixel as a colour of CSS. @param {number} pixel */
export const cssColour = (pixel) => `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`;
/** Ink with the larger contrast (WCAG 2.2) on a pixel, which is at least 4.5. @param {number} pixel */
export function inkOn(pixel) {
  const [red, green, blue] = [0, 8, 16].map((shift) => {
    const level = ((pixel >> shift) & 255) / 255;
    return level <= 0.04045 ? level / 12.92 : ((level + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}
/** A bar from the first colour of a scale to the last. @param {Uint32Array} pixels @param {string} from @param {string} to */
export function legend(pixels, from, to) {
  const colours = range(9).map((step) => cssColour(pixels[Math.round((step * 255) / 8)]));
  const bar = make("span", { class: "ramp", style: { background: `linear-gradient(to right, ${colours})` } });
  return make("p", { class: "legend" }, make("span", {}, from), bar, make("span", {}, to));
}

/** One pixel for each number, stretched by the browser; what level returns below zero stays blank.
 * @param {HTMLCanvasElement} canvas @param {number} height @param {number} width
 * @param {Uint32Array} pixels @param {(row: number, column: number) => number} level from 0 to 255 */
export function paint(canvas, height, width, pixels, level) {
  Object.assign(canvas, { width: Math.max(width, 1), height: Math.max(height, 1) });
  const image = new ImageData(canvas.width, canvas.height);
  const all = new Uint32Array(image.data.buffer);
  for (let row = 0, i = 0; row < height; row++)
    for (let column = 0; column < width; column++, i++) {
      const shade = level(row, column);
      if (shade >= 0) all[i] = pixels[shade];
    }
  canvas.getContext("2d")?.putImageData(image, 0, 0);
}

// ---- views ------------------------------------------------------------------------------------

/** A view: its tools, what build draws, the line that says what is pointed at, and export. It is drawn
 * anew with other choices; what has the focus keeps it.
 * @param {HTMLElement} element @param {ViewRecord} record @param {Options} options
 * @param {(record: ViewRecord) => Options} defaults @param {(context: Context) => void} build
 * @returns {View} */
export function mount(element, record, options, defaults, build) {
  const root = make("div", { class: "regard", "data-kind": record.kind });
  const tools = make("form", { class: "tools", "aria-label": "What to show", onsubmit: (/** @type {Event} */ event) => event.preventDefault() });
  const body = make("div", { class: "body" });
  const line = make("p", { class: "readout", role: "status", "aria-live": "polite" });
  element.replaceChildren(root);
  root.append(tools, line, body, exportButtons(root, () => context));
  let drawn = new AbortController();
  /** The host may choose: it is asked with the first choices of a record. @param {ViewRecord} shown @param {Options} given */
  const stateOf = (shown, given) => {
    const state = defaults(shown);
    const chosen = { ...given, ...context.options.choices?.({ ...state }) };
    for (const name of Object.keys(state)) state[name] = asKindOf(state[name], chosen[name]);
    return state;
  };
  /** @type {Context} */
  const context = {
    record, options, root, tools, body, state: {}, signal: drawn.signal,
    say: (...parts) => line.replaceChildren(...parts),
    set: (changes, quiet = false) => {
      Object.assign(context.state, changes);
      redraw(quiet);
      if (!quiet) context.options.onOptions?.(changes, context.state);
    },
    select: (selection) => context.options.onSelect?.(selection),
  };
  const redraw = (keepTools = false) => { // a slider that moves must not be replaced
    drawn.abort();
    drawn = new AbortController();
    context.signal = drawn.signal;
    const focus = focusOf(root);
    const places = placesOf(body);
    const scrolled = [...body.querySelectorAll("[data-scroll]")].map((each) => [each.scrollLeft, each.scrollTop]);
    body.replaceChildren();
    line.replaceChildren();
    if (keepTools) context.tools = make("form");
    else tools.replaceChildren();
    build(context);
    context.tools = tools;
    tools.hidden = !tools.childNodes.length;
    body.querySelectorAll("[data-scroll]").forEach((/** @type {Element} */ each, /** @type {number} */ i) => {
      if (scrolled[i]) [each.scrollLeft, each.scrollTop] = scrolled[i];
    });
    move(body, places);
    if (focus) /** @type {HTMLElement | null} */ (root.querySelector(focus))?.focus({ preventScroll: true });
  };
  const media = matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => redraw();
  media.addEventListener("change", repaint);
  let width = element.clientWidth;
  const observer = new ResizeObserver(() => {
    if (Math.abs(element.clientWidth - width) < 2) return;
    width = element.clientWidth;
    redraw();
  });
  context.state = stateOf(record, options);
  redraw();
  observer.observe(element);
  return {
    update: (next, changes) => {
      if (next) context.record = next;
      if (changes) context.options = { ...context.options, ...changes };
      context.state = stateOf(context.record, { ...context.state, ...changes });
      redraw();
    },
    destroy: () => {
      drawn.abort();
      observer.disconnect();
      media.removeEventListener("change", repaint);
      root.remove();
    },
  };
}
/** A choice of the host, or as text of an address, in the type of the first value; what has another type
 * is ignored. @param {any} first @param {any} chosen */
function asKindOf(first, chosen) {
  if (chosen === undefined) return first;
  if (Array.isArray(first)) {
    const list = typeof chosen === "string" ? chosen.split(",").filter(Boolean) : chosen;
    return Array.isArray(list) ? list.map((each) => (/^\d{1,6}$/.test(each) ? Number(each) : each)) : first;
  }
  if (typeof chosen !== "string") return chosen;
  if (chosen === "none") return first === null || typeof first === "number" ? null : first;
  if (/^\d{1,6}$/.test(chosen) && typeof first !== "string") return Number(chosen);
  return typeof first === "number" ? first : chosen;
}
/** A choice as text of an address. @param {any} value */
export const written = (value) => (Array.isArray(value) ? value.join() : value === null ? "none" : String(value));
/** A selector of what has the focus. @param {HTMLElement} root */
function focusOf(root) {
  const active = /** @type {any} */ (document.activeElement);
  if (!active || !root.contains(active)) return null;
  if (active.dataset.focus) return `[data-focus="${CSS.escape(active.dataset.focus)}"]`;
  return active.name ? `[name="${CSS.escape(active.name)}"][value="${CSS.escape(active.value)}"]` : null;
}

// ---- choosers ---------------------------------------------------------------------------------

let groups = 0; // radio buttons of two views on one page must not be one group
/** A choice among values; what is none of them becomes the first. @param {Context} context @param {string} name @param {any[]} values */
export function checkChoice(context, name, values) {
  if (!values.includes(context.state[name])) context.state[name] = values[0];
}
/** Radio buttons of a choice. @param {Context} context @param {string} name @param {any[]} values
 * @param {any[]} labels @param {string} [title] */
export function chooser(context, name, values, labels, title = name) {
  checkChoice(context, name, values);
  if (values.length < 2) return;
  const group = `${name} ${groups++}`;
  if (values.length > 16) return context.tools.append(selector(context, name, values, labels, title));
  context.tools.append(make("fieldset", { "data-choice": name }, make("legend", {}, title),
    ...values.map((value, i) => make("label", {},
      make("input", {
        type: "radio", name: group, value: String(value), "data-focus": `${name}=${value}`,
        checked: context.state[name] === value, onchange: () => context.set({ [name]: value }),
      }),
      make("span", {}, String(labels[i]))))));
}
/** @param {Context} context @param {string} name @param {any[]} values @param {any[]} labels @param {string} title */
function selector(context, name, values, labels, title) {
  const list = make("select", {
    "data-focus": name, onchange: () => context.set({ [name]: values[list.selectedIndex] }),
  }, ...values.map((value, i) => make("option", { selected: context.state[name] === value }, String(labels[i]))));
  return make("label", { class: "selector" }, title, " ", list);
}
/** Boxes to tick: the state is the list of those that are ticked. @param {Context} context
 * @param {string} name @param {string[]} values @param {string[]} labels @param {string} [title] */
export function ticker(context, name, values, labels, title = name) {
  const ticked = context.state[name] = context.state[name].map(String).filter((/** @type {string} */ each) => values.includes(each));
  context.tools.append(make("fieldset", { "data-choice": name }, make("legend", {}, title),
    ...values.map((value, i) => make("label", {},
      make("input", {
        type: "checkbox", value, "data-focus": `${name}=${value}`, checked: ticked.includes(value),
        onchange: () => context.set({ [name]: values.filter((each) => each === value ? !ticked.includes(each) : ticked.includes(each)) }),
      }),
      make("span", {}, labels[i])))));
}
/** A slider over numbers; the host is told when it is let go. @param {Context} context @param {string} name
 * @param {number[]} values @param {(value: number) => string} label @param {string} [title] */
export function slider(context, name, values, label, title = name) {
  const shown = make("output", {}, label(context.state[name]));
  const input = make("input", {
    type: "range", min: 0, max: values.length - 1, step: 1, value: values.indexOf(context.state[name]), "data-focus": name,
    "aria-label": title, "aria-valuetext": label(context.state[name]),
    oninput: () => {
      context.set({ [name]: values[Number(input.value)] }, true);
      shown.textContent = label(context.state[name]);
      input.setAttribute("aria-valuetext", shown.textContent);
    },
    onchange: () => context.options.onOptions?.({ [name]: context.state[name] }, context.state),
  });
  context.tools.append(make("label", { class: "slider" }, title, " ", input, " ", shown));
}
/** Numbers of layers or heads, with null for what is shown of all. @param {Context} context
 * @param {string} name @param {number} count @param {string} unchosen */
export function numbers(context, name, count, unchosen) {
  if (count > 1) chooser(context, name, [null, ...range(count)], [unchosen, ...range(count)]);
}

// ---- the cursor -------------------------------------------------------------------------------

const STEPS = /** @type {Record<string, number[]>} */ ({
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
});
/** Arrow keys move from cell to cell, Home and End to the ends of a row, Enter keeps a cell, Escape leaves.
 * @param {HTMLElement} element @param {number} rows @param {number} columns
 * @param {(row: number, column: number) => void} point @param {() => void} leave
 * @param {(row: number, column: number) => void} [keep] */
export function cursor(element, rows, columns, point, leave, keep) {
  let at = /** @type {number[] | null} */ (null);
  const move = (/** @type {number} */ row, /** @type {number} */ column) => {
    at = [within(row, rows), within(column, columns)];
    point(at[0], at[1]);
  };
  element.addEventListener("keydown", (event) => {
    const { key } = event;
    if (key === "Escape") { at = null; return leave(); }
    if (!rows || !columns) return;
    const [row, column] = at ?? [0, 0];
    if (key in STEPS) move(row + (at ? STEPS[key][0] : 0), column + (at ? STEPS[key][1] : 0));
    else if (key === "Home") move(row, 0);
    else if (key === "End") move(row, columns - 1);
    else if (key === "PageUp") move(row - 10, column);
    else if (key === "PageDown") move(row + 10, column);
    else if ((key === "Enter" || key === " ") && at && keep) keep(at[0], at[1]);
    else return;
    event.preventDefault();
  });
  return { place: (/** @type {number[] | null} */ next) => { at = next; } };
}

// ---- export -----------------------------------------------------------------------------------

/** @param {HTMLElement} root @param {() => Context} context */
function exportButtons(root, context) {
  const record = () => context().record;
  const svg = () => drawing(root, record(), context().options.source?.());
  const button = (/** @type {string} */ name, /** @type {() => unknown} */ save) =>
    make("button", { type: "button", onclick: save, "data-focus": name }, name);
  return make("p", { class: "export" },
    button("Save SVG", () => save(new Blob([svg()], { type: "image/svg+xml" }), fileName(record(), "svg"))),
    button("Save PNG", async () => save(await picture(svg()), fileName(record(), "png"))));
}
/** @param {ViewRecord} record @param {string} suffix */
const fileName = (record, suffix) => `${(record.title ?? record.kind).replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60) || record.kind}.${suffix}`;
/** What the caption of a saved drawing says: title, then command, model and data.
 * @param {ViewRecord} record */
export function captions(record) {
  const source = Object.entries(record.source ?? {}).filter(([, text]) => text);
  return [record.title ?? record.kind, record.caption ?? "", ...source.map(([name, text]) => `${name}: ${text}`)].filter(Boolean);
}
/** What is chosen of a view, in words. @param {HTMLElement} root */
function choicesOf(root) {
  const chosen = [...root.querySelectorAll(".tools [data-choice]")].map((each) => [each.querySelector("legend")?.textContent, [...each.querySelectorAll("input:checked + span")].map((span) => span.textContent).join(", ")]);
  const others = [...root.querySelectorAll(".tools .selector, .tools .slider")].map((each) => [each.firstChild?.textContent, each.querySelector("select")?.selectedOptions[0]?.text ?? each.querySelector("output")?.textContent]);
  return [...chosen, ...others].filter(([, value]) => value).map(([name, value]) => `${name} ${value}`).join(" · ");
}
/** @param {Blob} blob @param {string} name */
function save(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
/** @param {string} svg @returns {Promise<Blob>} */
function picture(svg) {
  const image = new Image();
  return new Promise((resolve, reject) => {
    image.onload = () => {
      const canvas = make("canvas", { width: 2 * image.width, height: 2 * image.height });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(resolve, "image/png");
    };
    image.onerror = reject;
    image.src = `data:image/svg+xml;base64,${btoa(binary(svg))}`;
  });
}
/** @param {string} text */
function binary(text) {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}
const COPIED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "font-size", "font-weight", "text-anchor", "opacity"];
/** The view as a standalone SVG file, with everything that is scrolled away, what is chosen, and its captions. Words
 * about the use of the page, the hints, are left out.
 * @param {HTMLElement} root @param {ViewRecord} record @param {Record<string, string>} [source] more about where it comes from */
export function drawing(root, record, source = {}) {
  root.classList.add("whole");
  const body = /** @type {HTMLElement} */ (root.querySelector(".body"));
  const box = body.getBoundingClientRect();
  const style = getComputedStyle(root);
  const parts = /** @type {Element[]} */ ([]);
  let [right, bottom] = [320, 0];
  /** @param {DOMRect} each */
  const place = (each) => {
    right = Math.max(right, each.right - box.left);
    bottom = Math.max(bottom, each.bottom - box.top);
    return { x: (each.left - box.left).toFixed(1), y: (each.top - box.top).toFixed(1), width: each.width.toFixed(1), height: each.height.toFixed(1) };
  };
  /** @param {Element} element */
  const visit = (element) => {
    const own = getComputedStyle(element);
    const rect = element.getBoundingClientRect();
    if (own.display === "none" || own.visibility === "hidden" || !rect.width || !rect.height) return;
    if (element.matches("input, select, caption, .hint")) return;
    if (element.matches(".ramp")) return parts.push(...rampOf(own.backgroundImage, place(rect)));
    const solid = own.backgroundColor !== "rgba(0, 0, 0, 0)";
    if (solid && element !== body) parts.push(draw("rect", { ...place(rect), fill: own.backgroundColor }));
    if (element instanceof HTMLCanvasElement)
      return parts.push(draw("image", { ...place(rect), href: element.toDataURL(), preserveAspectRatio: "none", "image-rendering": own.imageRendering }));
    if (element instanceof HTMLImageElement)
      return parts.push(draw("image", { ...place(rect), href: element.src, preserveAspectRatio: "none" }));
    if (element instanceof SVGSVGElement) return parts.push(copyOf(element, place(rect)));
    for (const child of element.childNodes)
      if (child instanceof Element) visit(child);
      else if (child instanceof Text && child.data.trim()) parts.push(...lettersOf(child, own, place));
  };
  visit(body);
  root.classList.remove("whole");
  const [margin, line] = [16, 18];
  const notes = captions({ ...record, source: { ...record.source, ...source } });
  notes.splice(1, 0, ...[choicesOf(root)].filter(Boolean));
  const width = Math.max(right, ...notes.map((note) => Math.min(textWidth(note, 12), 1200))) + 2 * margin;
  const height = bottom + 2 * margin + line * (notes.length + 1);
  const svg = draw("svg", {
    xmlns: "http://www.w3.org/2000/svg", width: Math.ceil(width), height: Math.ceil(height),
    viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`, "font-family": "system-ui, sans-serif", "font-size": 12, fill: style.color,
  });
  svg.append(draw("title", {}, notes[0]), draw("rect", { width: "100%", height: "100%", fill: style.backgroundColor }),
    draw("g", { transform: `translate(${margin} ${margin})` }, ...parts),
    ...notes.map((note, i) => draw("text", { x: margin, y: (bottom + 2 * margin + line * (i + 0.7)).toFixed(0), "font-weight": i ? 400 : 600 }, note)));
  return new XMLSerializer().serializeToString(svg);
}
/** The colours of a bar, side by side. @param {string} gradient @param {Record<string, string>} place */
function rampOf(gradient, { x, y, width, height }) {
  const colours = gradient.match(/rgb\([^)]*\)/g) ?? [];
  const each = Number(width) / colours.length;
  return colours.map((fill, i) => draw("rect", { x: (Number(x) + i * each).toFixed(1), y, width: each.toFixed(1), height, fill }));
}
/** @param {SVGSVGElement} element @param {Record<string, string>} place */
function copyOf(element, place) {
  const copy = /** @type {SVGSVGElement} */ (element.cloneNode(true));
  const originals = element.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((each, i) => {
    const own = getComputedStyle(originals[i]);
    for (const name of COPIED) {
      const value = own.getPropertyValue(name);
      if (value && value !== "none" && value !== "auto") each.setAttribute(name, value);
      else if (name === "fill" && value === "none") each.setAttribute(name, "none");
    }
    if (own.visibility === "hidden" || own.display === "none") each.setAttribute("visibility", "hidden");
    for (const name of ["class", "style", "tabindex"]) each.removeAttribute(name);
  });
  for (const name of ["class", "style", "tabindex"]) copy.removeAttribute(name);
  for (const [name, value] of Object.entries(place)) copy.setAttribute(name, value);
  return copy;
}
/** @param {Text} text @param {CSSStyleDeclaration} own @param {(rect: DOMRect) => Record<string, string>} place */
function lettersOf(text, own, place) {
  const span = document.createRange();
  span.selectNodeContents(text);
  const lines = [...span.getClientRects()];
  if (!lines.length) return [];
  const size = parseFloat(own.fontSize);
  const words = lines.length > 1 ? wordLines(text, lines) : [text.data.trim()];
  return lines.map((rect, i) => {
    const { x, y } = place(rect);
    return draw("text", {
      x, y: (Number(y) + rect.height / 2 + size * 0.34).toFixed(1), fill: own.color, "font-size": size, "font-weight": own.fontWeight,
    }, words[i] ?? "");
  });
}
/** The words of each line of a text that is broken. @param {Text} text @param {DOMRect[]} lines */
function wordLines(text, lines) {
  const parts = lines.map(() => "");
  const span = document.createRange();
  for (const { 0: each, index } of text.data.matchAll(/\S+\s*/g)) {
    span.setStart(text, index);
    span.setEnd(text, index + 1);
    const { top } = span.getBoundingClientRect();
    const line = lines.findIndex((rect) => top < rect.bottom - 2);
    parts[line < 0 ? lines.length - 1 : line] += each;
  }
  return parts;
}
