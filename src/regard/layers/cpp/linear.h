// y = Wx + b for rows of floats, in float32 or with weights and activations of 8 bits.
//
// Every row is computed by itself, in one order of operations, so its result has the same bits in
// any batch.

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "amx.h"
#include "instructions.h"

extern "C" {

struct Linear {
    const void *weight;     // float: [out / 16][in][16]; int8: [out / 16][in / 4][16][4]
    const float *scale;     // of each output; null in float32
    const int32_t *totals;  // the sum of each output's int8 weights; null in float32
    const float *bias;      // or null
    int64_t in, out;        // padded: 8-bit inputs to DEPTH, outputs to BLOCK
};
}

namespace {

// Some rows: where they are, where they go, and, for 8-bit products, their integers and scales.
struct Rows {
    const float *x;
    float *y;
    int64_t x_stride, y_stride;
    const Bytes::Entry *entries;
    const float *scales;
};

inline float to_bfloat16(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof(bits));
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    std::memcpy(&x, &bits, sizeof(x));
    return x;
}

// Integers of one row, whose largest entry is 127: as in layers/linear/int8.py. Where an entry is no
// number, the scale is none either. Sums and products are fused by name, not as the compiler likes,
// so that every instruction set gives the same bits.
float quantise(const float *x, int64_t n, int64_t n_padded, Bytes::Entry *entries) {
    float largest = 0, nothing = 0;
#pragma omp simd reduction(max : largest) reduction(+ : nothing)
    for (int64_t i = 0; i < n; i++) {
        largest = std::max(largest, std::fabs(x[i]));
        nothing += x[i] * 0;
    }
    const bool finite = nothing == 0;
    const float scale = to_bfloat16(std::max(largest * (1.0f / 127), 0x1p-70f));
    const float inverse = finite ? 1 / scale : 0;
    const float to_even = 12582912;  // 3 * 2^22: adding it rounds to a whole number
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const int32_t q = int32_t(std::fma(x[i], inverse, to_even) - to_even);
        entries[i] = Bytes::Entry(q + Bytes::ZERO);
    }
    std::fill(entries + n, entries + n_padded, Bytes::Entry(Bytes::ZERO));
    return finite ? scale : NAN;
}

// How many blocks a tile of so many rows has: as many as there are registers for.
template <typename Kind>
constexpr int blocks_for(int rows, int parts, int group) {
    const int sums = (rows + group - 1) / group * parts;
    return sums * 4 <= Kind::SUMS ? 4 : sums * 2 <= Kind::SUMS ? 2 : 1;
}

// Weights are too many for the caches, and are read one block after another. The processor sees
// far enough ahead where four blocks are read at once, and is told where there are fewer.
inline void prefetch(const void *weights) {
    __builtin_prefetch(static_cast<const char *>(weights) + 3072);
}

struct FloatTile {
    static constexpr int ROWS = Floats::ROWS, LANES = Floats::LANES, PARTS = BLOCK / LANES;
    using Register = Floats::Register;
    static constexpr int blocks(int rows) { return blocks_for<Floats>(rows, PARTS, 1); }

    template <int R, int BLOCKS>
    static void run(const Linear &linear, int64_t block, const Rows &rows, int64_t first) {
        const float *w = static_cast<const float *>(linear.weight) + block * BLOCK * linear.in;
        const float *x[R];
        for (int r = 0; r < R; r++) x[r] = rows.x + (first + r) * rows.x_stride;
        Register sums[R][BLOCKS * PARTS] = {};
        for (int64_t k = 0; k < linear.in; k++) {
            if (BLOCKS < 4) prefetch(w + k * BLOCK);
            Register column[BLOCKS * PARTS];
            UNROLL for (int p = 0; p < BLOCKS * PARTS; p++)
                std::memcpy(&column[p], w + (p / PARTS * linear.in + k) * BLOCK + p % PARTS * LANES,
                            sizeof(Register));
            UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int p = 0; p < BLOCKS * PARTS; p++)
                    Floats::add(sums[r][p], column[p], x[r][k]);
        }
        UNROLL for (int r = 0; r < R; r++)
            UNROLL for (int p = 0; p < BLOCKS * PARTS; p++) {
                const int64_t out = block * BLOCK + p * LANES;
                Register bias = {};
                if (linear.bias) std::memcpy(&bias, linear.bias + out, sizeof(bias));
                const Register y = sums[r][p] + bias;
                std::memcpy(rows.y + (first + r) * rows.y_stride + out, &y, sizeof(y));
            }
    }
};

