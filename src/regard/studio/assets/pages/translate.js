// @ts-check
// Translate: n-best translations while you type, their alignment, the search, and the sentence without some heads.
import { make, within } from "../views/base.js";
import { askModel, askRecord, live, needText } from "../assets/api.js";
import { choiceField, editsOf, fold, headSwitches, headsOff, marked, modelField, namesOf, ofModel, refill, section, showAttention, stage, textField, unknownWords, viewPlace } from "../assets/parts.js";

const EXAMPLE = "The old man reads a book.";

/** @param {HTMLElement} main @param {import("../assets/studio.js").Studio} studio */
export function open(main, studio) {
  const model = modelField(studio);
  const text = textField(studio, "text", "Source text", { rows: 2, unless: EXAMPLE, resets: ["at", "word", "node"] });
  const prefix = textField(studio, "prefix", "The translation begins with", { hint: "Forced words; leave empty for the model's own." });
  const beam = choiceField(studio, "beam", "Beam", [["4", "4 hypotheses"], ["1", "greedy"], ["2", "2 hypotheses"], ["8", "8 hypotheses"]]);
  const list = make("ol", { class: "hypotheses" });
  const changed = make("div", {});
  const told = make("div", {});
  const unknown = unknownWords();
  const empty = make("p", { class: "note" });
  const attention = viewPlace(studio, "Attention");
  const tree = viewPlace(studio, "Beam search");
  const switches = headSwitches(studio, () => model.model);
  const search = fold(studio, "tree", "Beam search: every candidate, and why it was pruned", tree.element);
  const heads = fold(studio, "heads", "Switch heads off", switches.element);
  main.append(make("form", { class: "fields", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    model.element, beam.element, text.element, prefix.element), unknown.element,
    stage(section("Translations", told, list, changed), section("Alignment", empty, attention.element)), search.element, heads.element);

  /** @param {any[]} records @param {number} chosen */
  const showList = (records, chosen) => refill(list, ...records.map((record, number) => make("li", {},
    make("button", { type: "button", "aria-pressed": String(number === chosen), dir: "auto", onclick: () => studio.go({ at: number || null }) }, record.text || "(empty)"),
    make("span", { class: "quiet" }, ` ${record.score.toFixed(2)}`))));

  const input = () => [model.value, text.value, beam.value, studio.get("off"), prefix.value];
  let written = { records: /** @type {any[]} */ ([]), input: "" }; // the last translations, and of what they are
  const chosen = () => within(Math.trunc(Number(studio.get("at", "0"))) || 0, written.records.length);
  const writing = live(async (signal) => {
    needText(text.value);
    const request = { model: model.value, text: text.value, beam: Number(beam.value), best: Math.min(Number(beam.value), 4), search: "beam", ...(prefix.value ? { prefix: prefix.value } : {}) };
    const off = headsOff(studio, model.model);
    const key = JSON.stringify(input());
    const [own, edited] = await Promise.all([
      askModel("translate", request, signal),
      off.length ? askModel("translate", { ...request, edits: editsOf(off) }, signal) : null,
    ]);
    if (signal.aborted) return;
    written = { records: edited ?? own, input: key };
    told.replaceChildren(ofModel(model.model, off));
    showList(written.records, chosen());
    changed.replaceChildren(...(edited ? [make("dl", { class: "before-after" },
      make("dt", {}, "all heads"), make("dd", {}, marked(own[0].text, edited[0].text)),
      make("dt", {}, `without ${namesOf(off)}`), make("dd", {}, marked(edited[0].text, own[0].text)))] : []));
    studio.announce(`${edited ? "Without heads: " : ""}${written.records[chosen()].text}`);
    align();
  }, [told, list, changed], (error) => {
    if (!error) return;
    aligning.stop();
    if (!text.value.trim()) {
      for (const each of [told, list, changed]) each.replaceChildren();
      attention.clear();
    }
    attention.fail(error.message);
  });
  const aligning = live(async (signal) => {
    const target = written.records[chosen()].text;
    empty.textContent = target ? "" : "The translation has no word, so that there is nothing to align.";
    if (!target) return attention.clear();
    await showAttention(attention, { model: model.value, text: text.value, second: target, edits: editsOf(headsOff(studio, model.model)) }, signal, { map: cross() });
  }, [attention.element], (error) => attention.fail(error?.message ?? ""));
  /** Align the chosen translation, once it is that of the text. */
  const align = () => {
    if (written.input === JSON.stringify(input())) aligning.request(JSON.stringify([written.input, chosen()]), true);
    else if (written.input) aligning.outdate();
  };

  const cross = () => Math.max(0, model.model.sites.findIndex((site) => site.name === "cross"));

  const searching = live(async (signal) => {
    needText(text.value);
    const body = { model: model.value, text: text.value, beam: Number(beam.value), prefix: prefix.value, edits: editsOf(headsOff(studio, model.model)) };
    await tree.show(await askRecord("/studio/tree", body, signal));
  }, [tree.element], (error) => {
    if (!text.value.trim()) tree.clear();
    tree.fail(error?.message ?? "");
  });

  return {
    update() {
      for (const each of [model, text, prefix, beam, search, heads, switches, attention, tree]) each.update();
      writing.request(JSON.stringify(input()));
      if (search.isOpen) searching.request(JSON.stringify(input()));
      if (written.input === JSON.stringify(input())) showList(written.records, chosen());
      align();
      unknown.request([model.model], text.value);
    },
    close() { for (const each of [writing, aligning, searching, unknown]) each.stop(); attention.clear(); tree.clear(); },
  };
}
