// @ts-check
// Parts of pages: fields that write to the address, checkpoints, views with their errors, switches of heads, outputs, marked differences.
import { clip, make, range, within, written } from "../views/base.js";
import { ask, askModel, askRecord, live, load as loadModule, LONGEST } from "./api.js";

/** @typedef {import("./studio.js").Studio} Studio */
/** @typedef {import("./studio.js").Model} Model */

let ids = 0;
/** @param {string} label @param {any} input @param {string} [hint] */
export function labelled(label, input, hint = "") {
  input.id ||= `field-${ids++}`;
  return make("p", { class: "field" }, make("label", { for: input.id }, label), input, hint ? make("small", { class: "quiet" }, hint) : "");
}
/** Choices to take out of the address. @param {string[]} names @returns {Record<string, null>} */
const without = (names) => Object.fromEntries(names.map((name) => [name, null]));
/** A text whose value is in the address; one that was emptied is there, too. Typing replaces the address, so that the
 * back button skips letters. Choices about the old text, the resets, are dropped with it.
 * @param {Studio} studio @param {string} name @param {string} label
 * @param {{rows?: number, unless?: string | (() => string), hint?: string, resets?: string[]}} [options] */
export function textField(studio, name, label, { rows = 0, unless = "", hint = "", resets = [] } = {}) {
  const first = () => typeof unless === "string" ? unless : unless();
  const input = make(rows ? "textarea" : "input", {
    ...(rows ? { rows } : { type: "text" }), spellcheck: "false", autocomplete: "off", dir: "auto",
    oninput: () => studio.go({ ...without(resets), [name]: input.value === first() ? null : input.value.slice(0, KEPT) }, { replace: true }),
  });
  return {
    element: labelled(label, input, hint), input,
    get value() { return studio.get(name, first()); },
    update() {
      if (input.value !== this.value) input.value = this.value;
      if (first()) input.placeholder = first(); // an example, once the text was emptied
    },
  };
}
const KEPT = LONGEST + 1; // characters of a text in the address: enough to say that it is too long
/** Put new children into an element; the button or field with the focus keeps it, by its place. @param {any} element @param {any[]} children */
export function refill(element, ...children) {
  const able = () => [...element.querySelectorAll("button:not(:disabled), select, input")];
  const at = able().indexOf(document.activeElement);
  element.replaceChildren(...children);
  if (at >= 0) able().slice(0, at + 1).at(-1)?.focus({ preventScroll: true });
}
/** A choice of a list whose value is in the address. @param {Studio} studio @param {string} name @param {string} label
 * @param {string[][]} values pairs of a value and its text @param {{resets?: string[], unless?: string}} [options] unless: the default, the first if none is given */
export function choiceField(studio, name, label, values, { resets = [], unless = values[0]?.[0] ?? "" } = {}) {
  const input = make("select", { onchange: () => studio.go({ ...without(resets), [name]: input.value === unless ? null : input.value }) },
    ...values.map(([value, text]) => make("option", { value }, text)));
  return {
    element: labelled(label, input), input,
    get value() {
      const chosen = studio.get(name, unless);
      return values.some(([value]) => value === chosen) ? chosen : unless;
    },
    update() { input.value = this.value; },
  };
}
const OF_A_MODEL = ["off", "at", "map", "layer", "head", "heads", "site", "node", "word"]; // choices that another model need not have
/** @param {Studio} studio @param {string} [name] @param {string} [label] @param {Model} [first] the model that is chosen at first */
export function modelField(studio, name = "model", label = "Model", first = studio.models[0]) {
  const values = studio.models.map((each) => [each.name, `${each.name} (${each.paper})`]);
  const prefix = name === "model" ? "" : `${name}.`;
  const field = choiceField(studio, name, label, values, { resets: OF_A_MODEL.map((each) => prefix + each), unless: first?.name });
  return { ...field, update: () => field.update(), get value() { return field.value; },
    get model() { return /** @type {Model} */ (studio.models.find((each) => each.name === field.value)); },
    /** Add checkpoints of runs to the list. @param {string[][]} checkpoints */
    add(checkpoints) {
      values.push(...checkpoints);
      if (checkpoints.length) field.input.append(make("optgroup", { label: "Checkpoints of runs" }, ...checkpoints.map(([value, text]) => make("option", { value }, text))));
    } };
}
// ---- checkpoints of runs ----------------------------------------------------------------------

