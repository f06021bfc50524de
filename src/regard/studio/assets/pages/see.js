// @ts-check
// See: an image, its labels, and where heads look. The image stays on this machine; it is not in the address.
import { make, visible } from "../views/base.js";
import { askModel, live } from "../assets/api.js";
import { editsOf, fold, headSwitches, headsOff, labelled, modelField, namesOf, percent, section, showAttention, stage, viewPlace } from "../assets/parts.js";

let image = ""; // base64 of the file, kept while pages change
let files = 0; // that were chosen so far
const MOST_BYTES = 4 << 20; // of a file that is sent as it is
const SIDE = 2048; // pixels of the longer side of a larger one, which models scale down further
const EXAMPLE = "An example, drawn by this page: choose an image of your own.";

/** A canvas of this size, and what draws on it. @param {number} width @param {number} height @returns {[any, any]} */
function canvasOf(width, height) {
  const canvas = make("canvas", { width, height });
  return [canvas, canvas.getContext("2d")];
}
/** @param {any} canvas @param {string} type @returns {Promise<Blob>} */
const fileOf = (canvas, type) => new Promise((resolve, reject) => canvas.toBlob((/** @type {Blob | null} */ blob) => blob ? resolve(blob) : reject(new Error("the image cannot be scaled")), type, 0.92));
/** A smaller picture of a large file, in JPEG. @param {Blob} file */
async function scaled(file) {
  const picture = await createImageBitmap(file);
  const share = Math.min(1, SIDE / Math.max(picture.width, picture.height));
  const [canvas, context] = canvasOf(Math.max(1, Math.round(share * picture.width)), Math.max(1, Math.round(share * picture.height)));
  context.fillStyle = "white"; // behind what is transparent, as the server has it
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  picture.close();
  return fileOf(canvas, "image/jpeg");
}
/** A house under the sun. */
function example() {
  const [canvas, context] = canvasOf(224, 224);
  const box = (/** @type {string} */ colour, /** @type {number[]} */ [x, y, width, height]) => { context.fillStyle = colour; context.fillRect(x, y, width, height); };
  const shape = (/** @type {string} */ colour, /** @type {() => void} */ path) => { context.fillStyle = colour; context.beginPath(); path(); context.fill(); };
  box("#8fc1e3", [0, 0, 224, 150]);
  box("#6f9e4f", [0, 150, 224, 74]);
  box("#d9b38c", [60, 96, 100, 84]);
  box("#6b4226", [100, 134, 24, 46]);
  shape("#a33b2b", () => { for (const [x, y] of [[48, 100], [110, 48], [172, 100]]) context.lineTo(x, y); });
  shape("#f6d743", () => context.arc(186, 38, 20, 0, 2 * Math.PI));
  return fileOf(canvas, "image/png");
}

/** @param {HTMLElement} main @param {import("../assets/studio.js").Studio} studio */
export function open(main, studio) {
  const model = modelField(studio);
  const file = make("input", { type: "file", accept: "image/png,image/jpeg,image/webp", onchange: () => read(file.files[0]) });
  const preview = make("img", { class: "preview", alt: "The chosen image", hidden: true, onerror: () => refuse("The file is no image that can be read: choose a PNG, JPEG or WebP.") });
  const about = make("p", { class: "note" });
  const labels = make("ul", { class: "bars" });
  const changed = make("p", { class: "note" });
  const attention = viewPlace(studio, "Attention over patches");
  const switches = headSwitches(studio, () => model.model);
  const heads = fold(studio, "heads", "Switch heads off", switches.element);
  const fault = make("p", { class: "fault", role: "alert" });
  main.append(make("form", { class: "fields" }, model.element, labelled("Image", file, "PNG, JPEG or WebP; or drop or paste one here.")), fault,
    stage(section("Labels", preview, about, labels, changed), section("Where heads look", attention.element)), heads.element);
  const stop = new AbortController();
  addEventListener("paste", (event) => read(event.clipboardData?.files[0]), { signal: stop.signal });
  main.addEventListener("dragover", (event) => event.preventDefault(), { signal: stop.signal });
  main.addEventListener("drop", (event) => { event.preventDefault(); read(event.dataTransfer?.files[0]); }, { signal: stop.signal });

  /** @param {Blob | null | undefined} given */
  const read = async (given) => {
    if (!given) return;
    const own = ++files; // a file that is chosen later replaces this one, also while it is read
    about.textContent = "";
    try {
      const small = given.size > MOST_BYTES ? await scaled(given) : given;
      if (own !== files) return;
      if (small !== given) about.textContent = `The file has ${(given.size / (1 << 20)).toFixed(1)} MB: a smaller picture of it is read.`;
      show(small, own);
    } catch { if (own === files) refuse("The file is no image that can be read: choose a PNG, JPEG or WebP."); }
  };
  /** @param {Blob} given @param {number} own its number */
  const show = (given, own) => {
    const reader = new FileReader();
    reader.onload = () => {
      if (own !== files) return;
      image = String(reader.result).split("base64,")[1] ?? "";
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
    changed.textContent = edited ? visible(`Model: ${model.model.name} without ${namesOf(off)}; with all heads: ${own.label} ${percent(own.probabilities?.[own.label] ?? 0)}`) : "";
    studio.announce(`Label: ${shown.label}`);
    fault.textContent = "";
  }, [labels, changed], (error) => { if (error) refuse(error.message); });
  const looking = live((signal) => showAttention(attention, { model: model.value, image, edits: editsOf(headsOff(studio, model.model)) }, signal),
    [attention.element], (error) => attention.fail(error?.message ?? ""));
  /** Show nothing but why an image cannot be read. @param {string} message */
  const refuse = (message) => {
    image = changed.textContent = about.textContent = "";
    for (const each of [seeing, looking]) each.stop();
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
    for (const each of [seeing, looking]) each.request(JSON.stringify([model.value, files, studio.get("off")]), true);
  };
  if (!image) example().then((drawn) => { if (!image && !files && !stop.signal.aborted) { read(drawn); about.textContent = EXAMPLE; } });
  return { update, close() { stop.abort(); for (const each of [seeing, looking]) each.stop(); attention.clear(); } };
}
