// Any other processor: plain loops for bytes; 128-bit registers of floats, of which there are 16.

#pragma once

namespace {

struct Floats {
    typedef float Register __attribute__((vector_size(16)));
    static constexpr int LANES = 4, ROWS = 3, SUMS = 12;

    static void add(Register &sum, Register w, float x) { sum += w * x; }
};

struct Bytes {
    using Entry = int8_t;
    struct Input {
        int32_t four[4];
    };
    using Weights = const int8_t *;
    struct Sum {
        int32_t of[BLOCK];
    };
    static constexpr int ZERO = 0, STEP = 4, GROUP = 1, PARTS = 1, ROWS = 1, SUMS = 1;

    static Input input(const Entry *const *x, int64_t k) {
        return {{x[0][k], x[0][k + 1], x[0][k + 2], x[0][k + 3]}};
    }
    static Weights weights(const int8_t *w, int) { return w; }
    static void add(Sum &sum, Weights w, const Input &x) {
        for (int j = 0; j < BLOCK; j++)
            for (int i = 0; i < 4; i++) sum.of[j] += w[j * 4 + i] * x.four[i];
    }
    static void store(const Sum *sum, int32_t (*to)[BLOCK]) { std::memcpy(to, sum, sizeof(Sum)); }
};

}  // namespace