const MARK = "@"; // in the name of a checkpoint in the address: @RUN@STEP
/** Checkpoints that can be opened, as values and texts of a choice. @param {any[]} runs */
export const checkpointsOf = (runs) => runs.filter((run) => run.opens).flatMap((run) => run.checkpoints.map((/** @type {number} */ step) =>
  [`${MARK}${run.name}${MARK}${step}`, `${run.name}, step ${step.toLocaleString("en")}`]));
/** The model of a choice; a checkpoint is opened by the server. @param {Studio} studio @param {string} value @param {AbortSignal} [signal]
 * @returns {Promise<Model & {title: string}>} */
export async function openModel(studio, value, signal) {
  const at = value.lastIndexOf(MARK);
  if (at <= 0 || !value.startsWith(MARK)) {
    const model = studio.models.find((each) => each.name === value) ?? studio.models[0];
    return { ...model, title: model.name };
  }
  const [run, step] = [value.slice(1, at), Number(value.slice(at + 1))];
  return { ...await ask("/studio/checkpoint", { run, step }, signal), title: `${run}, step ${step.toLocaleString("en")}` };
}
/** @param {Studio} studio @param {string} name @param {string} label @param {{min: number, max: number, step?: number, unless: number, say?: (value: number) => string}} options */
export function sliderField(studio, name, label, { min, max, step = 1, unless, say = String }) {
  const shown = make("output");
  const input = make("input", { type: "range", min, max, step, oninput: () => studio.go({ [name]: Number(input.value) === unless ? null : input.value }, { replace: true }) });
  const element = labelled(label, input);
  element.append(shown);
  return {
    element, input,
    get value() { const value = Number(studio.get(name, String(unless))); return Number.isFinite(value) ? Math.min(Math.max(value, min), max) : unless; },
    update() { input.value = String(this.value); shown.textContent = say(this.value); input.setAttribute("aria-valuetext", shown.textContent); },
  };
}
/** @param {string} title @param {any[]} children */
export const section = (title, ...children) => make("section", { "aria-label": title }, make("h2", {}, title), ...children);
/** Sections side by side where there is room; the second, with the picture, is the wider one. @param {any[]} children */
export const stage = (...children) => make("div", { class: "stage" }, ...children);
/** A section that opens with its heading; the address remembers that it is open. @param {Studio} studio @param {string} name @param {string} title @param {any[]} children */
export function fold(studio, name, title, ...children) {
  const opened = () => studio.get("open").split(",").filter(Boolean);
  const element = make("details", {}, make("summary", {}, title), ...children);
  element.addEventListener("toggle", () => {
    const others = opened().filter((each) => each !== name);
    if (element.open !== opened().includes(name)) studio.go({ open: [...others, ...(element.open ? [name] : [])].join(",") || null }, { replace: true });
  });
  return { element, get isOpen() { return opened().includes(name); }, update() { element.open = opened().includes(name); } };
}
const MOST_NAMED = 12; // unknown words that are named
/** A line under a field that names the words which models do not know: all are the same to them. */
export function unknownWords() {
  const element = make("p", { class: "note unknown", role: "status" });
  let models = /** @type {Model[]} */ ([]);
  let text = "";
  const asking = live(async (signal) => {
    const readers = text.trim() ? models.filter(readsText) : [];
    const found = await Promise.all(readers.map((model) => ask("/studio/unknown", { model: model.name, text }, signal)));
    if (signal.aborted) return;
    element.replaceChildren(...readers.flatMap((model, i) => {
      const { words } = found[i];
      const named = [...words.slice(0, MOST_NAMED), ...(words.length > MOST_NAMED ? ["…"] : [])];
      return words.length ? [`${model.name} does not know `, ...named.flatMap((word, at) => [at ? ", " : "", make("strong", { dir: "auto" }, word)]), ": it reads them as one unknown token. "] : [];
    }));
  }, [element], (error) => { if (error) element.replaceChildren(); });
  return {
    element, stop: asking.stop,
    /** @param {Model[]} readers @param {string} given */
    request(readers, given) {
      [models, text] = [readers, given];
      asking.request(JSON.stringify([models.map((model) => model.name), text]));
    },
  };
}
/** The place of a view: the module of the record's kind draws into it. What is chosen in the view is in the address,
 * with a prefix if the page has two of its kind. @param {Studio} studio @param {string} label @param {string} [prefix] */
