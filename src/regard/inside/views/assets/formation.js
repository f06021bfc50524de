// Heads while they form. The block of JSON has steps, losses, places (site, layer, head) and figures
// {about, values, most, digits} by name; values[step][head] is null where a figure does not apply.
const { steps, losses, places, figures, sides } = JSON.parse(at("data").textContent);
const names = Object.keys(figures);
const chosen = JSON.parse(at("choosers").dataset.chosen); // the number of a step, and a figure
const fields = () => ({
  step: {
    write: (value) => String(steps[value]),
    read: (text) => { const i = steps.findIndex((step) => String(step) === text); return i < 0 ? undefined : i; },
  },
  figure: wordField(...names),
});

const placeName = ([site, layer, head]) => `${site}, layer ${layer}, head ${head}`;
const shownValue = (value) => (value === null ? "" : value.toFixed(figures[chosen.figure].digits));

// A table for each site, with a row for each layer. Cells stay, and are filled at each step.
const cells = places.map((place) => make("td", { title: placeName(place) }));
function layGrids() {
  const bySite = Map.groupBy ? Map.groupBy(places.keys(), (i) => places[i][0]) : grouped();
  for (const [site, members] of bySite) {
    const layers = [];
    for (const i of members) (layers[places[i][1]] ??= []).push(i);
    const widest = Math.max(...layers.map((layer) => layer.length));
    const heads = [...Array(widest).keys()].map((head) => make("th", { scope: "col" }, `head ${head}`));
    const rows = layers.map((layer, number) =>
      make("tr", {}, make("th", { scope: "row" }, `layer ${number}`), ...layer.map((i) => cells[i])));
    at("grids").append(make("table", {}, make("caption", {}, site), make("tr", {}, make("th"), ...heads), ...rows));
  }
}
function grouped() {
  const sites = new Map();
  places.forEach(([site], i) => sites.set(site, [...(sites.get(site) ?? []), i]));
  return sites;
}

function fillGrids() {
  const { values, most } = figures[chosen.figure];
  values[chosen.step].forEach((value, i) => {
    const share = value === null || !most ? 0 : Math.min(1, Math.abs(value) / most);
    cells[i].style.setProperty("--share", share.toFixed(3));
    cells[i].classList.toggle("dark", share > 0.6);
    cells[i].textContent = shownValue(value);
  });
}

// The line at the step in the chart of the loss and in that of the figure.
const marks = [...document.querySelectorAll("[data-chart]")].map((chart) => {
  const mark = draw("line", { class: "mark", y1: 84, y2: 376 });
  chart.querySelector("svg")?.append(mark);
  return { chart, mark };
});
function markCharts() {
  const [left, right] = sides;
  const span = steps[steps.length - 1] - steps[0];
  const share = span ? (steps[chosen.step] - steps[0]) / span : 0.5;
  const x = (left + share * (right - left)).toFixed(1);
  for (const { chart, mark } of marks) {
    const name = chart.dataset.chart;
    chart.hidden = name !== "" && name !== chosen.figure;
    for (const end of ["x1", "x2"]) mark.setAttribute(end, x);
  }
}

function readOut() {
  const values = figures[chosen.figure].values[chosen.step];
  const known = values.map((value, i) => [value, i]).filter(([value]) => value !== null);
  const [value, best] = known.sort(([one], [other]) => other - one)[0] ?? [null, null];
  const highest = best === null ? "" : `; highest ${chosen.figure}: ${placeName(places[best])}, ${shownValue(value)}`;
  at("readout").textContent = `step ${steps[chosen.step]}: dev loss ${losses[chosen.step]?.toFixed(4) ?? "not finite"}${highest}`;
  at("about").textContent = `${chosen.figure}: ${figures[chosen.figure].about}`;
}

function show() {
  at("step").value = String(chosen.step);
  at("step").setAttribute("aria-valuetext", `step ${steps[chosen.step]}`);
  for (const input of at("figure").querySelectorAll("input")) input.checked = input.value === chosen.figure;
  fillGrids();
  markCharts();
  readOut();
}
function choose(change) {
  Object.assign(chosen, change);
  show();
  writeAddress();
}

for (const name of names) {
  const button = make("input", { type: "radio", name: "figure", value: name });
  button.addEventListener("change", () => choose({ figure: name }));
  at("figure").append(make("label", {}, button, make("span", {}, name)));
}
// While the slider moves, only the last place is a step of the history.
at("step").addEventListener("input", () => { chosen.step = Number(at("step").value); show(); });
at("step").addEventListener("change", () => choose({ step: Number(at("step").value) }));
layGrids();
openAddress();
