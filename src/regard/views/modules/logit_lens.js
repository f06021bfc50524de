// @ts-check
// What a model would predict from the states of each layer: a table of layers and positions.
// record: layers, tokens, tops (layers × positions), probabilities, final, ranks.
import { chooser, legend, mount, rowsOf, scaleOf, word } from "./base.js";
import { heatMap } from "./heat_map.js";

const defaults = () => ({ colour: "final", colours: "cividis" });
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => {
    const { layers, tokens, tops } = context.record;
    chooser(context, "colour", ["final", "top"], ["probability of the last layer's prediction", "probability of the layer's own"], "colour");
    const [final, own] = [context.record.final, context.record.probabilities].map((each) => rowsOf(context.record, each));
    const ranks = context.record.ranks;
    const shown = context.state.colour === "top" ? own : final;
    const pixels = scaleOf(context.root, context.state.colours);
    const map = heatMap(context.body, {
      rows: layers, columns: tokens, pixels, shade: (value) => 255 * value, cell: 74, label: "predictions by layer and position", focus: "lens",
      value: (row, column) => shown[row][column], text: (row, column) => tops[row][column].trim() || "␣", room: context.root.clientWidth,
      point: (row, column) => {
        map.point(row, column);
        if (row === null || column === null) return;
        context.select({ layer: row, token: column, kept: false });
        context.say(word(layers[row]), " at ", word(tokens[column]), " predicts ", word(tops[row][column]), ` with ${own[row][column].toFixed(3)}; the last layer's prediction `,
          word(tops[layers.length - 1][column]), ` has ${final[row][column].toFixed(3)}, rank ${ranks[row][column]}`);
      },
      keep: (row, column) => context.select({ layer: row, token: column, kept: true }),
    });
    context.body.append(legend(pixels, "0", "1"));
    context.say("Point at a cell, or use the arrow keys: rows are layers, columns are positions.");
  });
}
