// Bytes with 256-bit registers: with AVX-VNNI as with AVX-512, else by products of 16 bits.

#pragma once

#include <immintrin.h>

namespace {

#ifdef __AVXVNNI__

struct Bytes {
    using Entry = uint8_t;
    using Input = __m256i;
    using Weights = __m256i;
    using Sum = __m256i;
    static constexpr int ZERO = 128, STEP = 4, GROUP = 1, PARTS = 2, ROWS = 5, SUMS = 12;

    static Input input(const Entry *const *x, int64_t k) {
        int32_t four;
        std::memcpy(&four, x[0] + k, 4);
        return _mm256_set1_epi32(four);
    }
    static Weights weights(const int8_t *w, int part) {
        return _mm256_load_si256(reinterpret_cast<const __m256i *>(w + part * 32));
    }
    static void add(Sum &sum, Weights w, Input x) { sum = _mm256_dpbusd_avx_epi32(sum, x, w); }
    static void store(const Sum *sum, int32_t (*to)[BLOCK]) { std::memcpy(to, sum, 64); }
};

#else

// AVX2 adds pairs of 8-bit products in 16 bits, which 255 * 127 overflows; so both are widened to
// 16 bits, and pairs of products added in 32. A part has 4 outputs, each as two sums to be added.
struct Bytes {
    using Entry = int16_t;
    using Input = __m256i;
    using Weights = __m256i;
    typedef int32_t Sum __attribute__((vector_size(32)));
    static constexpr int ZERO = 0, STEP = 4, GROUP = 1, PARTS = 4, ROWS = 2, SUMS = 8;

    static Input input(const Entry *const *x, int64_t k) {
        int64_t four;
        std::memcpy(&four, x[0] + k, 8);
        return _mm256_set1_epi64x(four);
    }
    static Weights weights(const int8_t *w, int part) {
        return _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i *>(w) + part));
    }
    static void add(Sum &sum, Weights w, Input x) { sum += Sum(_mm256_madd_epi16(w, x)); }
    static void store(const Sum *sum, int32_t (*to)[BLOCK]) {
        UNROLL for (int half = 0; half < 2; half++) {
            const __m256i added =
                _mm256_hadd_epi32(__m256i(sum[2 * half]), __m256i(sum[2 * half + 1]));
            const __m256i ordered = _mm256_permute4x64_epi64(added, 0xD8);
            std::memcpy(to[0] + half * 8, &ordered, 32);
        }
    }
};

#endif

}  // namespace
