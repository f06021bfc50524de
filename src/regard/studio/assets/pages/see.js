// @ts-check
// See: an image, its labels, and where heads look. The image stays on this machine; it is not in the address.
import { make } from "../views/base.js";
import { askModel, live } from "../assets/api.js";
import { editsOf, fold, headSwitches, headsOff, labelled, modelField, namesOf, percent, section, showAttention, viewPlace } from "../assets/parts.js";

let image = ""; // base64 of the file, kept while pages change
let files = 0; // that were chosen so far

/** @param {HTMLElement} main @param {import("../assets/studio.js").Studio} studio */
export function open(main, studio) {
  const model = modelField(studio);
  const file = make("input", { type: "file", accept: "image/png,image/jpeg,image/webp", onchange: () => read(file.files[0]) });
  const preview = make("img", { class: "preview", alt: "The chosen image", hidden: true, onerror: () => refuse("The file is no image that can be read: choose a PNG, JPEG or WebP.") });
  const labels = make("ul", { class: "bars" });
  const changed = make("p", { class: "note" });
  const attention = viewPlace(studio, "Attention over patches");
  const switches = headSwitches(studio, () => model.model);
  const heads = fold(studio, "heads", "Switch heads off", switches.element);
  const fault = make("p", { class: "fault", role: "alert" });
  main.append(make("form", { class: "fields" }, model.element, labelled("Image", file, "PNG, JPEG or WebP; or drop or paste one here.")), preview, fault,
    section("Labels", labels, changed), heads.element, section("Where heads look", attention.element));
  const stop = new AbortController();
  addEventListener("paste", (event) => read(event.clipboardData?.files[0]), { signal: stop.signal });
  main.addEventListener("dragover", (event) => event.preventDefault(), { signal: stop.signal });
  main.addEventListener("drop", (event) => { event.preventDefault(); read(event.dataTransfer?.files[0]); }, { signal: stop.signal });

  /** @param {File | undefined} given */
  const read = (given) => {
    if (!given) return;
    const reader = new FileReader();
    reader.onload = () => {
      image = String(reader.result).split("base64,")[1] ?? "";
      files++;
      if (image) update();
      else refuse("The file is empty: it is no image.");
    };
    reader.readAsDataURL(given);
  };
  /** @param {any} record */
  const scoresOf = (record) => Object.entries(record.probabilities ?? {}).sort((one, other) => other[1] - one[1]);
  const seeing = live(async (signal) => {
    const off = headsOff(studio, model.model);
    const request = { model: model.value, image };
    const [[own], edited] = await Promise.all([askModel("label-image", request, signal), off.length ? askModel("label-image", { ...request, edits: editsOf(off) }, signal) : null]);
    if (signal.aborted) return;
    const shown = edited?.[0] ?? own;
    labels.replaceChildren(...scoresOf(shown).slice(0, 8).map(([name, share]) => make("li", {}, make("span", { dir: "auto" }, name),
      make("meter", { min: 0, max: 1, value: share, "aria-label": name }), make("span", { class: "quiet" }, percent(share)))));
    changed.textContent = edited ? `Without ${namesOf(off)}; with all heads: ${own.label} ${percent(own.probabilities?.[own.label] ?? 0)}` : "";
    studio.announce(`Label: ${shown.label}`);
    fault.textContent = "";
    await showAttention(attention, { model: model.value, image, edits: editsOf(off) }, signal);
  }, (error) => { if (error) refuse(error.message); });
  /** Show nothing but why an image cannot be read. @param {string} message */
  const refuse = (message) => {
    image = changed.textContent = "";
    seeing.stop();
    preview.hidden = true;
    preview.removeAttribute("src");
    labels.replaceChildren();
    attention.clear();
    fault.textContent = message;
  };

  const update = () => {
    for (const each of [model, heads, switches, attention]) each.update();
    preview.hidden = !image;
    if (!image) return;
    const source = `data:image/*;base64,${image}`;
    if (preview.src !== source) preview.src = source;
    seeing.request(JSON.stringify([model.value, files, studio.get("off")]), true);
  };
  return { update, close() { stop.abort(); seeing.stop(); attention.clear(); } };
}
