// Tokens that are hidden: special tokens, as the tokenizer knows them, and sinks. Special tokens are
// hidden as queries and as keys, sinks as keys. It needs attention.js.
const SINK = 0.1; // share of a head's weight, the mean over queries, from which on a key may be a sink
const TIMES = 2; // and so many times what equal weights would give it
let part; // indices and labels of the tokens that are left, and what was hidden: see hideTokens

// The mean over queries of the weight of each key; of equal weights if there is no matrix.
function sharesOfKeys(matrix = null) {
  const { queries, keys, allowed } = map();
  const shares = new Float64Array(keys.length);
  queries.forEach((_, q) => {
    const free = matrix ? 1 : allowed === null ? keys.length : allowed[q].reduce((sum, may) => sum + may, 0);
    for (let k = 0; k < keys.length; k++) {
      const weight = matrix ? matrix[q][k] : Number(allowed === null || allowed[q][k]);
      shares[k] += weight / ((free || 1) * queries.length);
    }
  });
  return shares;
}

// Keys that are sinks of any of these matrices.
function sinksOf(matrices) {
  const equal = sharesOfKeys();
  const every = matrices.map((matrix) => sharesOfKeys(matrix));
  const least = (k) => Math.max(SINK, TIMES * equal[k]);
  return [...equal.keys()].filter((k) => every.some((shares) => shares[k] > least(k)));
}

function hideTokens() {
  const { queries, keys, special } = map();
  const hides = (what) => chosen.hide.includes(what);
  const drawn = [chosen.head, ...chosen.heads].map((head) => weights(chosen.layer, head));
  const sinks = hides("sinks") ? sinksOf(drawn) : [];
  const specials = hides("special") ? special : { queries: [], keys: [] };
  const left = (labels, hidden) => [...labels.keys()].filter((i) => !hidden.includes(i));
  const rows = left(queries, specials.queries);
  const columns = left(keys, [...specials.keys, ...sinks]);
  const named = (labels, indices) => indices.map((i) => labels[i]);
  const names = [...named(queries, specials.queries), ...named(keys, specials.keys)];
  part = {
    rows, columns, queries: named(queries, rows), keys: named(keys, columns),
    hidden: {
      special: [...new Set(names)],
      sinks: named(keys, sinks.filter((key) => !specials.keys.includes(key))),
    },
  };
}
const masked = (query, key) =>
  map().allowed !== null && !map().allowed[part.rows[query]][part.columns[key]];

// The weights between the tokens that are left: as they are, or divided by their sum in each row.
function trim(matrix) {
  const { rows, columns } = part;
  const divided = chosen.weights === "renormalised";
  return rows.map((q) => {
    const all = matrix[q];
    const row = new Float64Array(columns.length);
    let sum = 0;
    for (let k = 0; k < columns.length; k++) sum += row[k] = all[columns[k]];
    if (divided && sum > 0) for (let k = 0; k < columns.length; k++) row[k] /= sum;
    return row;
  });
}

function layHidden() {
  const { special, sinks } = part.hidden;
  const list = (names) => names.flatMap((name, i) => [i ? " " : "", word(name)]);
  const parts = [];
  if (special.length) parts.push("special tokens ", ...list(special));
  if (special.length && sinks.length) parts.push("; ");
  if (sinks.length) parts.push("sinks ", ...list(sinks));
  if (!parts.length && chosen.hide.length) parts.push("nothing, for there is none");
  at("hidden").replaceChildren(...(parts.length ? ["Hidden: ", ...parts, "."] : []));
  at("hidden").hidden = !parts.length;
  at("sink").hidden = !chosen.hide.includes("sinks");
  at("weights").hidden = !special.length && !sinks.length;
  at("sum").textContent = at("weights").hidden ? "the weights of a row sum to one"
    : chosen.weights === "renormalised"
      ? "the weights that are left in a row are divided by their sum"
      : "the weights are as they are, so that those left in a row sum to less than one";
}
at("sink").textContent = `A sink is a key that takes more than ${100 * SINK} % of a head's weight, `
  + "the mean over all queries, and more than twice what equal weights would give it.";
