// @ts-check
// Generate: a continuation token by token; other tokens can be chosen, and the text goes on from there.
import { make, within } from "../views/base.js";
import { askRecord, live } from "../assets/api.js";
import { choiceField, editsOf, fold, headSwitches, headsOff, modelField, ofModel, percent, refill, section, showAttention, sliderField, stage, textField, unknownWords, viewPlace } from "../assets/parts.js";

/** @param {HTMLElement} main @param {import("../assets/studio.js").Studio} studio */
export function open(main, studio) {
  const model = modelField(studio);
  const text = textField(studio, "text", "Text so far", { rows: 4, unless: "The old man", resets: ["step", "word", "node"], hint: "Edit any part of it; the model goes on from its end." });
  text.element.classList.add("wide");
  const steps = sliderField(studio, "steps", "Tokens", { min: 1, max: 48, unless: 12 });
  const search = choiceField(studio, "search", "Choice of tokens", [["greedy", "the most probable"], ["sample", "a sample"]]);
  const temperature = sliderField(studio, "temperature", "Temperature", { min: 0.1, max: 2, step: 0.1, unless: 1, say: (value) => value.toFixed(1) });
  const topP = sliderField(studio, "top_p", "Top-p", { min: 0.05, max: 1, step: 0.05, unless: 1, say: (value) => value.toFixed(2) });
  const seed = sliderField(studio, "seed", "Seed", { min: 0, max: 99, unless: 0 });
  const written = make("p", { class: "written", dir: "auto" });
  const options = make("div", { class: "options", role: "group", "aria-label": "Alternatives" });
  const keep = make("button", { type: "button", onclick: () => last && studio.go({ text: last.prompt + last.continuations[last.winner.at(-1)], step: null }) }, "Keep all and go on");
  const one = make("button", { type: "button", onclick: () => last && studio.go({ text: last.prompt + last.continuations[last.winner[1]], step: null }) }, "Keep one token");
  const again = make("button", { type: "button", onclick: () => studio.go({ search: "sample", seed: (seed.value + 1) % 100 }) }, "Another sample");
  const going = make("p", { class: "row" }, one, keep, again);
  const told = make("div", {});
  const unknown = unknownWords();
  const tree = viewPlace(studio, "Candidates of each step");
  const attention = viewPlace(studio, "Attention");
  const switches = headSwitches(studio, () => model.model);
  const [candidates, inside, heads] = [fold(studio, "tree", "All candidates of each step", tree.element), fold(studio, "inside", "Attention", attention.element), fold(studio, "heads", "Switch heads off", switches.element)];
  const sampling = make("div", { class: "fields" }, temperature.element, topP.element, seed.element);
  const fault = make("p", { class: "fault", role: "alert" });
  main.append(make("form", { class: "fields" }, model.element, search.element, steps.element, text.element), unknown.element, sampling, fault,
    section("Continuation", told, stage(make("div", {}, written, going), options)), candidates.element, heads.element, inside.element);
  let last = /** @type {any} */ (null);

  /** @param {string} piece */
  const visible = (piece) => piece.replaceAll(" ", "␣").replaceAll("\n", "⏎");
  const draw = () => {
    if (!last) return;
    const chosen = within(Math.trunc(Number(studio.get("step"))) || 1, last.winner.length) || 1;
    refill(written, make("span", { class: "quiet" }, last.prompt), ...last.winner.slice(1).map((/** @type {number} */ node, /** @type {number} */ at) => {
      const before = last.continuations[last.nodes[node].parent];
      const piece = last.ends[node] ? "⟨end⟩" : last.continuations[node].slice(before.length) || last.nodes[node].piece;
      return make("button", {
        type: "button", "aria-pressed": String(at + 1 === chosen), "aria-label": `token ${at + 1}: ${piece}, probability ${percent(last.probability[node])}; show alternatives`,
        "data-likely": last.probability[node] > 0.5 ? "high" : last.probability[node] > 0.1 ? "middle" : "low", onclick: () => studio.go({ step: at + 1 }),
      }, piece);
    }));
    const node = last.winner[chosen];
    if (node === undefined) return options.replaceChildren(make("p", { class: "note" }, "The text does not go on."));
    const parent = last.nodes[node].parent;
    const before = last.continuations[parent];
    const rivals = last.nodes.flatMap((/** @type {any} */ each, /** @type {number} */ i) => each.parent === parent && each.step === last.nodes[node].step ? [i] : []);
    refill(options, make("h3", {}, `Token ${last.nodes[node].step}`), make("ul", { class: "bars" }, ...rivals.map((/** @type {number} */ i) => {
      const piece = last.ends[i] ? "⟨end⟩" : last.continuations[i].slice(before.length) || last.nodes[i].piece;
      return make("li", {}, make("button", { type: "button", disabled: last.ends[i], "aria-pressed": String(i === node), onclick: () => studio.go({ text: last.prompt + last.continuations[i], step: null }) }, visible(piece)),
        make("meter", { min: 0, max: 1, value: last.probability[i], "aria-label": piece }), make("span", { class: "quiet" }, percent(last.probability[i])));
    })));
  };
  const writing = live(async (signal) => {
    const [off, prompt] = [headsOff(studio, model.model), text.value];
    const edits = editsOf(off);
    const sample = search.value === "sample" ? { temperature: temperature.value, top_p: topP.value, seed: seed.value } : {};
    const record = await askRecord("/studio/tree", { model: model.value, text: prompt, steps: steps.value, alternatives: 6, edits, ...sample }, signal);
    if (signal.aborted) return;
    last = { ...record, prompt };
    told.replaceChildren(ofModel(model.model, off));
    draw();
    studio.announce(`Continuation: ${record.continuations[record.winner.at(-1)]}`);
    await tree.show(record);
  }, [told, written, going, options, tree.element], (error) => { fault.textContent = error?.message ?? ""; });
  const looking = live((signal) => showAttention(attention, { model: model.value, text: text.value, subwords: true, edits: editsOf(headsOff(studio, model.model)) }, signal),
    [attention.element], (error) => attention.fail(error?.message ?? ""));
  return {
    update() {
      for (const each of [model, text, steps, search, temperature, topP, seed, candidates, inside, heads, switches, tree, attention]) each.update();
      sampling.hidden = search.value !== "sample";
      writing.request(JSON.stringify([model.value, text.value, steps.value, search.value, temperature.value, topP.value, seed.value, studio.get("off")]));
      draw();
      unknown.request([model.model], text.value);
      if (inside.isOpen) looking.request(JSON.stringify([model.value, text.value, studio.get("off")]));
    },
    close() { for (const each of [writing, looking, unknown]) each.stop(); tree.clear(); attention.clear(); },
  };
}
