// @ts-check
// Compare: two models, or checkpoints of a run, on the same input: outputs with differences marked, and attention side by side.
import { make } from "../views/base.js";
import { ask, live, needText } from "../assets/api.js";
import { checkpointsOf, choiceField, EMPTY, marked, modelField, openModel, outputOf, outputPath, OUTPUTS, percent, readsText, section, showAttention, textField, unknownWords, viewPlace } from "../assets/parts.js";

/** The two models to compare until others are chosen: of one kind of output if there are such, and readers of texts.
 * @param {import("../assets/studio.js").Model[]} models */
function pairOf(models) {
  const readers = models.filter(readsText);
  /** @param {import("../assets/studio.js").Model} one */
  const twinOf = (one) => readers.find((each) => each !== one && outputPath(each) && outputPath(each) === outputPath(one));
  const first = readers.find(twinOf) ?? readers[0] ?? models[0];
  return [first, twinOf(first) ?? readers.find((each) => each !== first) ?? first];
}
/** @param {HTMLElement} main @param {import("../assets/studio.js").Studio} studio */
export function open(main, studio) {
  const [one, other] = pairOf(studio.models);
  const [first, second] = [modelField(studio, "model", "First model", one), modelField(studio, "other", "Second model", other)];
  const text = textField(studio, "text", "Input", { rows: 2, unless: "The old man reads a book.", resets: ["word", "other.word"] });
  const task = choiceField(studio, "task", "Task", [["", "what each does best"], ...OUTPUTS.map((each) => [each, each])]);
  const places = [make("div", {}), make("div", {})];
  const views = [viewPlace(studio, "Attention of the first model"), viewPlace(studio, "Attention of the second model", "other.")];
  const note = make("p", { class: "note" });
  const unknown = unknownWords();
  const fault = make("p", { class: "fault", role: "alert" });
  main.append(make("form", { class: "fields", onsubmit: (/** @type {Event} */ event) => event.preventDefault() }, first.element, second.element, task.element, text.element), unknown.element, note, fault,
    section("Outputs", make("div", { class: "side-by-side" }, ...places)), section("Attention", make("div", { class: "side-by-side" }, ...views.map((each) => each.element))));
  let ready = false; // checkpoints are in the lists

  /** A line for each label or word, with the difference to the other output. @param {import("../assets/parts.js").Output} own @param {import("../assets/parts.js").Output} its */
  const shareLines = (own, its) => own.shares.map(([name, share]) => {
    const before = its.shares.find((each) => each[0] === name);
    const change = before && share - before[1];
    return make("li", {}, make("span", { dir: "auto" }, name), ` ${percent(share)}`, change && Math.abs(change) >= 0.0005 ? make("mark", {}, ` ${change > 0 ? "+" : "−"}${percent(Math.abs(change))}`) : "");
  });
  const key = () => JSON.stringify([first.value, second.value, text.value, task.value]);
  let known = { key: "", text: "", models: /** @type {any[]} */ ([]), paths: [""], outputs: /** @type {import("../assets/parts.js").Output[]} */ ([]) }; // the last outputs
  const running = live(async (signal) => {
    needText(text.value);
    const [own, given] = [key(), text.value];
    const models = [await openModel(studio, first.value, signal), await openModel(studio, second.value, signal)];
    const paths = models.map((model) => outputPath(model, task.value));
    const outputs = await Promise.all(models.map((model, i) => outputOf(model, paths[i], given, signal)));
    if (signal.aborted) return;
    known = { key: own, text: given, models, paths, outputs };
    unknown.request(models.filter((model, i) => models.findIndex((each) => each.name === model.name) === i), given);
    outputs.forEach((output, i) => places[i].replaceChildren(make("h3", {}, `${models[i].title} (${models[i].paper}, ${models[i].year}): ${paths[i] || "no output"}`),
      make("p", { class: "large" }, paths[i] === "score" || !paths[i] ? "" : marked(output.text || EMPTY, outputs[1 - i].text || EMPTY)),
      make("ul", { class: "plain" }, ...shareLines(output, outputs[1 - i]), ...output.lines.map((line) => make("li", {}, line)))));
    studio.announce(outputs[0].text === outputs[1].text ? "Both outputs are the same." : "The outputs differ.");
    attend();
  }, places, (error) => {
    fault.textContent = error?.message ?? "";
    if (!error) return;
    attending.stop();
    for (const { element } of views) element.classList.add("old");
    if (text.value.trim()) return;
    for (const place of places) place.replaceChildren();
    for (const view of views) view.clear();
  });
  const attending = live(async (signal) => {
    const { models, paths, outputs } = known;
    await Promise.all(models.map(async (model, i) => {
      try {
        if (!readsText(model)) throw new Error(model.paths.includes("answer") ? "This model reads a question with its text: ask it on the page Understand." : "This model reads images: give it one on the page See.");
        if (!model.sites.length) throw new Error("This model has no attention.");
        const target = paths[i] === "translate" && outputs[i].text ? { second: outputs[i].text } : {};
        const map = Math.max(0, model.sites.findIndex((/** @type {any} */ site) => site.name === "cross"));
        await showAttention(views[i], { model: model.name, text: known.text, ...target }, signal, { map, view: "matrix" });
      } catch (error) { if (!signal.aborted) { views[i].clear(); views[i].fail(/** @type {Error} */ (error).message); } }
    }));
  }, views.map((view) => view.element), () => {});
  /** Ask for the attention of what is compared, once its outputs are there. */
  const attend = () => {
    if (known.key === key()) attending.request(known.key, true);
    else if (known.key) attending.outdate();
  };
  const aligned = new ResizeObserver(() => { // heat maps side by side begin at the same height
    const [lines, cells] = [".readout", ".cells"].map((name) => views.map(({ element }) => element.querySelector(name)));
    if (![...lines, ...cells].every(Boolean) || views[0].element.offsetTop !== views[1].element.offsetTop) return;
    for (const line of lines) line.style.marginTop = "";
    const tops = cells.map((each) => each.getBoundingClientRect().top);
    const zoom = lines[0].getBoundingClientRect().width / lines[0].offsetWidth || 1;
    lines.forEach((line, i) => { line.style.marginTop = `${(Math.max(...tops) - tops[i]) / zoom}px`; });
  });
  for (const { element } of views) aligned.observe(element);
  const update = () => {
    if (!ready) return;
    for (const each of [first, second, text, task, ...views]) each.update();
    running.request(key());
    attend();
  };
  const list = async () => {
    const checkpoints = studio.runs ? checkpointsOf((await ask("/studio/runs")).runs) : [];
    for (const each of [first, second]) each.add(checkpoints);
    if (studio.models.length + checkpoints.length < 2) note.textContent = "There is one model here; name several on the command line to compare them: regard studio MODEL MODEL. With --runs DIR, checkpoints of runs are in the lists, too.";
  };
  list().catch((error) => { fault.textContent = error.message; }).finally(() => { ready = true; update(); });
  return { update, close() { running.stop(); attending.stop(); unknown.stop(); aligned.disconnect(); for (const view of views) view.clear(); } };
}
