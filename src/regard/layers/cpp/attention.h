// The softmax over keys of one query and head: what layers/attend.py says, in float32.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "activation.h"

namespace {

// q·k for four keys at once, whose sums do not wait for each other.
inline void dots(const float *q, const float *const *k, int64_t size, float *to) {
    float a = 0, b = 0, c = 0, d = 0;
#pragma omp simd reduction(+ : a, b, c, d)
    for (int64_t i = 0; i < size; i++) {
        a += q[i] * k[0][i];
        b += q[i] * k[1][i];
        c += q[i] * k[2][i];
        d += q[i] * k[3][i];
    }
    to[0] = a, to[1] = b, to[2] = c, to[3] = d;
}

// Pairs of dimensions, i and i + half, turned by the angles of a position: as in layers/rotary.py.
inline void turn(float *x, const float *cosines, const float *sines, int64_t half) {
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        const float a = x[i], b = x[half + i];
        x[i] = a * cosines[i] - b * sines[i];
        x[half + i] = b * cosines[i] + a * sines[i];
    }
}

// Four values, each times its weight, added to `out`.
inline void add(const float *weights, const float *const *v, int64_t size, float *out) {
#pragma omp simd
    for (int64_t i = 0; i < size; i++)
        out[i] += (weights[0] * v[0][i] + weights[1] * v[1][i]) +
                  (weights[2] * v[2][i] + weights[3] * v[3][i]);
}

// One query of one head against `length` keys; key s lies at keys + place(s), and bias[s], if there
// is a bias, is added to its score. Keys and values are read by fours; in place of those beyond the
// last stands the last, and its weight is 0.
template <typename Place>
void attend(const float *q, const float *keys, const float *values, const float *bias,
            int64_t length, int64_t key, int64_t value, float scale, float *weights, float *out,
            Place place, Place place_v) {
    const float *four[4];
    float top = -INFINITY, total = 0, scores[4];
    for (int64_t s = 0; s < length; s += 4) {
        for (int64_t n = 0; n < 4; n++) four[n] = keys + place(std::min(s + n, length - 1));
        dots(q, four, key, scores);
        for (int64_t n = 0; n < std::min<int64_t>(4, length - s); n++) {
            weights[s + n] = scores[n] * scale + (bias ? bias[s + n] : 0);
            top = std::max(top, weights[s + n]);
        }
    }
#pragma omp simd reduction(+ : total)
    for (int64_t s = 0; s < length; s++) total += weights[s] = exponential(weights[s] - top);
    for (int64_t i = 0; i < value; i++) out[i] = 0;
    for (int64_t s = 0; s < length; s += 4) {
        for (int64_t n = 0; n < 4; n++) {
            four[n] = values + place_v(std::min(s + n, length - 1));
            scores[n] = s + n < length ? weights[s + n] / total : 0;
        }
        add(scores, four, value, out);
    }
}

}  // namespace
