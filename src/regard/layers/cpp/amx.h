// Many rows of bytes by AMX: tiles of 16 rows by 64 inputs, times 64 inputs by 16 outputs. Weights
// lie as its tiles want them. The integers are those of VNNI, whose entries it takes.

#pragma once

#include "instructions.h"

#if defined(__AMX_INT8__) && defined(__AVX512VNNI__) && defined(__linux__) && !defined(NO_AMX)
#define HAS_AMX 1
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr int64_t AMX_LEAST = 12, AMX_ROWS = 32, AMX_BLOCKS = 2;  // rows worth it, and of a tile

// The kernel gives a process its tiles only if it asks.
bool may_use_amx() {
    constexpr long REQUEST = 0x1023, TILE_DATA = 18;
    static const bool granted = syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
    return granted;
}

// Tiles 0 to 3: sums of two times 16 rows by two blocks; 4, 5: rows; 6, 7: weights.
void shape_tiles(int64_t rows) {
    struct alignas(64) {
        uint8_t palette = 1, start = 0, reserved[14] = {};
        uint16_t bytes[16] = {};
        uint8_t rows[16] = {};
    } shape;
    const uint8_t upper = uint8_t(rows < 16 ? rows : 16), lower = uint8_t(rows > 16 ? rows - 16 : 1);
    const uint8_t counts[8] = {upper, upper, lower, lower, upper, lower, 16, 16};
    for (int tile = 0; tile < 8; tile++) {
        shape.bytes[tile] = 64;
        shape.rows[tile] = counts[tile];
    }
    _tile_loadconfig(&shape);
}

// Sums of up to 32 rows, `stride` bytes apart, and two blocks of outputs.
void multiply_tiles(const int8_t *w, const uint8_t *x, int64_t stride, int64_t rows, int64_t in,
                    int32_t (*sums)[AMX_BLOCKS * BLOCK]) {
    const bool both = rows > 16;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < in; k += 64) {
        _tile_loadd(6, w + k * BLOCK, 64);
        _tile_loadd(7, w + (in + k) * BLOCK, 64);
        _tile_loadd(4, x + k, stride);
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(1, 4, 7);
        if (both) {
            _tile_loadd(5, x + 16 * stride + k, stride);
            _tile_dpbusd(2, 5, 6);
            _tile_dpbusd(3, 5, 7);
        }
    }
    _tile_stored(0, sums, sizeof(*sums));
    _tile_stored(1, sums[0] + BLOCK, sizeof(*sums));
    if (both) {
        _tile_stored(2, sums[16], sizeof(*sums));
        _tile_stored(3, sums[16] + BLOCK, sizeof(*sums));
    }
}

}  // namespace
#endif
