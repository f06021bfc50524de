"use strict";
// The drawing is complete without this; it only shows the path to the box that is pointed at.
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
  element.addEventListener("pointerleave", () => show(null));
  element.addEventListener("blur", () => show(null));
}