export function viewPlace(studio, label, prefix = "") {
  const body = make("div", {});
  const fault = make("p", { class: "fault", role: "alert", hidden: true });
  const element = make("div", { class: "view", role: "group", "aria-label": label }, fault, body);
  let view = /** @type {any} */ (null);
  let kind = "";
  let first = /** @type {Record<string, any>} */ ({}); // what is chosen at first
  let known = "";
  const chosen = () => Object.fromEntries(Object.keys(first).filter((name) => studio.has(prefix + name)).map((name) => [name, studio.get(prefix + name)]));
  /** @param {any} _ @param {any} state */
  const onOptions = (_, state) => {
    const names = Object.keys(first);
    const other = names.filter((name) => written(state[name]) !== written(first[name]));
    known = JSON.stringify(Object.fromEntries(other.map((name) => [name, written(state[name])])));
    studio.go(Object.fromEntries(names.map((name) => [prefix + name, other.includes(name) ? written(state[name]) : null])));
  };
  /** Where a saved drawing comes from. */
  const source = () => ({ "heads switched off": studio.get("off"), address: clip([...new URLSearchParams(location.search)].map((each) => each.join("=")).join("&"), 300) });
  return {
    element,
    /** @param {any} record @param {{load?: any} & Record<string, any>} [options] */
    async show(record, { load, ...given } = {}) {
      fault.hidden = true;
      const choices = (/** @type {Record<string, any>} */ own) => {
        first = Object.fromEntries(Object.entries(own).map(([name, value]) => [name, given[name] ?? value]));
        known = JSON.stringify(chosen());
        return { ...first, ...chosen() };
      };
      const module = MODULES[record.kind] ?? record.kind;
      if (view && kind === record.kind) return view.update(record, { load, choices });
      const { render } = await loadModule(`../views/${module}.js`);
      view?.destroy();
      view = render(body, record, { load, choices, onOptions, source });
      kind = record.kind;
    },
    /** Draw what the address says now. */
    update() { if (view && known !== JSON.stringify(chosen())) view.update(); },
    /** @param {string} message */
    fail(message) { fault.textContent = message; fault.hidden = !message; element.classList.toggle("old", Boolean(message)); },
    clear() { view?.destroy(); view = null; kind = ""; body.replaceChildren(); this.fail(""); },
  };
}
/** Modules of kinds that are not called like their module. @type {Record<string, string>} */
const MODULES = { beam_tree: "search_tree", token_tree: "search_tree", patching: "grids", curves: "charts", probes: "charts" };

/** Attention of an input in a place; layers of a long one are asked for when they are shown.
 * @param {ReturnType<typeof viewPlace>} place @param {object} body @param {AbortSignal} signal @param {object} [options] */
export async function showAttention(place, body, signal, options = {}) {
  const record = await askRecord("/studio/look", body, signal);
  const load = (/** @type {number} */ map, /** @type {number} */ layer) => askRecord("/studio/layer", { ...body, map, layer });
  await place.show(record, { load, ...options });
}

// ---- heads that are switched off --------------------------------------------------------------

/** Heads of the choice "off", such as cross.0.1, as {site, layer, head}. @param {Studio} studio @param {Model} model */
export function headsOff(studio, model) {
  return studio.get("off").split(",").flatMap((each) => {
    const [name, layer, head] = each.split(".");
    const own = model?.sites.find((site) => site.name === name)?.layers[Number(layer)];
    return own && Number(head) < own.heads ? [{ site: name, layer: Number(layer), head: Number(head), at: own.at }] : [];
  });
}
/** Edits of requests. @param {ReturnType<typeof headsOff>} off */
export const editsOf = (off) => off.map(({ at, head }) => ({ kind: "head-off", at, head }));
/** @param {ReturnType<typeof headsOff>} off */
export const namesOf = (off) => off.map(({ site, layer, head }) => `${site} ${layer}.${head}`).join(", ");
/** The line above figures that says of which model they are; none if all heads are on. @param {Model} model @param {ReturnType<typeof headsOff>} off */
export const ofModel = (model, off) => off.length ? make("p", { class: "note of-model" }, `Model: ${model.name} without ${namesOf(off)}`) : "";

/** A grid of buttons for each site: a row is a layer, a button a head. Arrow keys move between them.
 * @param {Studio} studio @param {() => Model} model */