// One row and block of an 8-bit product, from the sums of integers.
void finish(const Linear &linear, int64_t block, const int32_t *sums, float scale, float *y) {
    const int64_t out = block * BLOCK;
#pragma omp simd
    for (int j = 0; j < BLOCK; j++) {
        const int32_t sum = sums[j] - Bytes::ZERO * linear.totals[out + j];
        const float bias = linear.bias ? linear.bias[out + j] : 0;
        y[out + j] = std::fma(float(sum), linear.scale[out + j] * scale, bias);
    }
}

struct ByteTile {
    static constexpr int ROWS = Bytes::ROWS, PARTS = Bytes::PARTS, GROUP = Bytes::GROUP;
    static constexpr int blocks(int rows) { return blocks_for<Bytes>(rows, PARTS, GROUP); }

    template <int R, int BLOCKS>
    static void run(const Linear &linear, int64_t block, const Rows &rows, int64_t first) {
        constexpr int GROUPS = (R + GROUP - 1) / GROUP;
        const int8_t *w = static_cast<const int8_t *>(linear.weight) + block * BLOCK * linear.in;
        const Bytes::Entry *x[GROUPS * GROUP];
        for (int r = 0; r < GROUPS * GROUP; r++)
            x[r] = rows.entries + (first + std::min(r, R - 1)) * linear.in;
        Bytes::Sum sums[GROUPS][BLOCKS * PARTS] = {};
        for (int64_t k = 0; k < linear.in; k += Bytes::STEP) {
            if (BLOCKS < 4) prefetch(w + k * BLOCK);
            Bytes::Input inputs[GROUPS];
            UNROLL for (int g = 0; g < GROUPS; g++) inputs[g] = Bytes::input(x + g * GROUP, k);
            UNROLL for (int p = 0; p < BLOCKS * PARTS; p++) {
                const int8_t *at = w + (p / PARTS * linear.in + k) * BLOCK;
                const Bytes::Weights weights = Bytes::weights(at, p % PARTS);
                UNROLL for (int g = 0; g < GROUPS; g++) Bytes::add(sums[g][p], weights, inputs[g]);
            }
        }
        UNROLL for (int g = 0; g < GROUPS; g++)
            UNROLL for (int b = 0; b < BLOCKS; b++) {
                int32_t integers[GROUP][BLOCK];
                Bytes::store(sums[g] + b * PARTS, integers);
                for (int r = g * GROUP; r < std::min(R, (g + 1) * GROUP); r++)
                    finish(linear, block + b, integers[r - g * GROUP], rows.scales[first + r],
                           rows.y + (first + r) * rows.y_stride);
            }
    }
};

// For each number of rows a tile of several blocks, and one of a single block for what is left.
struct Shape {
    using Run = void (*)(const Linear &, int64_t block, const Rows &, int64_t first);
    Run several, single;
    int64_t blocks;
};

template <typename Tile, int... R>
constexpr std::array<Shape, sizeof...(R)> shapes(std::integer_sequence<int, R...>) {
    return {Shape{Tile::template run<R + 1, Tile::blocks(R + 1)>, Tile::template run<R + 1, 1>,
                  Tile::blocks(R + 1)}...};
}

