// @ts-check
// A tour in five steps: a small card that names what to try, on the page where it can be tried.
import { make } from "../views/base.js";

/** @typedef {import("./studio.js").Studio} Studio */
/** @type {{page: string, title: string, text: string, fits: (studio: Studio) => boolean}[]} */
const STEPS = [
  { page: "", title: "Models", text: "The studio runs the models that you named on the command line, on this machine alone. Each page above is one way to look into them; a page is there if a model can do what it needs.", fits: () => true },
  { page: "translate", title: "Type, and look", text: "Type a sentence. The translation follows, and the lines show from which words each word of it was written. Point at a word to see its row alone.", fits: (studio) => studio.models.some((model) => model.paths.includes("translate")) },
  { page: "understand", title: "Why this label?", text: "Words are tinted by how much the prediction depends on them. Switch a word off with a click, or a head below, and see the probabilities change.", fits: (studio) => studio.models.some((model) => model.paths.some((path) => ["classify", "tag", "answer", "fill"].includes(path))) },
  { page: "generate", title: "Another token", text: "Each token of a continuation has its alternatives beneath it. Choose another one, and the text goes on from there.", fits: (studio) => studio.models.some((model) => model.paths.includes("generate")) },
  { page: "heads", title: "Heads", text: "Each square is a head, coloured by what it does. Move the slider to remove the least important ones, and watch the output change.", fits: (studio) => studio.models.some((model) => model.sites.length > 0) },
  { page: "train", title: "Runs", text: "Curves of your runs, as they go. Go back to a checkpoint, change one setting, and see where the two runs part.", fits: () => true },
  { page: "papers", title: "Papers", text: "Every model here is a paper as a short file. See what each paper changed of the one before it.", fits: () => true },
];
const MOST = 5;

/** @param {Studio} studio */
export function tour(studio) {
  document.querySelector(".tour")?.remove();
  const steps = STEPS.filter((step) => step.fits(studio)).slice(0, MOST);
  let at = Math.min(Math.max(Number(studio.get("tour", "1")) - 1, 0), steps.length - 1);
  const card = make("section", { class: "tour", role: "dialog", "aria-label": "Tour", tabindex: -1 });
  const ended = new AbortController();
  const remove = () => {
    const held = card.contains(document.activeElement);
    ended.abort();
    card.remove();
    if (held) /** @type {HTMLElement | null} */ (document.querySelector("nav [data-opens=tour]"))?.focus();
  };
  const close = () => { remove(); studio.go({ tour: null }, { replace: true }); };
  addEventListener("popstate", () => {
    const now = Number(studio.get("tour")) - 1;
    if (!steps[now]) return remove();
    at = now;
    draw();
  }, { signal: ended.signal });
  card.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") close();
    if (event.key === "ArrowRight" && at < steps.length - 1) turn(1);
    if (event.key === "ArrowLeft" && at > 0) turn(-1);
  });
  /** @param {number} by */
  const turn = (by) => { at += by; draw(); follow(); };
  const follow = () => studio.go({ page: steps[at].page || null, tour: at + 1 });
  const draw = () => {
    const step = steps[at];
    card.replaceChildren(make("h2", {}, step.title), make("p", {}, step.text),
      make("p", { class: "row" }, make("span", { class: "quiet" }, `${at + 1} of ${steps.length}`),
        make("button", { type: "button", disabled: at === 0, onclick: () => turn(-1) }, "Back"),
        at < steps.length - 1
          ? make("button", { type: "button", onclick: () => turn(1) }, "Next")
          : make("button", { type: "button", onclick: close }, "Done"),
        make("button", { type: "button", onclick: close }, "Close")));
    card.focus();
  };
  document.body.append(card);
  draw();
  follow();
}
