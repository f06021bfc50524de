// @ts-check
// Train: curves of runs as they go or of finished ones, samples, heads while they form, and branches from checkpoints.
import { make, range } from "../views/base.js";
import { ask, askRecord, live, needText } from "../assets/api.js";
import { checkpointsOf, choiceField, EMPTY, fold, labelled, marked, openModel, outputOf, outputPath, percent, section, sliderField, stage, textField, viewPlace } from "../assets/parts.js";

const EVERY = 5000; // milliseconds between two looks at a run that goes on
const MOST_SAMPLES = 8; // checkpoints that are read
const SOON = 1500; // while a training that was started here goes on

/** At most so many of a list, the first and the last among them. @param {any[]} list @param {number} most */
const spread = (list, most) => list.length <= most ? list : most < 2 ? list.slice(-1) : range(most).map((i) => list[Math.round((i * (list.length - 1)) / (most - 1))]);

/** @param {HTMLElement} main @param {import("../assets/studio.js").Studio} studio */
export function open(main, studio) {
  if (!studio.runs) {
    main.append(make("p", {}, "Start the studio with the folder of your runs to see them here:"), make("pre", { class: "command" }, "regard studio MODEL --runs runs"));
    return { update() {}, close() {} };
  }
  let runs = /** @type {any[]} */ ([]);
  const drawn = new Map();
  /** Whether an element has to be drawn anew, for what it shows has changed. @param {any} element @param {unknown} content */
  const changes = (element, content) => drawn.get(element) !== JSON.stringify(content) && drawn.set(element, JSON.stringify(content));
  const list = make("fieldset", { class: "runs" });
  const smooth = sliderField(studio, "smooth", "Smoothing of training figures", { min: 0, max: 0.99, step: 0.01, unless: 0, say: (value) => value.toFixed(2) });
  const by = choiceField(studio, "by", "Horizontal axis", [["step", "steps"], ["seconds", "seconds"]]);
  const chart = viewPlace(studio, "Curves of runs");
  const formed = viewPlace(studio, "Heads while they form");
  const formation = fold(studio, "formation", "Heads while they form (of the first run with --watch heads)", formed.element);
  const sampled = textField(studio, "text", "Text that each checkpoint reads", { rows: 2, unless: "The old man reads a book." });
  const outputs = make("tbody", {});
  const sampleNote = make("p", { class: "note", role: "status" });
  const samples = fold(studio, "samples", "Samples: what each checkpoint writes", sampled.element,
    make("table", { class: "samples" }, make("thead", {}, make("tr", {}, ...["checkpoint", "output"].map((each) => make("th", { scope: "col" }, each)))), outputs), sampleNote);
  const at = make("select", { onchange: () => studio.go({ at: at.value }) });
  const key = make("select", { onchange: () => studio.go({ key: key.value, value: null }) });
  const value = textField(studio, "value", "New value");
  const parent = make("select", { onchange: () => studio.go({ of: parent.value, at: null, key: null, value: null }) });
  const command = make("pre", { class: "command", tabindex: 0, "aria-label": "Command of the branch" });
  const copy = make("button", { type: "button", onclick: async () => { await navigator.clipboard.writeText(command.textContent ?? ""); studio.announce("The command is copied."); } }, "Copy");
  const start = make("button", { type: "button", onclick: () => startBranch() }, "Start this branch");
  const permission = make("p", { class: "note" });
  const fault = make("p", { class: "fault", role: "alert" });
  const trainings = make("ul", { class: "trainings", "aria-label": "Trainings that were started here" });
  const branch = fold(studio, "branch", "Branch from a checkpoint",
    make("p", { class: "note" }, "Go back to a step, change one setting, and go on from there: until that step the new run is the old one, bit for bit."),
    make("div", { class: "fields" }, labelled("Run", parent), labelled("Checkpoint at step", at), labelled("Setting", key), value.element),
    command, make("p", { class: "row" }, start, copy), permission, fault, trainings);
  main.append(stage(make("section", { "aria-label": "Runs" }, list, smooth.element, by.element), section("Curves", chart.element)), samples.element, formation.element, branch.element);

  const chosen = () => {
    const names = studio.get("run").split("|").filter((name) => runs.some((each) => each.name === name));
    return names.length || studio.get("run", "none") === "" ? names : runs.slice(0, 1).map((each) => each.name);
  };
  const toggle = (/** @type {string} */ name) => {
    const now = chosen();
    studio.go({ run: (now.includes(name) ? now.filter((each) => each !== name) : [...now, name]).join("|") });
  };
  const drawList = () => {
    const focused = /** @type {HTMLInputElement | null} */ (document.activeElement)?.value;
    list.replaceChildren(make("legend", {}, `${runs.length} runs`), ...runs.map((run) => {
      const box = make("input", { type: "checkbox", value: run.name, checked: chosen().includes(run.name), onchange: () => toggle(run.name) });
      const about = run.branch ? `, branch of ${run.branch.run} at step ${run.branch.step}${run.branch.changed.length ? ` (${run.branch.changed.join(", ")})` : ""}` : "";
      return make("label", {}, box, make("span", {}, run.name), make("small", { class: "quiet" }, ` ${progress(run)}${about}`));
    }));
    if (focused) /** @type {HTMLElement | null} */ (list.querySelector(`input[value="${CSS.escape(focused)}"]`))?.focus();
  };
  /** How far a run has come. @param {any} run */
  const progress = (run) => {
    const step = Math.max(run.step, ...run.checkpoints);
    if (!run.finished) return `step ${step.toLocaleString("en")}`;
    return step < run.steps ? `stopped at ${step.toLocaleString("en")} of ${run.steps.toLocaleString("en")} steps` : `step ${step.toLocaleString("en")}, finished`;
  };
  const quoted = (/** @type {string} */ word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  const drawBranch = () => {
    const able = runs.filter((run) => run.checkpoints.length && run.command.length);
    const run = able.find((each) => each.name === studio.get("of")) ?? able.find((each) => each.name === chosen()[0]) ?? able[0];
    if (!run) { command.textContent = "No run here has checkpoints and a command that can be repeated."; return; }
    const fill = (/** @type {any} */ list, /** @type {string[]} */ values, /** @type {string} */ now) => {
      if (changes(list, values)) list.replaceChildren(...values.map((each) => make("option", { value: each }, each)));
      list.value = now;
    };
    const steps = run.checkpoints.map(String);
    const step = steps.includes(studio.get("at")) ? studio.get("at") : steps[Math.floor(steps.length / 2)];
    const keys = Object.keys(run.settings);
    const name = keys.includes(studio.get("key")) ? studio.get("key") : "optimiser.rate";
    fill(parent, able.map((each) => each.name), run.name);
    fill(at, steps, step);
    fill(key, keys, name);
    value.input.placeholder = run.settings[name] ?? "";
    const change = value.value ? ["--set", `${name}=${value.value}`] : [];
    command.textContent = [...run.command, "--branch", `RUNS/${run.name}`, "--at", step, ...change, "--out", `RUNS/${run.outs[step]}`].map(quoted).join(" ").replaceAll("RUNS/", folder === "." ? "" : `${folder}/`);
  };
  let folder = "runs";
  let started = /** @type {any[] | null} */ (null); // null: none may be started
  let going = false; // a request to start or stop is on its way
  /** @param {string} path @param {object} body @returns {Promise<any>} */
  const order = async (path, body) => {
    going = true;
    drawTrainings();
    let training = null;
    try {
      training = await ask(path, body);
      fault.textContent = "";
    } catch (error) { fault.textContent = /** @type {Error} */ (error).message; }
    going = false;
    await refresh();
    return training;
  };
  const startBranch = async () => {
    const training = await order("/studio/branch", { run: parent.value, step: Number(at.value), key: key.value, value: value.value });
    if (!training) return;
    studio.announce(`The branch ${training.name} is started.`);
    studio.go({ run: [...new Set([parent.value, ...studio.get("run").split("|"), training.name])].filter(Boolean).join("|") });
  };
  const stopBranch = async (/** @type {any} */ training) => {
    const stopped = await order("/studio/branch/stop", { run: training.name });
    if (stopped) studio.announce(`${stopped.name}: ${stopped.state}.`);
  };
  const drawTrainings = () => {
    permission.textContent = started ? "This studio was started with --train: it runs the command on this machine, as a process that ends with the studio."
      : "The studio starts no training unless it is opened with --train; run the command in a terminal, and the new run appears above.";
    start.hidden = !started;
    start.disabled = going || !parent.value;
    if (!changes(trainings, [started, going])) return;
    const held = trainings.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.run : null;
    trainings.replaceChildren(...(started ?? []).map((training) => make("li", { "data-state": training.state },
      make("strong", {}, training.name), ` ${training.setting || "no change"}: ${training.state} `,
      ["running", "stopping"].includes(training.state) ? make("button", { type: "button", disabled: going, "data-run": training.name, "aria-label": `Stop ${training.name}`, onclick: () => stopBranch(training) },
        training.state === "running" ? "Stop" : "Stop at once") : "",
      training.line ? make("span", { class: "fault", role: "alert" }, training.line) : "")));
    if (held) /** @type {HTMLElement | null} */ (trainings.querySelector(`[data-run="${CSS.escape(held)}"]`))?.focus();
  };
  const query = () => { const asked = new URLSearchParams({ smooth: String(smooth.value), by: by.value }); for (const name of chosen()) asked.append("run", name); return asked; };
  const drawing = live(async (signal) => {
    if (!chosen().length) return chart.clear();
    await chart.show(await askRecord(`/studio/curves?${query()}`, undefined, signal));
  }, [chart.element], (error) => chart.fail(error?.message ?? ""));
  const forming = live(async (signal) => {
    const watched = chosen().find((name) => runs.find((run) => run.name === name)?.watches.includes("heads"));
    if (watched) await formed.show(await askRecord(`/studio/formation?run=${encodeURIComponent(watched)}`, undefined, signal));
    else formed.fail("None of these runs was trained with --watch heads.");
  }, [formed.element], (error) => { if (error) formed.fail(error.message); });

  const sampling = live(async (signal) => {
    const able = runs.filter((run) => chosen().includes(run.name));
    const known = able.flatMap((run) => spread(checkpointsOf([run]), Math.floor(MOST_SAMPLES / able.length)));
    needText(sampled.value);
    if (!known.length) { outputs.replaceChildren(); sampleNote.textContent = "None of these runs has a checkpoint that can be opened yet."; return; }
    const rows = [];
    let before = /** @type {string | null} */ (null);
    for (const [value, title] of known) {
      sampleNote.textContent = `Reading ${title} …`;
      const model = await openModel(studio, value, signal);
      const { text, shares, lines } = await outputOf(model, outputPath(model), sampled.value, signal);
      if (signal.aborted) return;
      const shown = text || (outputPath(model) === "score" ? lines.join(", ") : EMPTY);
      const share = shares.find(([name]) => name === text);
      rows.push(make("tr", {}, make("th", { scope: "row" }, title), make("td", {}, before === null ? make("span", { dir: "auto" }, shown) : marked(shown, before), share ? ` ${percent(share[1])}` : "")));
      before = shown;
      outputs.replaceChildren(...rows);
    }
    sampleNote.textContent = "Words that differ from those of the row above are marked.";
    studio.announce(`${rows.length} samples.`);
  }, [outputs], (error) => { if (error) sampleNote.textContent = error.message; });

  let [timer, closed] = [0, false];
  const refresh = async () => {
    clearTimeout(timer);
    try {
      const listed = await ask("/studio/runs");
      [runs, folder, started] = [listed.runs, listed.folder, listed.trainings];
      update();
    } catch (error) { chart.fail(/** @type {Error} */ (error).message); }
    if (!closed) timer = setTimeout(refresh, started?.some((each) => ["running", "stopping"].includes(each.state)) ? SOON : EVERY);
  };
  const update = () => {
    for (const each of [smooth, by, formation, branch, samples, sampled, value, chart, formed]) each.update();
    drawList();
    drawBranch();
    drawTrainings();
    const shown = runs.filter((run) => chosen().includes(run.name)).map((run) => [run.name, run.step]);
    drawing.request(JSON.stringify([shown, query().toString()]));
    if (samples.isOpen) sampling.request(JSON.stringify([sampled.value, runs.filter((run) => chosen().includes(run.name)).map((run) => [run.name, run.opens, run.checkpoints])]));
    if (formation.isOpen) forming.request(JSON.stringify(shown));
  };
  refresh();
  return { update, close() { closed = true; clearTimeout(timer); drawing.stop(); forming.stop(); sampling.stop(); chart.clear(); formed.clear(); } };
}