// Blocks from `block` to `end` for all rows, which are cut into tiles of nearly equal heights.
template <typename Tile>
void run_tiles(const Linear &linear, int64_t block, int64_t end, const Rows &rows, int64_t count) {
    static constexpr auto SHAPES = shapes<Tile>(std::make_integer_sequence<int, Tile::ROWS>());
    const int64_t tiles = (count + Tile::ROWS - 1) / Tile::ROWS;
    for (int64_t tile = 0; tile < tiles; tile++) {
        const int64_t first = count * tile / tiles, past = count * (tile + 1) / tiles;
        const Shape &shape = SHAPES[past - first - 1];
        int64_t at = block;
        for (; at + shape.blocks <= end; at += shape.blocks) shape.several(linear, at, rows, first);
        for (; at < end; at++) shape.single(linear, at, rows, first);
    }
}

#ifdef HAS_AMX
void run_amx(const Linear &linear, int64_t block, int64_t end, const Rows &rows, int64_t count) {
    const int8_t *w = static_cast<const int8_t *>(linear.weight);
    for (int64_t first = 0; first < count; first += AMX_ROWS) {
        const int64_t height = std::min(AMX_ROWS, count - first);
        shape_tiles(height);
        for (int64_t at = block; at < end; at += AMX_BLOCKS) {
            int32_t sums[AMX_ROWS][AMX_BLOCKS * BLOCK];
            multiply_tiles(w + at * BLOCK * linear.in, rows.entries + first * linear.in, linear.in,
                           height, linear.in, sums);
            for (int64_t r = 0; r < height; r++)
                for (int64_t b = 0; b < AMX_BLOCKS; b++)
                    finish(linear, at + b, sums[r] + b * BLOCK, rows.scales[first + r],
                           rows.y + (first + r) * rows.y_stride);
        }
    }
    _tile_release();
}
#endif

// Blocks of an 8-bit product: pairs of them by AMX where it pays, all others by tiles of registers.
void run_bytes(const Linear &linear, int64_t block, int64_t end, const Rows &rows, int64_t count) {
#ifdef HAS_AMX
    if (count >= AMX_LEAST && may_use_amx()) {
        const int64_t even = block + (end - block) / AMX_BLOCKS * AMX_BLOCKS;
        run_amx(linear, block, even, rows, count);
        block = even;
    }
#endif
    run_tiles<ByteTile>(linear, block, end, rows, count);
}

constexpr int64_t MOST = 512;  // rows whose integers are held at once
constexpr int64_t SHARE = 4;   // blocks that a thread takes at once

// Bytes of scratch memory that `multiply` needs for integers.
constexpr int64_t bytes_for(int64_t rows, int64_t in) {
    return std::min(rows, MOST) * ((in + DEPTH - 1) / DEPTH * DEPTH) * sizeof(Bytes::Entry);
}

// y = Wx + b for `count` rows of x, each `width` floats long.
void multiply(const Linear &linear, const float *x, int64_t width, int64_t x_stride, float *y,
              int64_t y_stride, int64_t count, void *scratch) {
    Bytes::Entry *entries = static_cast<Bytes::Entry *>(scratch);
    float scales[MOST];
    const int64_t blocks = linear.out / BLOCK;
    for (int64_t first = 0; first < count; first += MOST) {
        const int64_t some = std::min(MOST, count - first);
        const Rows rows = {x + first * x_stride, y + first * y_stride, x_stride, y_stride,
                           entries, scales};
        if (linear.scale) {
#pragma omp parallel for if (some > 4)
            for (int64_t r = 0; r < some; r++)
                scales[r] = quantise(rows.x + r * x_stride, width, linear.in,
                                     entries + r * linear.in);
        }
#pragma omp parallel for
        for (int64_t block = 0; block < blocks; block += SHARE) {
            const int64_t end = std::min(block + SHARE, blocks);
            if (linear.scale)
                run_bytes(linear, block, end, rows, some);
            else
                run_tiles<FloatTile>(linear, block, end, rows, some);
        }
    }
}

}  // namespace
