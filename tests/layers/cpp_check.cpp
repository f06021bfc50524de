// What the compiled products and attention give, against plain loops. Prints the sum of all bits of
// the 8-bit results, which must be the same for every instruction set.

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "decoder.cpp"

static std::mt19937 draw(1);
static uint64_t bits = 14695981039346656037u;

template <typename T>
static T *aligned(int64_t n) {
    return static_cast<T *>(std::aligned_alloc(64, (n * sizeof(T) + 127) / 64 * 64));
}

static float normal() { return float(int32_t(draw() % 2001) - 1000) / 256; }

static void fail(const char *what, int64_t rows, int64_t in, int64_t out, double got, double want) {
    std::printf("%s, %ld rows, %ld -> %ld: %.9g, not %.9g\n", what, long(rows), long(in), long(out),
                got, want);
    std::exit(1);
}

// The nearest number with the 8 bits of a mantissa of bfloat16.
static float rounded(float x) {
    int exponent;
    const float mantissa = std::frexp(x, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8);
}

// Every eighth row and output is as large as it can be, so that sums which saturate would show.
static void check_bytes(int64_t rows, int64_t width, int64_t out) {
    const int64_t in = padded(width, DEPTH), stride = width + 3;
    int8_t *weight = aligned<int8_t>(in * out);
    std::vector<int32_t> plain(in * out, 0), totals(out, 0);
    std::vector<float> scale(out), bias(out), x(rows * stride), y(rows * out);
    std::fill_n(weight, in * out, int8_t(0));
    for (int64_t o = 0; o < out; o++) {
        scale[o] = float(draw() % 1000 + 1) / 65536;
        bias[o] = normal();
        for (int64_t i = 0; i < width; i++) {
            const int32_t w = o % 8 == 0 ? (o % 16 ? -127 : 127) : int32_t(draw() % 255) - 127;
            plain[o * in + i] = w;
            totals[o] += w;
            weight[((o / BLOCK * (in / 4) + i / 4) * BLOCK + o % BLOCK) * 4 + i % 4] = int8_t(w);
        }
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++)
            x[r * stride + i] = r % 8 == 0 ? (r % 16 ? -4.0f : 3.9999f) : normal();
    const Linear linear = {weight, scale.data(), totals.data(), bias.data(), in, out};
    std::vector<char> scratch(bytes_for(rows, width));
    multiply(linear, x.data(), width, stride, y.data(), out, rows, scratch.data());
    for (int64_t r = 0; r < rows; r++) {
        float largest = 0;
        for (int64_t i = 0; i < width; i++)
            largest = std::max(largest, std::fabs(x[r * stride + i]));
        const float step = rounded(largest * (1.0f / 127)), inverse = 1 / step;
        for (int64_t o = 0; o < out; o++) {
            int64_t sum = 0;
            for (int64_t i = 0; i < width; i++) {
                const double steps = double(x[r * stride + i]) * inverse;
                sum += int(std::nearbyint(steps)) * plain[o * in + i];
            }
            const float scaled = scale[o] * step;
            const float want = std::fma(float(int32_t(sum)), scaled, bias[o]), got = y[r * out + o];
            if (std::memcmp(&want, &got, 4)) fail("bytes", rows, width, out, got, want);
            uint32_t pattern;
            std::memcpy(&pattern, &got, 4);
            bits = (bits ^ pattern) * 1099511628211u;
        }
    }
    std::free(weight);
}

static void check_floats(int64_t rows, int64_t in, int64_t out) {
    float *weight = aligned<float>(in * out);
    std::vector<float> bias(out), x(rows * in), y(rows * out);
    for (float &one : bias) one = normal();
    for (float &one : x) one = normal();
    for (int64_t i = 0; i < in * out; i++) weight[i] = normal();
    const Linear linear = {weight, nullptr, nullptr, bias.data(), in, out};
    multiply(linear, x.data(), in, in, y.data(), out, rows, nullptr);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out; o++) {
            double want = bias[o], size = 1;
            for (int64_t i = 0; i < in; i++) {
                const double product = double(x[r * in + i]) *
                                       weight[(o / BLOCK * in + i) * BLOCK + o % BLOCK];
                want += product;
                size += std::fabs(product);
            }
            if (!(std::fabs(y[r * out + o] - want) < 1e-6 * size))
                fail("floats", rows, in, out, y[r * out + o], want);
        }
    std::free(weight);
}

static void check_attention(int64_t length, int64_t key, int64_t value, bool biased) {
    std::vector<float> q(key), k(length * key), v(length * value), bias(length);
    std::vector<float> weights(length), out(value);
    for (auto *part : {&q, &k, &v, &bias})
        for (float &one : *part) one = normal();
    auto of = [](int64_t size) { return [=](int64_t place) { return place * size; }; };
    attend(q.data(), k.data(), v.data(), biased ? bias.data() : nullptr, length, key, value, 0.3f,
           weights.data(), out.data(), of(key), of(value));
    std::vector<double> want(value, 0);
    double total = 0, top = -1e300;
    std::vector<double> scores(length, 0);
    for (int64_t s = 0; s < length; s++) {
        for (int64_t i = 0; i < key; i++) scores[s] += 0.3 * q[i] * k[s * key + i];
        if (biased) scores[s] += bias[s];
        top = std::max(top, scores[s]);
    }
    for (int64_t s = 0; s < length; s++) {
        const double weight = std::exp(scores[s] - top);
        total += weight;
        for (int64_t i = 0; i < value; i++) want[i] += weight * v[s * value + i];
    }
    for (int64_t i = 0; i < value; i++)
        if (!(std::fabs(out[i] - want[i] / total) < 1e-4))
            fail("attention", length, key, value, out[i], want[i] / total);
}

int main() {
    for (int64_t rows = 1; rows <= 40; rows++) {
        check_bytes(rows, 70, 48);
        check_floats(rows, 37, 80);
    }
    for (int64_t width : {4, 64, 512, 2048}) check_bytes(18, width, 144);
    check_floats(7, 2048, 16);
    for (int64_t length : {1, 2, 7, 33})
        for (bool biased : {false, true}) check_attention(length, 20, 12, biased);
    std::printf("%016llx\n", (unsigned long long)bits);
}
