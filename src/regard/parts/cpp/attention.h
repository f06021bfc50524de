// The softmax over keys of one query and head: what parts/attend.py says, in float32.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "activation.h"

namespace {

// One query of one head against `length` keys; key s lies at keys + place(s).
template <typename Place>
void attend(const float *q, const float *keys, const float *values, int64_t length, int64_t key,
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
#pragma omp simd
    for (int64_t s = 0; s < length; s++) weights[s] = exponential(weights[s] - top);
    for (int64_t s = 0; s < length; s++) total += weights[s];
    for (int64_t i = 0; i < value; i++) out[i] = 0;
    for (int64_t s = 0; s < length; s++) {
        const float *v = values + place_v(s);
        const float weight = weights[s] / total;
        for (int64_t i = 0; i < value; i++) out[i] += weight * v[i];
    }
}

}  // namespace
