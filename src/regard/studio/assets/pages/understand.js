// @ts-check
// Understand: what a model predicts for a text, on which words it depends, and what it predicts without some.
import { cssColour, drawnShapes, inkOn, make, signedScale, visible } from "../views/base.js";
import { ask, askModel, live, needText } from "../assets/api.js";
import { choiceField, editsOf, fold, headSwitches, headsOff, modelField, namesOf, ofModel, percent, refill, section, showAttention, stage, textField, unknownWords, viewPlace } from "../assets/parts.js";

const TASKS = ["classify", "tag", "roles", "resolve", "answer", "choose", "fill"];
const DRAWN = ["roles", "resolve"]; // paths of the studio itself
/** @type {Record<string, string>} */
const NAMES = { classify: "label", tag: "tag words", roles: "who does what to whom", resolve: "which mentions are the same", answer: "answer a question", choose: "choose a continuation", fill: "fill masks" };
const EXPLAINED = ["classify", "fill", "tag", "answer"]; // tasks whose prediction has words as evidence
const ABOUT = ["target", "without", "part", "word"]; // choices about a text
const ENDS = ["start", "end"]; // of an answer
const MOST_AT_ONCE = 64; // words of a text whose evidence is not waited for: of longer ones it is computed on demand
const METHODS = [["leave-one-out", "leave one out (long texts: integrated gradients)"], ["integrated", "integrated gradients"], ["gradient", "gradient × input"], ["rollout", "attention rollout"], ["attention-gradient", "attention × gradient"]];

