// One step of a Transformer decoder on a CPU, in float32 or with 8-bit weights and activations.
//
// Every row is computed by itself, in one order of operations, so its result has the same bits in
// any batch. A row is one token. Its past key at position s lies in row owners[row][s] of the
// buffers, so that reordering a beam moves no keys; it sees the positions first[r] to position[r], so
// texts may have different lengths, and several tokens of a text, in order, are rows of one step: all
// keys are written before any is read. Layers may have no cross-attention. With fewer heads of keys
// and values (kv_heads), each serves a group of successive queries.

#include "activation.h"
#include "attention.h"
#include "linear.h"

extern "C" {

struct Norm {
    const float *weight, *bias;  // bias: or null
    float eps;
    int32_t rms;  // without a mean
};

struct Layer {
    Linear qkv, o, cross_q, cross_o, up, down;
    Norm attention_norm, cross_norm, mlp_norm;
    float *keys, *values;                      // [buffer rows][kv_heads][capacity][size]
    const float *source_keys, *source_values;  // [sentences][source_longest][kv_heads * size]
    const float *bias;              // [heads][capacity], the last of the query's own key; or null
    const float *cosines, *sines;   // [capacity][turned / 2], of the positions in a text
    int64_t turned;                 // dimensions of queries and keys that are turned; 0: none
    int64_t window;                 // the number of last positions that a row sees
    float scale, cross_scale;       // of q·k
};

struct Decoder {
    const Layer *layers;
    Linear head;
    Norm norm;               // after the last block, if weight is not null
    int64_t depth, width, heads, kv_heads, key, value, inner;
    int32_t pre_norm, gated, activation;   // activation: a number in ACTIVATIONS
};

struct Step {
    float *x;                       // [rows][width], what is fed; overwritten
    float *logits;                  // [rows][vocabulary, padded to 16]; null: not wanted
    float *scratch;                 // as many floats as `scratch_floats` says
    int32_t *owners;                // [buffer rows][capacity]
    const int32_t *buffer;          // the row of the buffers that each row writes to
    const int32_t *position, *first;  // the positions that each row writes to, and begins at
    const int32_t *sentence;        // of each row
    const int32_t *source_lengths;  // of each sentence
    int64_t rows, capacity, source_longest;
};
}

namespace {

inline int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

void normalise(const Norm &norm, const float *x, float *y, int64_t width) {
    float mean = 0, square = 0;
    if (!norm.rms) {
#pragma omp simd reduction(+ : mean)
        for (int64_t i = 0; i < width; i++) mean += x[i];
        mean /= width;
    }
#pragma omp simd reduction(+ : square)
    for (int64_t i = 0; i < width; i++) square += (x[i] - mean) * (x[i] - mean);
    const float over = 1 / std::sqrt(square / width + norm.eps);
    for (int64_t i = 0; i < width; i++)
        y[i] = (x[i] - mean) * over * norm.weight[i] + (norm.bias ? norm.bias[i] : 0);
}

// The floats of scratch: a part for each intermediate result, all of them rows long.
struct Scratch {
    float *normed, *projected, *attended, *added, *inner, *weights;
    void *integers;
    int64_t wide, longest;

    Scratch(const Decoder &d, const Step &s) {
        wide = widest(d);
        longest = std::max(s.capacity, s.source_longest);
        float *next = s.scratch;
        for (float **part : {&normed, &projected, &attended, &added, &inner}) {
            *part = next;
            next += s.rows * wide;
        }
        weights = next;
        next += s.rows * d.heads * longest;
        integers = next;
    }

    static int64_t widest(const Decoder &d) {
        const int64_t qkv = d.heads * d.key + d.kv_heads * (d.key + d.value);
        const int64_t up = d.gated ? 2 * d.inner : d.inner;
        return padded(std::max({qkv, d.heads * d.value, up, d.width}), DEPTH);
    }

