// @ts-check
// Grids of signed numbers with names: patching maps and other figures by layer and position or head.
// record: grids [{name, rows, columns, values, exists}].
import { chooser, figure, legend, mount, range, rowsOf, signedScale, ticker, word } from "./base.js";
import { heatMap } from "./heat_map.js";

const defaults = () => ({ grid: 0, values: [] });
/** @param {HTMLElement} element @param {import("./base.js").ViewRecord} record @param {import("./base.js").Options} [options] */
export function render(element, record, options = {}) {
  return mount(element, record, options, defaults, (context) => drawGrids(context, context.record.grids));
}
/** @param {import("./base.js").Context} context @param {any[]} grids @param {HTMLElement} [host] */
export function drawGrids(context, grids, host = context.body) {
  const { record, state } = context;
  if (!grids[state.grid]) state.grid = 0;
  chooser(context, "grid", range(grids.length), grids.map((each) => each.name), "map");
  const { name, rows, columns, values, exists } = grids[state.grid];
  const numbers = rowsOf(record, values);
  const present = exists ? rowsOf(record, exists) : null;
  const peak = Math.max(...numbers.map((row) => row.reduce((most, value) => Math.max(most, Math.abs(value)), 0))) || 1;
  const fits = columns.length <= 24;
  if (fits) ticker(context, "values", ["shown"], ["in the cells"], "values");
  const valued = fits && state.values.includes("shown");
  const pixels = signedScale(context.root);
  const map = heatMap(host, {
    rows, columns, pixels, label: name, focus: "grid", room: host.clientWidth || context.root.clientWidth,
    value: (row, column) => (present && !present[row][column] ? null : numbers[row][column]),
    shade: (value) => 127.5 + (127.5 * value) / peak, cell: valued ? 46 : undefined,
    text: valued ? (row, column) => numbers[row][column].toFixed(2) : undefined,
    point: (row, column) => {
      map.point(row, column);
      if (row === null || column === null) return;
      context.select({ grid: name, row, column, kept: false });
      context.say(word(rows[row]), ", ", word(columns[column]), present && !present[row][column] ? ": none" : `: ${figure(numbers[row][column])}`);
    },
    keep: (row, column) => context.select({ grid: name, row, column, kept: true }),
  });
  host.append(legend(pixels, `−${figure(peak)}`, figure(peak)));
  context.say("Point at a cell, or use the arrow keys, to read its value.");
}
