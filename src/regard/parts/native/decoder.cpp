// One step of a Transformer decoder on a CPU, in float32 or with 8-bit weights and activations.
//
// Every row is computed by itself, in one order of operations, so its result has the same bits in
// any batch. Weights lie in blocks of 16 outputs; a block is read once for eight rows. Row r's past
// key at place s lies in row owners[r][s] of the buffers, so that reordering a beam moves no keys.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <algorithm>
#ifdef __AVX512VNNI__
#include <immintrin.h>
#endif

extern "C" {

struct Linear {
    const void *weight;    // float: [out / 16][in][16]; bytes, 128 added: [out / 16][in / 4][16][4]
    const float *scale;    // of each output; null in float32
    const float *bias;     // or null
    int64_t in, out;       // both padded: in to 4, out to 16
};

struct Norm {
    const float *weight, *bias;
    float eps;
};

struct Layer {
    Linear qkv, o, cross_q, cross_o, up, down;
    Norm attention_norm, cross_norm, mlp_norm;
    float *keys, *values;                            // [buffer rows][capacity][heads * size]
    const float *source_keys, *source_values;        // [sentences][places][heads * size]
};

struct Decoder {
    const Layer *layers;
    Linear head;
    Norm norm;               // after the last block, if weight is not null
    int64_t depth, width, heads, key, value, inner;
    int32_t pre_norm, activation;   // 0 relu, 1 gelu, 2 swish
    float scale;
};

struct Step {
    float *x;                       // [rows][width], what is fed; overwritten
    float *logits;                  // [rows][vocabulary, padded to 16]
    float *scratch;                 // as many floats as `scratch_floats` says
    int32_t *owners;                // [buffer rows][capacity]
    const int32_t *sentence;        // of each row
    const int32_t *source_lengths;  // of each sentence
    int64_t rows, at, capacity, places;
};
}

namespace {

constexpr int64_t BLOCK = 16, TILE = 8;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));

inline int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Bytes of one row, which has 128 steps up to the power of two above its entries: as in
// parts/linear/int8.py. Where an entry is no number, the scale is none either.
struct Row {
    int8_t *bytes;
    float scale;
    int32_t sum;
};

void quantise(const float *x, int64_t n, int64_t n_padded, Row &row) {
    float largest = 0, nothing = 0;
#pragma omp simd reduction(max : largest) reduction(+ : nothing)
    for (int64_t i = 0; i < n; i++) {
        largest = std::max(largest, std::fabs(x[i]));
        nothing += x[i] * 0;
    }
    const bool finite = nothing == 0;
    int exponent;
    std::frexp(std::max(largest, 0x1p-64f), &exponent);
    row.scale = finite ? std::ldexp(1.0f, exponent - 7) : NAN;
    const float steps = finite ? std::ldexp(1.0f, 7 - exponent) : 0;
    const float to_even = 12582912;  // 3 * 2^22: adding it rounds to a whole number
    int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        const int32_t q = std::min(127, int32_t((x[i] * steps + to_even) - to_even));
        row.bytes[i] = int8_t(q);
        sum += q;
    }
    std::memset(row.bytes + n, 0, n_padded - n);
    row.sum = sum;
}

template <int ROWS, int BLOCKS>
void columns_of_floats(const float *w, const float *const *x, int64_t in, Floats *sums) {
    Floats acc[ROWS * BLOCKS] = {};
    for (int64_t k = 0; k < in; k++)
        for (int b = 0; b < BLOCKS; b++) {
            const Floats column = *reinterpret_cast<const Floats *>(w + (b * in + k) * BLOCK);
            for (int r = 0; r < ROWS; r++) acc[b * ROWS + r] += column * x[r][k];
        }
    std::copy_n(acc, ROWS * BLOCKS, sums);
}

