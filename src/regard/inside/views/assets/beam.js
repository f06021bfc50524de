"use strict";
// The drawing is complete without this; it shows the path to the box that is pointed at. A click keeps
// it, and its number is in the address of the page: "#node=12".
const tree = document.getElementById("tree");
const readout = document.getElementById("readout");
const nodes = new Map();
const edges = new Map();
for (const each of tree.querySelectorAll(".node")) nodes.set(each.dataset.node, each);
for (const each of tree.querySelectorAll("path")) edges.set(each.dataset.to, each);

function pathTo(number) {
  const path = [];
  for (let at = number; at !== undefined; at = edges.get(at)?.dataset.from) path.push(at);
  return new Set(path);
}
const HAS_ADDRESS = ["file:", "http:", "https:"].includes(location.protocol); // not in a notebook
let kept = null; // the number of the box that is kept
function show(number) {
  const path = number === null ? null : pathTo(number);
  for (const group of [nodes, edges])
    for (const [each, element] of group) {
      element.classList.toggle("on", path !== null && path.has(each));
      element.classList.toggle("dim", path !== null && !path.has(each));
    }
  readout.textContent = number === null ? "" : nodes.get(number).querySelector("title").textContent;
}
for (const [number, element] of nodes) {
  element.addEventListener("pointerenter", () => show(number));
  element.addEventListener("focus", () => show(number));
  element.addEventListener("pointerleave", () => show(kept));
  element.addEventListener("blur", () => show(kept));
  element.addEventListener("click", () => keep(number === kept ? null : number));
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") keep(null);
    else if (event.key === "Enter" || event.key === " ") keep(number === kept ? null : number);
    else return;
    event.preventDefault();
  });
}

function keep(number) {
  if (HAS_ADDRESS && number !== kept)
    history.pushState(null, "", number === null ? location.pathname + location.search : `#node=${number}`);
  mark(number);
}
function mark(number) {
  nodes.get(kept)?.setAttribute("aria-pressed", false);
  nodes.get(number)?.setAttribute("aria-pressed", true);
  kept = number;
  show(kept);
}
function readAddress() {
  const number = new URLSearchParams(location.hash.slice(1)).get("node");
  mark(nodes.has(number) ? number : null);
}
if (HAS_ADDRESS) addEventListener("hashchange", readAddress);
readAddress();

// The page opens with the root, or the box of the address, in sight: long texts above it are passed.
function reveal() {
  const { top, bottom, left, right } = nodes.get(kept ?? "0").getBoundingClientRect();
  if (top < 0 || bottom > innerHeight || left < 0 || right > innerWidth)
    nodes.get(kept ?? "0").scrollIntoView({ block: "center", inline: "center" });
}
reveal();
