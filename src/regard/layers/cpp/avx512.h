// AVX-512: 32 registers of 16 floats. Without VNNI, bytes are multiplied as with AVX2.

#pragma once

#include <immintrin.h>

namespace {

struct Floats {
    typedef float Register __attribute__((vector_size(64)));
    static constexpr int LANES = 16, ROWS = 6, SUMS = 24;

    static void add(Register &sum, Register w, float x) {
        sum = _mm512_fmadd_ps(w, _mm512_set1_ps(x), sum);
    }
};

}  // namespace

#ifdef __AVX512VNNI__
namespace {

// Products of unsigned activations and signed weights, added by fours in 32 bits.
struct Bytes {
    using Entry = uint8_t;
    using Input = __m512i;
    using Weights = __m512i;
    using Sum = __m512i;
    static constexpr int ZERO = 128, STEP = 4, GROUP = 1, PARTS = 1, ROWS = 8, SUMS = 16;

    static Input input(const Entry *const *x, int64_t k) {
        int32_t four;
        std::memcpy(&four, x[0] + k, 4);
        return _mm512_set1_epi32(four);
    }
    static Weights weights(const int8_t *w, int) { return _mm512_load_si512(w); }
    static void add(Sum &sum, Weights w, Input x) { sum = _mm512_dpbusd_epi32(sum, x, w); }
    static void store(const Sum *sum, int32_t (*to)[BLOCK]) { _mm512_storeu_si512(to, *sum); }
};

}  // namespace
#else
#include "avx2_bytes.h"
#endif