template <int ROWS, int BLOCKS>
void columns_of_bytes(const uint8_t *w, const Row *rows, int64_t in, Ints *sums) {
    Ints acc[ROWS * BLOCKS] = {};
    for (int64_t k = 0; k < in; k += 4)
        for (int b = 0; b < BLOCKS; b++) {
            const uint8_t *columns = w + (b * in + k) * BLOCK;
#ifdef __AVX512VNNI__
            const __m512i four = _mm512_load_si512(columns);
            for (int r = 0; r < ROWS; r++) {
                int32_t bytes;
                std::memcpy(&bytes, rows[r].bytes + k, 4);
                Ints &sum = acc[b * ROWS + r];
                sum = (Ints)_mm512_dpbusd_epi32((__m512i)sum, four, _mm512_set1_epi32(bytes));
            }
#else
            for (int r = 0; r < ROWS; r++)
                for (int64_t j = 0; j < BLOCK; j++)
                    for (int i = 0; i < 4; i++)
                        acc[b * ROWS + r][j] +=
                            int32_t(columns[j * 4 + i]) * int32_t(rows[r].bytes[k + i]);
#endif
        }
    std::copy_n(acc, ROWS * BLOCKS, sums);
}

// Up to eight rows and two blocks of outputs: as many sums as there are registers for.
template <int ROWS, int BLOCKS>
void tile(const Linear &linear, int64_t block, const float *const *x, const Row *bytes,
          float *const *y) {
    Floats sums[ROWS * BLOCKS];
    if (linear.scale) {
        Ints whole[ROWS * BLOCKS];
        const uint8_t *w = static_cast<const uint8_t *>(linear.weight) + block * BLOCK * linear.in;
        columns_of_bytes<ROWS, BLOCKS>(w, bytes, linear.in, whole);
        for (int b = 0; b < BLOCKS; b++) {
            const float *scale = linear.scale + (block + b) * BLOCK;
            for (int r = 0; r < ROWS; r++) {
                const Ints real = whole[b * ROWS + r] - 128 * bytes[r].sum;
                sums[b * ROWS + r] = __builtin_convertvector(real, Floats) *
                                     *reinterpret_cast<const Floats *>(scale) * bytes[r].scale;
            }
        }
    } else {
        const float *w = static_cast<const float *>(linear.weight) + block * BLOCK * linear.in;
        columns_of_floats<ROWS, BLOCKS>(w, x, linear.in, sums);
    }
    for (int b = 0; b < BLOCKS; b++)
        for (int r = 0; r < ROWS; r++) {
            const int64_t out = (block + b) * BLOCK;
            Floats &sum = sums[b * ROWS + r];
            if (linear.bias) sum += *reinterpret_cast<const Floats *>(linear.bias + out);
            std::memcpy(y[r] + out, &sum, sizeof(Floats));
        }
}

using Tile = void (*)(const Linear &, int64_t, const float *const *, const Row *, float *const *);
template <int BLOCKS>
constexpr Tile TILES[TILE] = {tile<1, BLOCKS>, tile<2, BLOCKS>, tile<3, BLOCKS>, tile<4, BLOCKS>,
                              tile<5, BLOCKS>, tile<6, BLOCKS>, tile<7, BLOCKS>, tile<8, BLOCKS>};

// y = Wx + b for rows of x, `x_stride` and `y_stride` floats apart.
void multiply(const Linear &linear, const float *x, int64_t width, int64_t x_stride, float *y,
              int64_t y_stride, int64_t rows, int8_t *room) {
    Row bytes[512];
    for (int64_t first = 0; first < rows; first += 512) {
        const int64_t count = std::min<int64_t>(512, rows - first);
        if (linear.scale) {
#pragma omp parallel for if (count > 4)
            for (int64_t r = 0; r < count; r++) {
                bytes[r].bytes = room + r * linear.in;
                quantise(x + (first + r) * x_stride, width, linear.in, bytes[r]);
            }
        }
        const int64_t blocks = linear.out / BLOCK;
#pragma omp parallel for
        for (int64_t block = 0; block < blocks; block += 2) {
            for (int64_t r = 0; r < count; r += TILE) {
                const int64_t size = std::min(TILE, count - r);
                const float *from[TILE];
                float *to[TILE];
                for (int64_t i = 0; i < size; i++) {
                    from[i] = x + (first + r + i) * x_stride;
                    to[i] = y + (first + r + i) * y_stride;
                }
                const Tile *tiles = block + 1 < blocks ? TILES<2> : TILES<1>;
                tiles[size - 1](linear, block, from, bytes + r, to);
            }
        }
    }
}

