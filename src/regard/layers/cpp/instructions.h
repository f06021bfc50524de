// The instruction set that the code is compiled for. Each has a header that says
//   Floats  a register of floats, ROWS x SUMS of which a tile of a product holds, and `add`, one
//           instruction where there is one: left to choose, gcc 13 rounds products of some tiles
//           before they are added and of others after, and
//   Bytes   how rows of 8-bit integers are multiplied: exactly, so that all give the same sums.
//
// Weights lie in blocks of BLOCK outputs. A tile is some rows by some blocks whose sums stay in
// registers. Bytes cuts a block into PARTS: for STEP inputs at a time, `weights` loads a part,
// `input` the activations of GROUP rows (as Entry, where the integer 0 is ZERO), `add` multiplies
// the two and adds to a Sum, and `store` writes the PARTS sums of a block as BLOCK integers a row.

#pragma once

#include <cstdint>
#include <cstring>

// Loops over sums are unrolled whole: only then do all sums have registers.
#define UNROLL _Pragma("GCC unroll 32")

namespace {

constexpr int BLOCK = 16;
constexpr int DEPTH = 64;  // 8-bit inputs are padded with zeros to a multiple of this

}  // namespace

#if defined(__AVX512F__) && defined(__AVX512BW__)
#include "avx512.h"
#elif defined(__AVX2__) && defined(__FMA__)
#include "avx2.h"
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include "neon.h"
#else
#include "generic.h"
#endif
