// @ts-check
// The studio: pages over the models of the server. The address holds all choices of a page.
import { make, visible } from "../views/base.js";
import { ask, load } from "./api.js";
import { tour } from "./tour.js";

/**
 * @typedef {{name: string, layers: {heads: number, at: string}[]}} Site
 * @typedef {{name: string, paper: string, year: number, parameters: number, components: string[], paths: string[],
 *   labels: string[] | null, mask: string | null, sites: Site[], source: string | null, target: string | null, folder: string}} Model
 * @typedef {{update(): void, close(): void}} Page
 * @typedef {object} Studio
 * @property {Model[]} models
 * @property {boolean} runs whether there is a folder of runs
 * @property {(name: string, unless?: string) => string} get a choice of the address
 * @property {(name: string) => boolean} has whether a choice is in the address
 * @property {(changes: Record<string, string | number | null>, options?: {replace?: boolean}) => void} go change the address; null takes a choice out of it
 * @property {(text: string) => void} announce
 */

const UNDERSTAND = ["classify", "tag", "roles", "resolve", "answer", "choose", "fill"];
/** @type {{name: string, title: string, about: string, fits: (model: Model) => boolean, always?: boolean}[]} */
const PAGES = [
  { name: "translate", title: "Translate", about: "Type a sentence; see its translation, the alignment and the search.", fits: (model) => model.paths.includes("translate") },
  { name: "understand", title: "Understand", about: "Labels, tags, roles, mentions, answers and masked words, with the words they depend on.", fits: (model) => model.paths.some((path) => UNDERSTAND.includes(path)) },
  { name: "generate", title: "Generate", about: "Continue a text token by token, choose other tokens, and go on.", fits: (model) => model.paths.includes("generate") },
  { name: "see", title: "See", about: "An image, its label, and where heads look.", fits: (model) => model.paths.includes("label-image") },
  { name: "heads", title: "Heads", about: "What each head does, and what happens without the least important.", fits: (model) => model.sites.length > 0 },
  { name: "compare", title: "Compare", about: "Two models, or two checkpoints of a run, on the same input, with their differences.", fits: (model) => model.paths.length > 0 },
  { name: "train", title: "Train", about: "Runs as they go, several at once, and branches of them.", fits: () => true, always: true },
  { name: "papers", title: "Papers", about: "Which paper changed what, and the code of each.", fits: () => true, always: true },
];

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const nav = /** @type {HTMLElement} */ (document.querySelector("nav"));
const line = /** @type {HTMLElement} */ (document.getElementById("status"));
const choices = () => new URLSearchParams(location.search);
let open = { name: "", page: /** @type {Page | null} */ (null), loads: false };

/** @type {Studio} */
const studio = {
  models: [],
  runs: false,
  get: (name, unless = "") => choices().get(name) ?? unless,
  has: (name) => choices().has(name),
  go: (changes, { replace = false } = {}) => {
    const next = choices();
    for (const [name, value] of Object.entries(changes))
      if (value === null) next.delete(name);
      else next.set(name, String(value));
    const address = `/studio?${next}`;
    if (address !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", address);
    show();
  },
  announce: (text) => { line.textContent = visible(text); },
};

const known = () => PAGES.filter((page) => page.always || studio.models.some(page.fits));

/** @param {MouseEvent} event @param {string} name */
function follow(event, name) {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  history.pushState(null, "", `/studio?page=${name}`);
  show(true);
}
function showNav() {
  const here = studio.get("page");
  nav.replaceChildren(...known().map(({ name, title }) => make("a", {
    href: `/studio?page=${name}`, "aria-current": name === here ? "page" : null,
    onclick: (/** @type {MouseEvent} */ event) => follow(event, name),
  }, title)), make("button", { type: "button", class: "theme", onclick: turnTheme }, "Light / dark"),
  make("button", { type: "button", class: "present", "aria-pressed": String(isPresented()), title: "Alt+P: the picture alone, in twice the size", onclick: present }, "Present"),
  make("button", { type: "button", "data-opens": "tour", onclick: () => tour(studio) }, "Tour"));
}
const isPresented = () => studio.get("present") === "1";
/** Show the picture of a page alone, in twice the size, or with its fields again. */
const present = () => studio.go({ present: isPresented() ? null : 1 });
function turnTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  open.page?.close();
  open = { name: "", page: null, loads: false };
  show();
}
/** Open the page of the address, or tell the open one that choices have changed. @param {boolean} [focus] */
async function show(focus = false) {
  const name = studio.get("page");
  const page = known().find((each) => each.name === name);
  document.documentElement.toggleAttribute("data-present", isPresented());
  nav.querySelector(".present")?.setAttribute("aria-pressed", String(isPresented()));
  if (open.name === name && (open.page || open.loads)) return open.page?.update();
  open.page?.close();
  open = { name, page: null, loads: page !== undefined };
  showNav();
  document.title = page ? `${page.title} · regard studio` : "regard studio";
  if (!page) return showHome();
  const { open: openPage } = await load(`../pages/${name}.js`).catch((error) => ({ open: () => showFault(error) }));
  if (open.name !== name) return;
  open.loads = false;
  main.replaceChildren(make("h1", {}, page.title), make("p", { class: "summary" }, page.about));
  open.page = openPage(main, { ...studio, models: page.always ? studio.models : studio.models.filter(page.fits) });
  open.page?.update();
  if (focus) main.focus();
}
/** @param {Error} error @returns {null} there is no page */
function showFault(error) {
  main.append(make("p", { class: "fault", role: "alert" }, error.message));
  return null;
}
/** A link to a page, with choices. @param {string} name @param {string} title @param {string} [more] */
const pageLink = (name, title, more = "") => make("a", {
  href: `/studio?page=${name}${more}`, onclick: (/** @type {MouseEvent} */ event) => follow(event, `${name}${more}`),
}, title);
function showHome() {
  main.replaceChildren(make("h1", {}, "What would you like to look into?"),
    make("ul", { class: "models" }, ...studio.models.map((model) => make("li", {}, make("strong", {}, model.name), ` (${model.paper}, ${model.parameters.toLocaleString("en")} parameters): `,
      ...PAGES.filter((page) => !page.always && page.fits(model)).flatMap(({ name, title }, i) => [i ? ", " : "", pageLink(name, title, `&model=${encodeURIComponent(model.name)}`)])))),
    make("ul", { class: "cards" }, ...known().map(({ name, title, about }) => make("li", {}, pageLink(name, title), make("p", {}, about)))));
}

/** The token of the address is in a cookie by now: it goes no further with addresses that are kept and shared. */
function dropToken() {
  const rest = choices();
  rest.delete("token");
  if (choices().has("token")) history.replaceState(null, "", `/studio${rest.size ? `?${rest}` : ""}`);
}

dropToken();
addEventListener("popstate", () => show());
addEventListener("keydown", (event) => {
  if (!event.altKey || event.code !== "KeyP") return;
  event.preventDefault();
  present();
});
try {
  const listed = await ask("/studio/models");
  studio.models = listed.models;
  studio.runs = listed.runs;
  await show();
  if (studio.get("tour")) tour(studio);
} catch (error) {
  showFault(/** @type {Error} */ (error));
}
document.documentElement.dataset.ready = "";