void normalise(const Norm &norm, const float *x, float *y, int64_t width) {
    float mean = 0, square = 0;
#pragma omp simd reduction(+ : mean)
    for (int64_t i = 0; i < width; i++) mean += x[i];
    mean /= width;
#pragma omp simd reduction(+ : square)
    for (int64_t i = 0; i < width; i++) square += (x[i] - mean) * (x[i] - mean);
    const float over = 1 / std::sqrt(square / width + norm.eps);
    for (int64_t i = 0; i < width; i++)
        y[i] = (x[i] - mean) * over * norm.weight[i] + norm.bias[i];
}

float active(float x, int32_t kind) {
    if (kind == 0) return std::max(x, 0.0f);
    if (kind == 1) return 0.5f * x * (1 + std::erf(x * 0.70710678f));
    return x / (1 + std::exp(-x));
}

// One query of one head against `length` keys; key s lies at keys + place(s).
template <typename Place>
void look(const float *q, const float *keys, const float *values, int64_t length, int64_t key,
          int64_t value, float scale, float *weights, float *out, Place place, Place place_v) {
    float top = -INFINITY, total = 0;
    for (int64_t s = 0; s < length; s++) {
        const float *k = keys + place(s);
        float dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int64_t i = 0; i < key; i++) dot += q[i] * k[i];
        weights[s] = dot * scale;
        top = std::max(top, weights[s]);
    }
    for (int64_t s = 0; s < length; s++) total += weights[s] = std::exp(weights[s] - top);
    for (int64_t i = 0; i < value; i++) out[i] = 0;
    for (int64_t s = 0; s < length; s++) {
        const float *v = values + place_v(s);
        const float weight = weights[s] / total;
        for (int64_t i = 0; i < value; i++) out[i] += weight * v[i];
    }
}

// The floats of scratch: a part for each intermediate result, all of them rows long.
struct Scratch {
    float *normed, *projected, *seen, *added, *inner, *weights;
    int8_t *bytes;
    int64_t wide, longest;

    Scratch(const Decoder &d, const Step &s) {
        wide = padded(std::max({d.heads * (2 * d.key + d.value), d.inner, d.width}), BLOCK);
        longest = std::max(s.capacity, s.places);
        float *next = s.scratch;
        for (float **part : {&normed, &projected, &seen, &added, &inner}) {
            *part = next;
            next += s.rows * wide;
        }
        weights = next;
        next += s.rows * d.heads * longest;
        bytes = reinterpret_cast<int8_t *>(next);
    }

    static int64_t floats(const Decoder &d, int64_t rows, int64_t capacity, int64_t places) {
        const int64_t wide =
            padded(std::max({d.heads * (2 * d.key + d.value), d.inner, d.width}), BLOCK);
        return rows * (5 * wide + d.heads * std::max(capacity, places)) + 512 * wide;
    }
};

// x + f(norm(x)) or norm(x + f(x)): what goes into f, and what comes after it.
const float *before(const Decoder &d, const Norm &norm, const float *x, int64_t rows, float *room) {
    if (!d.pre_norm) return x;
#pragma omp parallel for if (rows > 4)
    for (int64_t r = 0; r < rows; r++) normalise(norm, x + r * d.width, room + r * d.width, d.width);
    return room;
}

void after(const Decoder &d, const Norm &norm, float *x, const float *add, int64_t wide,
           int64_t rows) {
#pragma omp parallel for if (rows > 4)
    for (int64_t r = 0; r < rows; r++) {
        float *to = x + r * d.width;
        for (int64_t i = 0; i < d.width; i++) to[i] += add[r * wide + i];
        if (!d.pre_norm) normalise(norm, to, to, d.width);
    }
}

