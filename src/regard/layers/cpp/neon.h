// NEON: 32 registers of 4 floats, 20 of them for sums. A block is four parts of 4 outputs.
// Bytes by matrix products (i8mm), dot products (asimddp) or widening products, as there are.

#pragma once

#include <arm_neon.h>

namespace {

struct Floats {
    typedef float Register __attribute__((vector_size(16)));
    static constexpr int LANES = 4, ROWS = 5, SUMS = 20;

    static void add(Register &sum, Register w, float x) { sum = vfmaq_n_f32(sum, w, x); }
};

#if defined(__ARM_FEATURE_MATMUL_INT8)

// Two rows by two outputs at once, 8 inputs each. A lone row is multiplied twice.
struct Bytes {
    using Entry = int8_t;
    using Input = int8x16_t;
    struct Weights {
        int8x16_t first, second;  // outputs 0 and 1, 2 and 3
    };
    struct Sum {
        int32x4_t first, second;  // each: two outputs of one row, two of the other
    };
    static constexpr int ZERO = 0, STEP = 8, GROUP = 2, PARTS = 4, ROWS = 6, SUMS = 12;

    static Input input(const Entry *const *x, int64_t k) {
        return vcombine_s8(vld1_s8(x[0] + k), vld1_s8(x[1] + k));
    }
    static Weights weights(const int8_t *w, int part) {
        const int32x4_t fore = vreinterpretq_s32_s8(vld1q_s8(w + part * 16));
        const int32x4_t aft = vreinterpretq_s32_s8(vld1q_s8(w + 64 + part * 16));
        return {vreinterpretq_s8_s32(vzip1q_s32(fore, aft)),
                vreinterpretq_s8_s32(vzip2q_s32(fore, aft))};
    }
    static void add(Sum &sum, const Weights &w, Input x) {
        sum.first = vmmlaq_s32(sum.first, x, w.first);
        sum.second = vmmlaq_s32(sum.second, x, w.second);
    }
    static void store(const Sum *sum, int32_t (*to)[BLOCK]) {
        UNROLL for (int p = 0; p < PARTS; p++) {
            vst1q_s32(to[0] + 4 * p, vcombine_s32(vget_low_s32(sum[p].first),
                                                  vget_low_s32(sum[p].second)));
            vst1q_s32(to[1] + 4 * p, vcombine_s32(vget_high_s32(sum[p].first),
                                                  vget_high_s32(sum[p].second)));
        }
    }
};

#elif defined(__ARM_FEATURE_DOTPROD)

struct Bytes {
    using Entry = int8_t;
    using Input = int8x16_t;
    using Weights = int8x16_t;
    using Sum = int32x4_t;
    static constexpr int ZERO = 0, STEP = 4, GROUP = 1, PARTS = 4, ROWS = 5, SUMS = 20;

    static Input input(const Entry *const *x, int64_t k) {
        int32_t four;
        std::memcpy(&four, x[0] + k, 4);
        return vreinterpretq_s8_s32(vdupq_n_s32(four));
    }
    static Weights weights(const int8_t *w, int part) { return vld1q_s8(w + part * 16); }
    static void add(Sum &sum, Weights w, Input x) { sum = vdotq_s32(sum, w, x); }
    static void store(const Sum *sum, int32_t (*to)[BLOCK]) { std::memcpy(to, sum, 64); }
};

#else

// Two products fit into 16 bits: 2 * 127 * 128 < 2^15. Pairs of them are added in 32.
struct Bytes {
    using Entry = int8_t;
    struct Input {
        int8x16_t fore, aft;  // inputs 0 to 3, and 4 to 7, four times each
    };
    struct Weights {
        int8x16_t fore, aft;
    };
    struct Sum {
        int32x4_t first, second;  // outputs 0 and 1, 2 and 3, each as two sums to be added
    };
    static constexpr int ZERO = 0, STEP = 8, GROUP = 1, PARTS = 4, ROWS = 2, SUMS = 8;

    static Input input(const Entry *const *x, int64_t k) {
        int32_t fore, aft;
        std::memcpy(&fore, x[0] + k, 4);
        std::memcpy(&aft, x[0] + k + 4, 4);
        return {vreinterpretq_s8_s32(vdupq_n_s32(fore)), vreinterpretq_s8_s32(vdupq_n_s32(aft))};
    }
    static Weights weights(const int8_t *w, int part) {
        return {vld1q_s8(w + part * 16), vld1q_s8(w + 64 + part * 16)};
    }
    static void add(Sum &sum, const Weights &w, const Input &x) {
        const int16x8_t low = vmull_s8(vget_low_s8(w.fore), vget_low_s8(x.fore));
        const int16x8_t high = vmull_high_s8(w.fore, x.fore);
        sum.first = vpadalq_s16(sum.first, vmlal_s8(low, vget_low_s8(w.aft), vget_low_s8(x.aft)));
        sum.second = vpadalq_s16(sum.second, vmlal_high_s8(high, w.aft, x.aft));
    }
    static void store(const Sum *sum, int32_t (*to)[BLOCK]) {
        UNROLL for (int p = 0; p < PARTS; p++)
            vst1q_s32(to[0] + 4 * p, vpaddq_s32(sum[p].first, sum[p].second));
    }
};

#endif

}  // namespace
