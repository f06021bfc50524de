// Matrices of weights, unpacked when they are needed: a long text has more than a hundred heads of
// a quarter of a million weights each. A matrix is text: base64 of raw deflate (RFC 1951).
const UNIT = 10000; // weights are in ten-thousandths where a map has no steps
const POWER = 0.75; // where it has: level = steps * share ** POWER
const KEPT = 32; // matrices that stay unpacked

// Rows of a matrix. In ten-thousandths, a weight below 128 is one byte, a larger one is two, of
// seven bits each, and the first has 128 added. In steps, the largest weight of each row comes
// first, as a float of 32 bits, then a byte for each weight.
function unpack(text, { queries, keys, steps }) {
  const [height, width] = [queries.length, keys.length];
  const all = new Float32Array(height * width);
  if (steps === null) {
    const bytes = inflate(text, 2 * all.length);
    for (let i = 0, next = 0; i < all.length; i++) {
      const byte = bytes[next++];
      all[i] = (byte < 128 ? byte : (byte - 128) * 128 + bytes[next++]) / UNIT;
    }
  } else {
    const bytes = inflate(text, 4 * height + all.length);
    const peaks = new Float32Array(bytes.buffer, 0, height);
    const shares = Float32Array.from({ length: steps + 1 }, (_, level) => (level / steps) ** (1 / POWER));
    for (let q = 0, i = 0; q < height; q++)
      for (let k = 0; k < width; k++, i++) all[i] = peaks[q] * shares[bytes[4 * height + i]];
  }
  return rowsOf(all, height, width);
}
function unpackMask(text, { queries, keys }) {
  return rowsOf(inflate(text, queries.length * keys.length), queries.length, keys.length);
}
function rowsOf(all, height, width) {
  return Array.from({ length: height }, (_, q) => all.subarray(q * width, (q + 1) * width));
}

// The matrix of a head of the map on display, with a head of null the mean of the heads of a layer, and
// without a layer that of all layers.
function matrixOf(layer, head) {
  const { layers, means, mean } = map();
  const ofLayer = () => (head === null ? means[layer] ?? layers[layer][0] : layers[layer][head]);
  return keepMatrix(["head", layer, head], () => unpack(layer === null ? mean : ofLayer(), map()));
}
const matrices = new Map(); // those that were used last, at the end
function keepMatrix(name, make) {
  const key = [chosen.map, ...name].join();
  const matrix = matrices.get(key) ?? make();
  matrices.delete(key);
  matrices.set(key, matrix);
  if (matrices.size > KEPT) matrices.delete(matrices.keys().next().value);
  return matrix;
}

// ---- raw deflate ------------------------------------------------------------------------------

const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]; // of code lengths
const FIXED = [[144, 8], [112, 9], [24, 7], [8, 8]]
  .flatMap(([count, length]) => Array(count).fill(length));

// The bytes that a text stands for, at most so many.
function inflate(text, most) {
  const input = atob(text);
  const output = new Uint8Array(most);
  let [read, bits, held, size] = [0, 0, 0, 0]; // held: how many bits are in bits
  const ensure = (count) => {
    for (; held < count; held += 8) bits |= input.charCodeAt(read++) << held;
  };
  const take = (count) => {
    ensure(count);
    const value = bits & ((1 << count) - 1);
    bits >>>= count;
    held -= count;
    return value;
  };
  const symbol = ({ table, longest }) => {
    ensure(longest);
    const entry = table[bits & (table.length - 1)];
    bits >>>= entry & 15;
    held -= entry & 15;
    return entry >> 4;
  };
  // Lengths of codes, themselves in codes: 16 repeats the last, 17 and 18 are runs of zeros.
  const lengthsOf = (codes, count) => {
    const lengths = [];
    while (lengths.length < count) {
      const length = symbol(codes);
      const run = length === 16 ? 3 + take(2) : length === 17 ? 3 + take(3) : length === 18 ? 11 + take(7) : 1;
      const value = length < 16 ? length : length === 16 ? lengths.at(-1) : 0;
      for (let i = 0; i < run; i++) lengths.push(value);
    }
    return lengths;
  };
  const codesOfBlock = () => {
    const [literals, distances, count] = [257 + take(5), 1 + take(5), 4 + take(4)];
    const short = Array(19).fill(0);
    for (let i = 0; i < count; i++) short[ORDER[i]] = take(3);
    const lengths = lengthsOf(huffman(short), literals + distances);
    return [huffman(lengths.slice(0, literals)), huffman(lengths.slice(literals))];
  };
  const copyStored = () => {
    take(held % 8);
    const count = take(16);
    take(16); // the count again, inverted
    for (let i = 0; i < count; i++) output[size++] = take(8);
  };
  const copyCoded = ([literals, distances]) => {
    for (let code = symbol(literals); code !== 256; code = symbol(literals)) {
      if (code < 256) { output[size++] = code; continue; }
      let length = runOf(code - 257, 4, 3);
      if (code === 285) length = [258, 0];
      const count = length[0] + take(length[1]);
      const back = runOf(symbol(distances), 2, 1);
      const from = size - back[0] - take(back[1]);
      for (let i = 0; i < count; i++) output[size++] = output[from + i];
    }
  };
  for (let last = false; !last;) {
    last = take(1) === 1;
    const kind = take(2);
    if (kind === 0) copyStored();
    else copyCoded(kind === 1 ? [huffman(FIXED), huffman(Array(30).fill(5))] : codesOfBlock());
  }
  return output;
}

// The least length or distance of a code, and the number of bits that are added to it: one bit more
// for every so many codes.
function runOf(code, each, least) {
  if (code < 2 * each) return [code + least, 0];
  const extra = Math.floor(code / each) - 1;
  return [((each + (code % each)) << extra) + least, extra];
}

// A table from the next bits to 16 * symbol + the length of its code, by the lengths of all codes.
function huffman(lengths) {
  const longest = Math.max(...lengths);
  const table = new Uint16Array(1 << longest);
  for (let length = 1, code = 0; length <= longest; length++, code <<= 1)
    lengths.forEach((each, symbol) => {
      if (each !== length) return;
      let first = 0; // codes are read from their last bit
      for (let bit = 0; bit < length; bit++) first |= ((code >> bit) & 1) << (length - 1 - bit);
      for (let at = first; at < table.length; at += 1 << length) table[at] = (symbol << 4) | length;
      code++;
    });
  return { table, longest };
}
