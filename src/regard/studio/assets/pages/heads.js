// @ts-check
// Heads: a report on what each does, and a slider that removes the least important of them.
import { figure, make } from "../views/base.js";
import { ask, askModel, askRecord, live } from "../assets/api.js";
import { editsOf, marked, modelField, section, sliderField, stage, textField, viewPlace } from "../assets/parts.js";

const EXAMPLES = "The old man reads a book.\nThe children sleep because they are tired.\nA small dog sees the big house.\nThe woman gives the girl an apple.";

/** @param {HTMLElement} main @param {import("../assets/studio.js").Studio} studio */
export function open(main, studio) {
  const model = modelField(studio);
  const texts = textField(studio, "texts", "Texts on which heads are measured, one a line", { rows: 4, unless: EXAMPLES });
  const share = sliderField(studio, "share", "Heads to remove, the least important first", { min: 0, max: 0.9, step: 0.05, unless: 0, say: (value) => `${Math.round(100 * value)}%` });
  const report = viewPlace(studio, "Report on heads");
  const result = make("div", {});
  main.append(make("form", { class: "fields" }, model.element, texts.element), stage(section("Remove heads", share.element, result), section("Report", report.element)));
  let order = /** @type {[string, number, number][]} */ ([]);
  const lines = () => texts.value.split("\n").map((line) => line.trim()).filter(Boolean).slice(0, 64);

  const reporting = live(async (signal) => {
    if (!lines().length) throw new Error("There is no text: type one or more, each on its line.");
    const record = await askRecord("/studio/heads", { model: model.value, texts: lines() }, signal);
    if (signal.aborted) return;
    order = record.sites.filter((/** @type {any} */ site) => record.prunable.includes(site.name)).flatMap((/** @type {any} */ site) =>
      site.layers.flatMap((/** @type {any[]} */ layer, /** @type {number} */ row) => layer.map((cell, head) => ({ place: [site.name, row, head], importance: cell.figures.importance }))))
      .filter((/** @type {any} */ each) => each.importance !== null && each.importance !== undefined)
      .sort((/** @type {any} */ one, /** @type {any} */ other) => one.importance - other.importance).map((/** @type {any} */ each) => each.place);
    share.element.hidden = !order.length;
    await report.show(record);
    update();
  }, [report.element], (error) => { report.fail(error?.message ?? ""); if (error) { order = []; result.replaceChildren(); } });

  const pruning = live(async (signal) => {
    const heads = order.slice(0, Math.round(share.value * order.length));
    if (!heads.length) return result.replaceChildren(make("p", { class: "note" }, `All ${order.length} heads are there: move the slider to see the model without the least important ones.`));
    const found = await ask("/studio/prune", { model: model.value, texts: lines(), heads }, signal);
    const rows = [["heads", order.length, order.length - heads.length], [`loss over ${found.what}`, figure(found.before.loss), figure(found.after.loss)],
      ["milliseconds for all texts", found.before.ms.toFixed(1), found.after.ms.toFixed(1)], ["parameters", found.before.parameters.toLocaleString("en"), found.after.parameters.toLocaleString("en")]];
    const path = ["translate", "classify", "generate"].find((each) => model.model.paths.includes(each));
    const edits = editsOf(heads.map(([site, layer, head]) => ({ site, layer, head, at: model.model.sites.find((each) => each.name === site)?.layers[layer].at ?? "" })));
    const request = { model: model.value, text: lines()[0], ...(path === "generate" ? { max_new_tokens: 16, search: "greedy" } : {}) };
    const outputs = path ? await Promise.all([{}, edits.length ? { edits } : {}].map(async (more) => (await askModel(path, { ...request, ...more }, signal))[0])) : [];
    if (signal.aborted) return;
    const texts = outputs.map((each) => String(each.text ?? each.label ?? ""));
    result.replaceChildren(make("table", {}, make("caption", {}, `${heads.length} heads removed; times are medians of five forward passes on this machine`),
      make("thead", {}, make("tr", {}, ...["", "whole", "without them"].map((each) => make("th", { scope: "col" }, each)))),
      make("tbody", {}, ...rows.map(([name, before, after]) => make("tr", {}, make("th", { scope: "row" }, String(name)), make("td", { class: "figure" }, String(before)), make("td", { class: "figure" }, String(after)))))),
      ...(texts.length ? [make("dl", { class: "before-after" }, make("dt", {}, "whole"), make("dd", {}, marked(texts[0], texts[1])), make("dt", {}, "without them"), make("dd", {}, marked(texts[1], texts[0])))] : []));
    studio.announce(`${heads.length} heads removed: loss ${figure(found.after.loss)}, before ${figure(found.before.loss)}`);
  }, [result], (error) => { if (error) result.replaceChildren(make("p", { class: "fault", role: "alert" }, error.message)); });
  const update = () => {
    for (const each of [model, texts, share, report]) each.update();
    const key = JSON.stringify([model.value, lines()]);
    reporting.request(key);
    if (order.length) pruning.request(JSON.stringify([key, share.value, order.length]));
  };
  return { update, close() { reporting.stop(); pruning.stop(); report.clear(); } };
}