    static int64_t floats(const Decoder &d, int64_t rows, int64_t capacity,
                          int64_t source_longest) {
        const int64_t integers = bytes_for(rows, widest(d)) / int64_t(sizeof(float));
        return rows * (5 * widest(d) + d.heads * std::max(capacity, source_longest)) + integers;
    }
};

// x + f(norm(x)) or norm(x + f(x)): what goes into f, and what comes after it.
const float *before(const Decoder &d, const Norm &norm, const float *x, int64_t rows, float *out) {
    if (!d.pre_norm) return x;
#pragma omp parallel for if (rows > 4)
    for (int64_t r = 0; r < rows; r++) normalise(norm, x + r * d.width, out + r * d.width, d.width);
    return out;
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

void self_attention(const Decoder &d, const Layer &layer, const Step &s, Scratch &tmp) {
    const int64_t queries = d.heads * d.key, keys = d.kv_heads * d.key, group = d.heads / d.kv_heads;
    const float *in = before(d, layer.attention_norm, s.x, s.rows, tmp.normed);
    multiply(layer.qkv, in, d.width, d.width, tmp.projected, tmp.wide, s.rows, tmp.integers);
#pragma omp parallel for if (s.rows > 4)
    for (int64_t r = 0; r < s.rows; r++) {
        float *qkv = tmp.projected + r * tmp.wide;
        const int64_t half = layer.turned / 2, angle = (s.position[r] - s.first[r]) * half;
        for (int64_t h = 0; half && h < d.heads + d.kv_heads; h++)
            turn(qkv + h * d.key, layer.cosines + angle, layer.sines + angle, half);
        const float *k = qkv + queries, *v = k + keys;
        for (int64_t h = 0; h < d.kv_heads; h++) {
            const int64_t place = (s.buffer[r] * d.kv_heads + h) * s.capacity + s.position[r];
            std::copy_n(k + h * d.key, d.key, layer.keys + place * d.key);
            std::copy_n(v + h * d.value, d.value, layer.values + place * d.value);
        }
        s.owners[s.buffer[r] * s.capacity + s.position[r]] = s.buffer[r];
    }
#pragma omp parallel for
    for (int64_t rh = 0; rh < s.rows * d.heads; rh++) {
        const int64_t r = rh / d.heads, h = rh % d.heads, past = s.position[r] + 1;
        const int32_t *owners = s.owners + s.buffer[r] * s.capacity;
        const int64_t length = std::min(past - s.first[r], layer.window);
        auto offset = [&](int64_t size) {
            return [=, &s, &d](int64_t n) {
                const int64_t place = past - length + n;
                return ((owners[place] * d.kv_heads + h / group) * s.capacity + place) * size;
            };
        };
        attend(tmp.projected + r * tmp.wide + h * d.key, layer.keys, layer.values,
               layer.bias ? layer.bias + (h + 1) * s.capacity - length : nullptr, length, d.key,
               d.value, layer.scale, tmp.weights + rh * tmp.longest,
               tmp.attended + r * tmp.wide + h * d.value, offset(d.key), offset(d.value));
    }
    multiply(layer.o, tmp.attended, d.heads * d.value, tmp.wide, tmp.added, tmp.wide, s.rows,
             tmp.integers);
    after(d, layer.attention_norm, s.x, tmp.added, tmp.wide, s.rows);
}

void cross_attention(const Decoder &d, const Layer &layer, const Step &s, Scratch &tmp) {
    const int64_t keys = d.kv_heads * d.key, values = d.kv_heads * d.value;
    const int64_t group = d.heads / d.kv_heads;
    const float *in = before(d, layer.cross_norm, s.x, s.rows, tmp.normed);
    multiply(layer.cross_q, in, d.width, d.width, tmp.projected, tmp.wide, s.rows, tmp.integers);
#pragma omp parallel for
    for (int64_t rh = 0; rh < s.rows * d.heads; rh++) {
        const int64_t r = rh / d.heads, h = rh % d.heads, sentence = s.sentence[r];
        auto offset = [&](int64_t size) { return [=](int64_t place) { return place * size; }; };
        attend(tmp.projected + r * tmp.wide + h * d.key,
               layer.source_keys + sentence * s.source_longest * keys + h / group * d.key,
               layer.source_values + sentence * s.source_longest * values + h / group * d.value,
               nullptr, s.source_lengths[sentence], d.key, d.value, layer.cross_scale,
               tmp.weights + rh * tmp.longest, tmp.attended + r * tmp.wide + h * d.value,
               offset(keys), offset(values));
    }
    multiply(layer.cross_o, tmp.attended, d.heads * d.value, tmp.wide, tmp.added, tmp.wide, s.rows,
             tmp.integers);
    after(d, layer.cross_norm, s.x, tmp.added, tmp.wide, s.rows);
}

inline void scale_by(float *gate, const float *up, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) gate[i] *= up[i];
}

void feed_forward(const Decoder &d, const Layer &layer, const Step &s, Scratch &tmp) {
    const float *in = before(d, layer.mlp_norm, s.x, s.rows, tmp.normed);
    multiply(layer.up, in, d.width, d.width, tmp.inner, tmp.wide, s.rows, tmp.integers);
#pragma omp parallel for if (s.rows > 1)
    for (int64_t r = 0; r < s.rows; r++) {
        float *inner = tmp.inner + r * tmp.wide;
        ACTIVATIONS[d.activation](inner, d.inner);
        if (d.gated) scale_by(inner, inner + d.inner, d.inner);
    }
    multiply(layer.down, tmp.inner, d.inner, tmp.wide, tmp.added, tmp.wide, s.rows, tmp.integers);
    after(d, layer.mlp_norm, s.x, tmp.added, tmp.wide, s.rows);
}

}  // namespace

extern "C" {

int64_t regard_scratch_floats(const Decoder *d, int64_t rows, int64_t capacity,
                              int64_t source_longest) {
    return Scratch::floats(*d, rows, capacity, source_longest);
}

void regard_step(const Decoder *d, const Step *s) {
    Scratch tmp(*d, *s);
    for (int64_t layer = 0; layer < d->depth; layer++) {
        self_attention(*d, d->layers[layer], *s, tmp);
        if (d->layers[layer].cross_q.weight) cross_attention(*d, d->layers[layer], *s, tmp);
        feed_forward(*d, d->layers[layer], *s, tmp);
    }
    if (!s->logits) return;
    const float *states = s->x;
    if (d->norm.weight) {
        for (int64_t r = 0; r < s->rows; r++)
            normalise(d->norm, s->x + r * d->width, tmp.normed + r * d->width, d->width);
        states = tmp.normed;
    }
    multiply(d->head, states, d->width, d->width, s->logits, d->head.out, s->rows, tmp.integers);
}

}