/** Draw a word of a drawing narrower that would run into the next one, as fonts differ. @param {any} text */
function narrow(text) {
  const next = text.nextElementSibling;
  const room = next?.getAttribute("y") === text.getAttribute("y") ? next.getAttribute("x") - text.getAttribute("x") - 4 : Infinity;
  if (!text.hasAttribute("text-anchor") && text.getComputedTextLength() > room) for (const [name, value] of Object.entries({ textLength: room, lengthAdjust: "spacingAndGlyphs" })) text.setAttribute(name, value);
}
/** @param {HTMLElement} main @param {import("../assets/studio.js").Studio} studio */
export function open(main, studio) {
  const model = modelField(studio);
  const task = make("div", {});
  const tasksOf = () => TASKS.filter((path) => model.model.paths.includes(path));
  const taskNow = () => tasksOf().includes(studio.get("task")) ? studio.get("task") : tasksOf()[0];
  const fields = {
    text: textField(studio, "text", "Text", { rows: 2, unless: "This film is a small wonder.", resets: ABOUT }),
    masked: textField(studio, "masked", "Text with masks", { rows: 2, unless: () => `The old man ${model.model.mask} a book.`, resets: ABOUT }),
    second: textField(studio, "second", "Second text", { resets: ABOUT, hint: "For models that read pairs; leave empty for one text." }),
    question: textField(studio, "question", "Question", { unless: "Who reads the book?", resets: ABOUT }),
    context: textField(studio, "context", "Text with the answer", { rows: 3, unless: "The old man reads a book in the garden.", resets: ABOUT }),
    choices: textField(studio, "choices", "Continuations, one a line", { rows: 3, unless: "and slept.\nand barked." }),
  };
  /** @type {Record<string, (keyof typeof fields)[]>} */
  const READS = { classify: ["text", "second"], tag: ["text"], roles: ["text"], resolve: ["text"], answer: ["question", "context"], choose: ["text", "choices"], fill: ["masked"] };
  const method = choiceField(studio, "method", "Evidence by", METHODS);
  const result = make("div", { class: "result" });
  const told = make("div", {}); // the model whose evidence is shown
  const words = make("p", { class: "evidence" });
  const evidenceNote = make("p", { class: "note" });
  const compared = make("div", {});
  const attention = viewPlace(studio, "Attention");
  const switches = headSwitches(studio, () => model.model);
  const heads = fold(studio, "heads", "Switch heads off", switches.element);
  const inside = fold(studio, "inside", "Attention", attention.element);
  const unknown = unknownWords();
  const evidence = section("Evidence", method.element, told, words, evidenceNote, compared);
  const form = make("form", { class: "fields", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    model.element, task, ...Object.values(fields).map((field) => field.element));
  main.append(form, unknown.element, stage(section("Prediction", result), evidence), heads.element, inside.element);

  const input = () => {
    const now = taskNow();
    if (now === "answer") return { question: fields.question.value, context: fields.context.value };
    if (now === "choose") return { first: fields.text.value, choices: fields.choices.value.split("\n").filter(Boolean) };
    if (now === "fill") return { text: fields.masked.value };
    return fields.second.value && now === "classify" ? { first: fields.text.value, second: fields.second.value } : { text: fields.text.value };
  };
  const looked = () => {
    const now = taskNow();
    if (now === "answer") return { text: fields.question.value, second: fields.context.value };
    if (now === "fill") return { text: fields.masked.value };
    return fields.second.value && now === "classify" ? { text: fields.text.value, second: fields.second.value } : { text: fields.text.value };
  };
  const needed = () => READS[taskNow()].filter((name) => name !== "second").map((name) => fields[name].value);
  const isBlank = () => needed().some((text) => !text.trim());
  const offWords = () => {
    const parts = studio.get("without").split(",").filter(Boolean);
    const wrong = parts.find((each) => !/^\d{1,4}$/.test(each));
    if (wrong !== undefined) throw new Error(`without=${wrong} in the address is no number of a word: choose words by a click.`);
    return parts.map(Number);
  };
  const off = () => headsOff(studio, model.model);

  /** @param {string} name @param {number} share @param {boolean} chosen @param {(() => void) | null} choose */
  const bar = (name, share, chosen, choose) => make("li", {},
    choose ? make("button", { type: "button", "aria-pressed": String(chosen), dir: "auto", onclick: choose }, name) : make("span", { dir: "auto" }, name),
    make("meter", { min: 0, max: 1, value: Math.min(Math.max(share, 0), 1), "aria-label": name }), make("span", { class: "quiet" }, percent(share)));
  const choose = (/** @type {string} */ label) => () => studio.go({ target: studio.get("target") === label ? null : label });

  /** @param {any} record */
  const draw = (record) => {
    const now = taskNow();
    if (now === "classify" && record.values) return [make("ul", { class: "plain" }, ...Object.entries(record.values).map(([name, value]) => make("li", {}, `${name} ${Number(value).toPrecision(4)}`)))];
    if (now === "classify") {
      const ordered = Object.entries(record.probabilities).sort((one, other) => other[1] - one[1]).slice(0, 12);
      return [make("ul", { class: "bars" }, ...ordered.map(([name, share]) => bar(name, share, studio.get("target") === name, choose(name))))];
    }
    if (now === "tag" && !record.words.length) return [make("p", {}, "The text has no words.")];
    if (now === "tag") return [make("p", { class: "tags", dir: "auto" }, ...record.words.flatMap((/** @type {any} */ { text, tag, value, probability }, /** @type {number} */ number) => {
      const label = tag ?? value?.toPrecision(4);
      return [aimed(number, make("button", { type: "button", class: tag === "O" ? null : "tagged", "aria-label": `${text}: ${label}${probability === undefined ? "" : `, ${percent(probability)}`}; show its evidence`, title: percent(probability ?? 0) },
        text, tag === "O" ? "" : make("small", {}, ` ${label}`))), " "];
    })), make("p", { class: "note" }, "Point at a word, or choose it, to see on which words its tag depends.")];
    if (now === "roles") return record.frames.length ? [make("div", { class: "arcs", role: "img", tabindex: 0, "aria-label": record.frames.map((/** @type {any} */ frame) => frame.brackets).join("; ") }, drawnShapes(record.svg)),
      ...record.frames.map((/** @type {any} */ frame) => make("details", {}, make("summary", { dir: "auto" }, frame.brackets),
        make("ul", { class: "bars" }, ...frame.arguments.map((/** @type {any} */ each) => bar(`${each.label}: ${each.text}`, each.probability, false, null)))))] : [make("p", {}, "No predicate was found.")];
    if (now === "resolve") return [make("p", { class: "clusters", dir: "auto" }, ...record.parts.map((/** @type {any} */ { text, cluster, is_mark: isMark }) =>
      cluster ? make(isMark ? "sub" : "span", { style: { "--hue": record.clusters[cluster - 1].hue } }, text) : text)),
    record.clusters.length ? make("ol", { class: "clusters" }, ...record.clusters.map((/** @type {any} */ { hue, mentions }) => make("li", { style: { "--hue": hue } },
      ...mentions.flatMap((/** @type {any} */ mention, /** @type {number} */ i) => [i ? " · " : "", make("span", { dir: "auto", title: `head word: ${mention.head}` }, mention.text)])))) : make("p", {}, "No two mentions are the same.")];
    if (now === "fill") return record.blanks.map((/** @type {any[]} */ blank, /** @type {number} */ number) => make("div", {},
      make("h3", {}, record.blanks.length > 1 ? `Mask ${number + 1}` : record.text),
      make("ul", { class: "bars" }, ...blank.map((each) => bar(each.word, each.probability, studio.get("target") === each.word, record.blanks.length > 1 ? null : choose(each.word))))));
    if (now === "answer") return [make("p", { class: "large", dir: "auto" }, record.answer?.text || "(no answer)"),
      ...(record.answer ? [make("p", { class: "row" }, make("span", { class: "quiet" }, "Evidence for its"), ...ENDS.map((name, number) => aimed(number, make("button", { type: "button" }, name))))] : []),
      make("ul", { class: "bars" }, ...(record.best ?? []).map((/** @type {any} */ each) => bar(each.text, each.probability, false, null)))];
    return [make("ul", { class: "bars" }, ...fields.choices.value.split("\n").filter(Boolean).map((each, number) =>
      bar(each, record.probabilities[number], record.choice === number, null)))];
  };
  let [record, predicted] = [/** @type {any} */ (null), ""]; // the last prediction, and its input
  let pointed = /** @type {number | null} */ (null); // the tag, or the end of the answer, under the pointer
  const part = () => { // the tag, or the end of the answer, whose evidence is shown
    const first = taskNow() === "tag" ? Math.max(0, record?.words?.findIndex((/** @type {any} */ word) => word.tag !== "O") ?? 0) : 0;
    return pointed ?? Number(studio.get("part", String(first)));
  };
  /** A button that aims the evidence at a part of the prediction. @param {number} number @param {any} button */
  const aimed = (number, button) => {
    button.dataset.part = String(number);
    button.addEventListener("click", () => studio.go({ part: number, without: null }));
    for (const [event, at] of /** @type {[string, number | null][]} */ ([["pointerenter", number], ["focus", number], ["pointerleave", null], ["blur", null]]))
      button.addEventListener(event, () => { if (pointed !== at) { pointed = at; explain(); } });
    return button;
  };
  /** What evidence is asked for; null: nothing, as long as the prediction is not there. */
  const aim = () => {
    const now = taskNow();
    if (now !== "classify" && predicted !== predictionKey()) return null;
    if (now !== "tag" && now !== "answer") return studio.get("target") ? { target: studio.get("target") } : {};
    if (now === "tag") {
      const word = record.words[part()] ?? record.words[0];
      return word ? { character: word.start, ...(word.tag ? { target: word.tag } : {}) } : null;
    }
    return record.answer?.text ? [{ target: "start", character: record.answer.start }, { target: "end", character: record.answer.end - 1, last: true }][part() ? 1 : 0] : null;
  };
  let shownModel = /** @type {any} */ (""); // of which the last prediction is
  let shownTarget = "";
  const show = () => {
    shownTarget = studio.get("target");
    refill(result, shownModel, ...draw(record));
    for (const text of result.querySelectorAll(".arcs text")) narrow(text);
  };
  const predictionKey = () => JSON.stringify([model.value, taskNow(), input(), studio.get("off")]);
  const predicting = live(async (signal) => {
    needText(...needed());
    const [heads, edits] = [off(), editsOf(off())];
    const request = { model: model.value, ...input(), ...(edits.length ? { edits } : {}) };
    const key = predictionKey();
    const answer = DRAWN.includes(taskNow()) ? await ask(`/studio/${taskNow()}`, request, signal) : (await askModel(taskNow(), request, signal))[0];
    if (signal.aborted) return;
    [record, predicted, pointed, shownModel] = [answer, key, null, ofModel(model.model, heads)];
    show();
    studio.announce(`Prediction: ${record.label ?? record.answer?.text ?? record.text ?? record.frames?.map((/** @type {any} */ frame) => frame.brackets).join("; ") ?? ""}`);
    explain();
  }, [result], (error) => {
    if (!error) return;
    predicted = "";
    result.replaceChildren(make("p", { class: "fault", role: "alert" }, error.message));
    if (taskNow() !== "classify" || isBlank()) clearEvidence();
  });

  /** The words that are off, as far as the address names any. */
  const chosenWords = () => { try { return offWords(); } catch { return []; } };
  /** @param {any} found */
  const drawWords = (found) => {
    const values = Object.values(found.weights ?? {})[0]?.[0] ?? [];
    const scale = signedScale(words);
    const off = chosenWords();
    refill(words, ...found.words.flatMap((/** @type {string} */ word, /** @type {number} */ number) => {
      const button = make("button", {
        type: "button", "aria-pressed": String(off.includes(number)), dir: "auto",
        "aria-label": `${word}: ${values[number]?.toFixed(3)}; ${off.includes(number) ? "switched off" : "switch off"}`,
        title: `${values[number]?.toFixed(4)}`,
        onclick: () => studio.go({ without: (off.includes(number) ? off.filter((each) => each !== number) : [...off, number]).join(",") || null }),
      }, word);
      const pixel = scale[Math.round(127.5 + 127.5 * (found.shares[number] ?? 0))];
      button.style.background = cssColour(pixel);
      button.style.color = inkOn(pixel);
      return [button, " "];
    }));
    evidenceNote.textContent = visible(`For ${found.targets.join(", ")}. ${found.about} Click a word to see the prediction without it: it is replaced by ${found.replacement}.`);
  };
  const attributing = live(async (signal) => {
    const heads = off();
    const found = await ask("/studio/evidence", { model: model.value, ...looked(), edits: editsOf(heads), ...(studio.get("method") ? { method: method.value } : {}), ...aim() }, signal);
    if (signal.aborted) return;
    last = found;
    told.replaceChildren(ofModel(model.model, heads));
    drawWords(found);
  }, [told, words, evidenceNote], (error) => { if (error) { words.replaceChildren(); evidenceNote.textContent = error.message; } });
  let last = /** @type {any} */ (null);

  const wondering = live(async (signal) => {
    const [heads, without] = [off(), offWords()];
    if (!heads.length && !without.length) { compared.replaceChildren(); return; }
    // Words are left out of what the model reads, with the heads that it has; heads are compared with all.
    const parts = without.length ? { words: without, edits: editsOf(heads) } : { heads: heads.map(({ site, layer, head }) => [site, layer, head]) };
    const found = await ask("/studio/what-if", { model: model.value, ...looked(), ...aim(), ...parts }, signal);
    if (signal.aborted) return;
    const columns = without.length ? ["whole text", "without"] : ["all heads", `without ${namesOf(heads)}`];
    compared.replaceChildren(without.length ? ofModel(model.model, heads) : "", make("table", {}, make("caption", {}, `Without ${found.without.join(", ")}`),
      make("thead", {}, make("tr", {}, ...["", ...columns, "change"].map((each) => make("th", { scope: "col" }, each)))),
      make("tbody", {}, ...found.targets.map((/** @type {string} */ name, /** @type {number} */ number) => make("tr", {},
        make("th", { scope: "row", dir: "auto" }, name), ...[found.before[number], found.after[number], found.after[number] - found.before[number]]
          .map((value, column) => make("td", { class: "figure" }, (column === 2 && value > 0 ? "+" : "") + value.toFixed(4))))))));
    studio.announce(`Without ${found.without.join(", ")}: ${found.targets[0]} ${found.after[0].toFixed(3)}, before ${found.before[0].toFixed(3)}`);
  }, [compared], (error) => { if (error) compared.replaceChildren(make("p", { class: "fault", role: "alert" }, error.message)); });

  const looking = live((signal) => showAttention(attention, { model: model.value, ...looked(), edits: editsOf(off()) }, signal), [attention.element], (error) => attention.fail(error?.message ?? ""));

  const clearEvidence = () => {
    for (const each of [attributing, wondering]) each.stop();
    last = null;
    for (const each of [told, words, compared]) each.replaceChildren();
    evidenceNote.textContent = "";
  };
  let demanded = ""; // the long input whose evidence was asked for
  /** Ask for the evidence of what is aimed at, and for the prediction without some parts. */
  const explain = () => {
    if (isBlank()) {
      for (const each of [attributing, wondering]) each.stop();
      return;
    }
    const target = EXPLAINED.includes(taskNow()) ? aim() : null;
    for (const button of result.querySelectorAll("[data-part]")) button.setAttribute("aria-pressed", String(Number(button.dataset.part) === part()));
    if (!target) {
      if (predicted === predictionKey()) clearEvidence();
      else for (const each of [attributing, wondering]) each.outdate();
      return;
    }
    const input = JSON.stringify([model.value, looked()]);
    const length = Object.values(looked()).join(" ").split(/\s+/).length;
    if (length > MOST_AT_ONCE && demanded !== input) {
      for (const each of [attributing, wondering]) each.stop();
      [last, evidenceNote.textContent] = [null, ""];
      for (const each of [told, compared]) each.replaceChildren();
      refill(words, make("button", { type: "button", class: "demand", onclick: () => { demanded = input; explain(); } }, `Compute the evidence of these ${length} words`));
      return;
    }
    attributing.request(JSON.stringify([input, method.value, target, studio.get("off")]));
    wondering.request(JSON.stringify([model.value, looked(), target, studio.get("off"), studio.get("without")]));
  };
  return {
    update() {
      const now = taskNow();
      const tasks = choiceField(studio, "task", "Task", tasksOf().map((each) => [each, NAMES[each]]), { resets: ABOUT });
      refill(task, tasks.element);
      task.hidden = tasksOf().length < 2;
      for (const each of [model, method, heads, inside, switches, tasks, attention, ...Object.values(fields)]) each.update();
      for (const [name, field] of Object.entries(fields)) field.element.hidden = !READS[now].includes(/** @type {any} */ (name));
      evidence.hidden = !EXPLAINED.includes(now);
      predicting.request(predictionKey());
      if (predicted === predictionKey() && shownTarget !== studio.get("target")) show();
      explain();
      unknown.request([model.model], Object.values(looked()).join("\n"));
      if (last) drawWords(last);
      if (isBlank()) {
        looking.stop();
        attention.clear();
      } else if (inside.isOpen && model.model.sites.length) looking.request(predictionKey());
    },
    close() { for (const each of [predicting, attributing, wondering, looking, unknown]) each.stop(); attention.clear(); },
  };
}
