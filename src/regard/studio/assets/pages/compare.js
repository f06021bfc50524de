// @ts-check
// Compare: two models on the same input, their outputs with differences marked, and their attention side by side.
import { make } from "../views/base.js";
import { askModel, live } from "../assets/api.js";
import { choiceField, marked, modelField, percent, section, showAttention, textField, viewPlace } from "../assets/parts.js";

const TASKS = ["translate", "classify", "fill", "generate", "score"];

/** @param {HTMLElement} main @param {import("../assets/studio.js").Studio} studio */
export function open(main, studio) {
  const [first, second] = [modelField(studio, "model", "First model"), modelField(studio, "other", "Second model")];
  const text = textField(studio, "text", "Input", { rows: 2, unless: "The old man reads a book." });
  const task = choiceField(studio, "task", "Task", [["", "what each does best"], ...TASKS.map((each) => [each, each])]);
  const places = [make("div", {}), make("div", {})];
  const views = [viewPlace("Attention of the first model"), viewPlace("Attention of the second model")];
  const note = make("p", { class: "note" });
  if (studio.models.length < 2) note.textContent = "There is one model here; name several on the command line to compare them: regard studio MODEL MODEL. Two checkpoints of a run are two model folders.";
  main.append(make("form", { class: "fields" }, first.element, second.element, text.element, task.element), note,
    section("Outputs", make("div", { class: "side-by-side" }, ...places)), section("Attention", make("div", { class: "side-by-side" }, ...views.map((each) => each.element))));
  const other = () => studio.get("other") ? second.model : studio.models[1] ?? studio.models[0];
  /** @param {import("../assets/studio.js").Model} model */
  const taskOf = (model) => model.paths.includes(task.value) ? task.value : TASKS.find((each) => model.paths.includes(each)) ?? "";

  /** @param {import("../assets/studio.js").Model} model @param {AbortSignal} signal */
  const outputOf = async (model, signal) => {
    const path = taskOf(model);
    if (!path) return { text: "", lines: ["This model has no output for a text; its attention is below."] };
    const input = path === "fill" && model.mask && !text.value.includes(model.mask) ? `${text.value} ${model.mask}` : text.value;
    const [record] = await askModel(path, { model: model.name, text: input, ...(path === "generate" ? { max_new_tokens: 16, search: "greedy" } : {}) }, signal);
    if (path === "classify") return { text: String(record.label ?? ""), lines: Object.entries(record.probabilities ?? {}).map(([name, share]) => `${name} ${percent(Number(share))}`) };
    if (path === "fill") return { text: record.text, lines: record.blanks[0].map((/** @type {any} */ each) => `${each.word} ${percent(each.probability)}`) };
    if (path === "score") return { text: "", lines: Object.entries(record).filter(([, value]) => typeof value === "number").map(([name, value]) => `${name} ${Number(value).toPrecision(4)}`) };
    return { text: record.text, lines: record.score === undefined ? [] : [`score ${record.score.toFixed(2)}`] };
  };
  const running = live(async (signal) => {
    const models = [first.model, other()];
    const outputs = await Promise.all(models.map((model) => outputOf(model, signal)));
    if (signal.aborted) return;
    outputs.forEach((output, i) => places[i].replaceChildren(make("h3", {}, `${models[i].name} (${models[i].paper}, ${models[i].year}): ${taskOf(models[i]) || "no output"}`),
      make("p", { class: "large" }, marked(output.text, outputs[1 - i].text)), make("ul", { class: "plain" }, ...output.lines.map((/** @type {string} */ line) => make("li", {}, line)))));
    studio.announce(outputs[0].text === outputs[1].text ? "Both outputs are the same." : "The outputs differ.");
    await Promise.all(models.map(async (model, i) => {
      try {
        if (!model.sites.length) throw new Error("This model has no attention.");
        const target = taskOf(model) === "translate" && outputs[i].text ? { second: outputs[i].text } : {};
        const map = Math.max(0, model.sites.findIndex((site) => site.name === "cross"));
        await showAttention(views[i], { model: model.name, text: text.value, ...target }, signal, { map, view: "matrix" });
      } catch (error) { if (!signal.aborted) { views[i].clear(); views[i].fail(/** @type {Error} */ (error).message); } }
    }));
  }, (error) => { if (error) places[0].replaceChildren(make("p", { class: "fault", role: "alert" }, error.message)); });
  return {
    update() {
      for (const each of [first, second, text, task]) each.update();
      if (!studio.get("other")) second.input.value = other()?.name ?? "";
      running.request(JSON.stringify([first.value, other()?.name, text.value, task.value]));
    },
    close() { running.stop(); for (const view of views) view.clear(); },
  };
}
