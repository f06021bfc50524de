// @ts-check
// Papers: the lineage, what each paper changed, and the functions that run in its forward pass.
import { askRecord, live } from "../assets/api.js";
import { fold, viewPlace } from "../assets/parts.js";

/** @param {HTMLElement} main @param {import("../assets/studio.js").Studio} studio */
export function open(main, studio) {
  const lineage = viewPlace(studio, "Lineage of papers");
  const code = viewPlace(studio, "Code path");
  const path = fold(studio, "path", "Code path: the functions that run in a forward pass", code.element);
  main.append(lineage.element, path.element);
  let known = /** @type {any} */ (null);
  const paper = () => studio.get("paper") || studio.models[0]?.paper || known?.papers[0].name;
  const listing = live(async (signal) => {
    known ??= await askRecord("/studio/papers", undefined, signal);
    await lineage.show(known, studio.models[0] ? { paper: studio.models[0].paper } : {});
  }, [lineage.element], (error) => lineage.fail(error?.message ?? ""));
  const following = live(async (signal) => code.show(await askRecord(`/studio/papers/${encodeURIComponent(paper())}`, undefined, signal)), [code.element], (error) => code.fail(error?.message ?? ""));
  return {
    update() {
      for (const each of [path, lineage, code]) each.update();
      listing.request("papers", true);
      if (path.isOpen) following.request(paper(), true);
    },
    close() { listing.stop(); following.stop(); lineage.clear(); code.clear(); },
  };
}
