// AVX2: 16 registers of 8 floats, 12 of them for sums.

#pragma once

#include <immintrin.h>

namespace {

struct Floats {
    typedef float Register __attribute__((vector_size(32)));
    static constexpr int LANES = 8, ROWS = 6, SUMS = 12;

    static void add(Register &sum, Register w, float x) {
        sum = _mm256_fmadd_ps(w, _mm256_set1_ps(x), sum);
    }
};

}  // namespace

#include "avx2_bytes.h"
