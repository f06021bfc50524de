// Activations of feed-forward layers, in float32: those of layers/block.py.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

// e^x without a table or a branch, so that loops over it are vectorised: 2^n e^r with r in
// [-ln 2 / 2, ln 2 / 2], where e^r is a polynomial (Cephes). The error is about one bit, and what
// is no number stays none.
inline float exponential(float x) {
    x = std::min(std::max(x, -87.0f), 88.0f);
    const float to_even = 12582912;  // 3 * 2^22: adding it rounds to a whole number
    const float n = (x * 1.44269504f + to_even) - to_even;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = (y * r + 0.5f) * r * r + r + 1;
    const int32_t bits = (int32_t(n) + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof(power));
    return y * power;
}

inline float sigmoid(float x) { return 1 / (1 + exponential(-x)); }

struct Relu {
    static float of(float x) { return std::max(x, 0.0f); }
};

struct Gelu {
    static float of(float x) { return 0.5f * x * (1 + std::erf(x * 0.70710678f)); }
};

// x (1 + tanh u) / 2 = x sigmoid(2u), where u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanh {
    static float of(float x) { return x * sigmoid(1.59576912f * (x + 0.044715f * x * x * x)); }
};

struct GeluSigmoid {
    static float of(float x) { return x * sigmoid(1.702f * x); }
};

struct Swish {
    static float of(float x) { return x * sigmoid(x); }
};

template <typename Kind>
void activate(float *x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) x[i] = Kind::of(x[i]);
}

using Activation = void (*)(float *x, int64_t count);

// Numbered as in generation/cpp.py.
constexpr Activation ACTIVATIONS[] = {activate<Relu>, activate<Gelu>, activate<GeluTanh>,
                                      activate<Swish>, activate<GeluSigmoid>};

}  // namespace
