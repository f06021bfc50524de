// @ts-check
// Translate: n-best translations while you type, their alignment, the search, and the sentence without some heads.
import { make } from "../views/base.js";
import { askModel, askRecord, live, needText } from "../assets/api.js";
import { choiceField, editsOf, fold, headSwitches, headsOff, marked, modelField, namesOf, refill, section, showAttention, textField, viewPlace } from "../assets/parts.js";

const EXAMPLE = "The old man reads a book.";

/** @param {HTMLElement} main @param {import("../assets/studio.js").Studio} studio */
export function open(main, studio) {
  const model = modelField(studio);
  const text = textField(studio, "text", "Source text", { rows: 2, unless: EXAMPLE, resets: ["at", "word", "node"] });
  const prefix = textField(studio, "prefix", "The translation begins with", { hint: "Forced words; leave empty for the model's own." });
  const beam = choiceField(studio, "beam", "Beam", [["4", "4 hypotheses"], ["1", "greedy"], ["2", "2 hypotheses"], ["8", "8 hypotheses"]]);
  const list = make("ol", { class: "hypotheses" });
  const changed = make("div", {});
  const attention = viewPlace(studio, "Attention");
  const tree = viewPlace(studio, "Beam search");
  const switches = headSwitches(studio, () => model.model);
  const search = fold(studio, "tree", "Beam search: every candidate, and why it was pruned", tree.element);
  const heads = fold(studio, "heads", "Switch heads off", switches.element);
  main.append(make("form", { class: "fields", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    model.element, beam.element, text.element, prefix.element),
    section("Translations", list, changed), heads.element, section("Alignment", attention.element), search.element);

  /** @param {any[]} records @param {number} chosen */
  const showList = (records, chosen) => refill(list, ...records.map((record, number) => make("li", {},
    make("button", { type: "button", "aria-pressed": String(number === chosen), dir: "auto", onclick: () => studio.go({ at: number || null }) }, record.text || "(empty)"),
    make("span", { class: "quiet" }, ` ${record.score.toFixed(2)}`))));

  const writing = live(async (signal) => {
    needText(text.value);
    const request = { model: model.value, text: text.value, beam: Number(beam.value), best: Math.min(Number(beam.value), 4), search: "beam", ...(prefix.value ? { prefix: prefix.value } : {}) };
    const off = headsOff(studio, model.model);
    const [own, edited] = await Promise.all([
      askModel("translate", request, signal),
      off.length ? askModel("translate", { ...request, edits: editsOf(off) }, signal) : null,
    ]);
    if (signal.aborted) return;
    const shown = edited ?? own;
    const chosen = Math.min(Number(studio.get("at", "0")) || 0, shown.length - 1);
    showList(shown, chosen);
    changed.replaceChildren(...(edited ? [make("dl", { class: "before-after" },
      make("dt", {}, "all heads"), make("dd", {}, marked(own[0].text, edited[0].text)),
      make("dt", {}, `without ${namesOf(off)}`), make("dd", {}, marked(edited[0].text, own[0].text)))] : []));
    studio.announce(`${edited ? "Without heads: " : ""}${shown[chosen].text}`);
    const target = shown[chosen].text;
    if (!target) {
      attention.clear();
      changed.append(make("p", { class: "note" }, "The translation has no word, so that there is nothing to align."));
    } else await showAttention(attention, { model: model.value, text: text.value, second: target, edits: editsOf(off) }, signal, { map: cross() });
  }, (error) => {
    if (!text.value.trim()) for (const each of [list, changed]) each.replaceChildren();
    if (!text.value.trim()) attention.clear();
    attention.fail(error?.message ?? "");
    list.classList.toggle("old", Boolean(error));
  });

  const cross = () => Math.max(0, model.model.sites.findIndex((site) => site.name === "cross"));

  const searching = live(async (signal) => {
    needText(text.value);
    const body = { model: model.value, text: text.value, beam: Number(beam.value), prefix: prefix.value, edits: editsOf(headsOff(studio, model.model)) };
    await tree.show(await askRecord("/studio/tree", body, signal));
  }, (error) => {
    if (!text.value.trim()) tree.clear();
    tree.fail(error?.message ?? "");
  });

  return {
    update() {
      for (const each of [model, text, prefix, beam, search, heads, switches, attention, tree]) each.update();
      const input = [model.value, text.value, beam.value, studio.get("off"), prefix.value];
      writing.request(JSON.stringify([...input, studio.get("at")]));
      if (search.isOpen) searching.request(JSON.stringify(input));
    },
    close() { writing.stop(); searching.stop(); attention.clear(); tree.clear(); },
  };
}