void look_back(const Decoder &d, const Layer &layer, const Step &s, Scratch &room) {
    const int64_t keys = d.heads * d.key, values = d.heads * d.value;
    const float *in = before(d, layer.attention_norm, s.x, s.rows, room.normed);
    multiply(layer.qkv, in, d.width, d.width, room.projected, room.wide, s.rows, room.bytes);
#pragma omp parallel for if (s.rows > 4)
    for (int64_t r = 0; r < s.rows; r++) {
        const float *qkv = room.projected + r * room.wide;
        std::copy_n(qkv + keys, keys, layer.keys + (r * s.capacity + s.at) * keys);
        std::copy_n(qkv + 2 * keys, values, layer.values + (r * s.capacity + s.at) * values);
        s.owners[r * s.capacity + s.at] = int32_t(r);
    }
#pragma omp parallel for
    for (int64_t rh = 0; rh < s.rows * d.heads; rh++) {
        const int64_t r = rh / d.heads, h = rh % d.heads;
        const int32_t *owners = s.owners + r * s.capacity;
        auto at = [&](int64_t size) {
            return [=, &s](int64_t place) { return (owners[place] * s.capacity + place) * size; };
        };
        look(room.projected + r * room.wide + h * d.key, layer.keys + h * d.key,
             layer.values + h * d.value, s.at + 1, d.key, d.value, d.scale,
             room.weights + rh * room.longest, room.seen + r * room.wide + h * d.value, at(keys),
             at(values));
    }
    multiply(layer.o, room.seen, values, room.wide, room.added, room.wide, s.rows, room.bytes);
    after(d, layer.attention_norm, s.x, room.added, room.wide, s.rows);
}

void look_at_source(const Decoder &d, const Layer &layer, const Step &s, Scratch &room) {
    const int64_t keys = d.heads * d.key, values = d.heads * d.value;
    const float *in = before(d, layer.cross_norm, s.x, s.rows, room.normed);
    multiply(layer.cross_q, in, d.width, d.width, room.projected, room.wide, s.rows, room.bytes);
#pragma omp parallel for
    for (int64_t rh = 0; rh < s.rows * d.heads; rh++) {
        const int64_t r = rh / d.heads, h = rh % d.heads, sentence = s.sentence[r];
        auto at = [&](int64_t size) { return [=](int64_t place) { return place * size; }; };
        look(room.projected + r * room.wide + h * d.key,
             layer.source_keys + sentence * s.places * keys + h * d.key,
             layer.source_values + sentence * s.places * values + h * d.value,
             s.source_lengths[sentence], d.key, d.value, d.scale,
             room.weights + rh * room.longest, room.seen + r * room.wide + h * d.value, at(keys),
             at(values));
    }
    multiply(layer.cross_o, room.seen, values, room.wide, room.added, room.wide, s.rows, room.bytes);
    after(d, layer.cross_norm, s.x, room.added, room.wide, s.rows);
}

void think(const Decoder &d, const Layer &layer, const Step &s, Scratch &room) {
    const float *in = before(d, layer.mlp_norm, s.x, s.rows, room.normed);
    multiply(layer.up, in, d.width, d.width, room.inner, room.wide, s.rows, room.bytes);
#pragma omp parallel for if (s.rows > 1)
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t i = 0; i < d.inner; i++) {
            float &x = room.inner[r * room.wide + i];
            x = active(x, d.activation);
        }
    multiply(layer.down, room.inner, d.inner, room.wide, room.added, room.wide, s.rows, room.bytes);
    after(d, layer.mlp_norm, s.x, room.added, room.wide, s.rows);
}

}  // namespace

extern "C" {

int64_t regard_scratch_floats(const Decoder *d, int64_t rows, int64_t capacity, int64_t places) {
    return Scratch::floats(*d, rows, capacity, places);
}

void regard_step(const Decoder *d, const Step *s) {
    Scratch room(*d, *s);
    for (int64_t layer = 0; layer < d->depth; layer++) {
        look_back(*d, d->layers[layer], *s, room);
        look_at_source(*d, d->layers[layer], *s, room);
        think(*d, d->layers[layer], *s, room);
    }
    const float *states = s->x;
    if (d->norm.weight) {
        for (int64_t r = 0; r < s->rows; r++)
            normalise(d->norm, s->x + r * d->width, room.normed + r * d->width, d->width);
        states = room.normed;
    }
    multiply(d->head, states, d->width, d->width, s->logits, d->head.out, s->rows, room.bytes);
}

}