export function headSwitches(studio, model) {
  const element = make("div", { class: "switches" });
  let drawn = "";
  const toggle = (/** @type {string} */ name) => {
    const off = studio.get("off").split(",").filter(Boolean);
    studio.go({ off: (off.includes(name) ? off.filter((each) => each !== name) : [...off, name]).join(",") || null });
  };
  const update = () => {
    const shown = model();
    if (drawn !== shown.name) {
      drawn = shown.name;
      element.replaceChildren(...shown.sites.map((site) => make("table", { class: "heads" },
        make("caption", {}, `${site.name} attention: a row is a layer, a button a head`),
        make("tbody", {}, ...site.layers.map(({ heads }, layer) => make("tr", {}, make("th", { scope: "row" }, String(layer)),
          make("td", {}, ...range(heads).map((head) => make("button", {
            type: "button", "data-head": `${site.name}.${layer}.${head}`, "aria-label": `${site.name} attention, layer ${layer}, head ${head}: off`,
            onclick: () => toggle(`${site.name}.${layer}.${head}`),
          }, String(head))))))))),
        make("p", {}, make("button", { type: "button", onclick: () => studio.go({ off: null }) }, "All heads on")));
    }
    const off = studio.get("off").split(",");
    for (const button of element.querySelectorAll("[data-head]")) button.setAttribute("aria-pressed", String(off.includes(button.dataset.head)));
  };
  element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const rows = [...element.querySelectorAll("tr")].map((row) => [...row.querySelectorAll("[data-head]")]).filter((row) => row.length);
    const row = rows.findIndex((each) => each.includes(document.activeElement));
    const step = /** @type {Record<string, number[]>} */ ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] })[event.key];
    if (row < 0 || !step) return;
    event.preventDefault();
    const next = rows[within(row + step[0], rows.length)];
    next[within(rows[row].indexOf(document.activeElement) + step[1], next.length)].focus();
  });
  return { element, update };
}

// ---- outputs ------------------------------------------------------------------------------------

/** @typedef {{text: string, shares: [string, number][], lines: string[]}} Output */
export const EMPTY = "(empty)"; // in place of a text without a word
export const OUTPUTS = ["translate", "classify", "fill", "generate", "score"]; // paths whose output is a text or a few figures
/** The path that gives the output of a model: the wanted one, or what it does best. @param {Model} model @param {string} [wanted] */
export const outputPath = (model, wanted = "") => model.paths.includes(wanted) ? wanted : OUTPUTS.find((each) => model.paths.includes(each)) ?? "";
/** Whether a model reads one text, rather than images, or a question with its text. @param {Model} model */
export const readsText = (model) => Boolean(outputPath(model)) || !["label-image", "answer"].some((path) => model.paths.includes(path));
/** What a model makes of a text. @param {Model} model @param {string} path @param {string} text @param {AbortSignal} [signal] @returns {Promise<Output>} */
export async function outputOf(model, path, text, signal) {
  if (!path) return { text: "", shares: [], lines: [`This model has no output for one text${model.sites.length && readsText(model) ? "; its attention is below" : ""}.`] };
  const input = path === "fill" && model.mask && !text.includes(model.mask) ? `${text} ${model.mask}` : text;
  const [record] = await askModel(path, { model: model.name, text: input, ...(path === "generate" ? { max_new_tokens: 16, search: "greedy" } : {}) }, signal);
  if (path === "classify") return { text: String(record.label ?? ""), shares: Object.entries(record.probabilities ?? {}), lines: Object.entries(record.values ?? {}).map(([name, value]) => `${name} ${Number(value).toPrecision(4)}`) };
  if (path === "fill") return { text: record.text, shares: record.blanks[0].map((/** @type {any} */ each) => [each.word, each.probability]), lines: [] };
  if (path === "score") return { text: "", shares: [], lines: Object.entries(record).filter(([, value]) => typeof value === "number").map(([name, value]) => `${name} ${Number(value).toPrecision(4)}`) };
  return { text: record.text, shares: [], lines: record.score === undefined ? [] : [`score ${record.score.toFixed(2)}`] };
}

// ---- differences ------------------------------------------------------------------------------

/** The words of a text, those that another text lacks marked. @param {string} text @param {string} other */
export function marked(text, other) {
  const [own, its] = [text.split(/\s+/), other.split(/\s+/)];
  const lengths = range(own.length + 1).map(() => new Uint16Array(its.length + 1));
  for (let i = own.length - 1; i >= 0; i--)
    for (let j = its.length - 1; j >= 0; j--)
      lengths[i][j] = own[i] === its[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  const parts = [];
  for (let i = 0, j = 0; i < own.length; i++) {
    while (j < its.length && own[i] !== its[j] && lengths[i][j + 1] > lengths[i + 1][j]) j++;
    const same = j < its.length && own[i] === its[j] && lengths[i][j] === lengths[i + 1][j + 1] + 1;
    if (same) j++;
    parts.push(same ? own[i] : make("mark", {}, own[i]), " ");
  }
  return make("span", { dir: "auto" }, ...parts);
}
/** @param {number} value */
export const percent = (value) => `${(100 * value).toFixed(value > 0 && value < 0.001 ? 2 : 1)}%`;
