/* The words of AMX: eight tiles of up to 16 rows of 64 bytes. A word takes the number of a tile as a literal.
   Every word clobbers memory, because gcc 12 may move a store of the program past its own intrinsics. A slot
   begins with tiles_open and ends with tiles_close: tiles in use cost 8 KiB at each thread switch.
   Intel, Software Developer's Manual, volume 2.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_VEC_TILES_AMX_H
#define KERNELS_VEC_TILES_AMX_H

#include <stdint.h>

#if !defined(__AMX_TILE__) || !defined(__AMX_INT8__) || !defined(__AMX_BF16__)
#error "vec_tiles_amx.h needs -mamx-tile -mamx-int8 -mamx-bf16"
#endif

enum { TILES = 8, TILE_ROWS = 16, TILE_BYTES = 64, TILE_SIZE = TILE_ROWS * TILE_BYTES };

/* The operand of LDTILECFG: 64 bytes. */
struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
};

/* All eight tiles whole. */
static const struct tile_shapes tiles_whole = {
    .palette = 1,
    .bytes = {TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES},
    .rows = {TILE_ROWS, TILE_ROWS, TILE_ROWS, TILE_ROWS, TILE_ROWS, TILE_ROWS, TILE_ROWS, TILE_ROWS}};

/* Also clears the tiles. */
static inline void tiles_open(const struct tile_shapes *shapes)
{
    __asm__ volatile("ldtilecfg %0" ::"m"(*shapes) : "memory");
}

static inline void tiles_close(void)
{
    __asm__ volatile("tilerelease" ::: "memory");
}

/* Rows of a tile are `step` bytes apart. */
#define TILE_LOAD(tile, from, step)                                                                          \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"((size_t)(step)) : "memory")
#define TILE_STORE(to, step, tile)                                                                           \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"((size_t)(step)) : "memory")
#define TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile ::: "memory")

/* sum += A B. A has rows of groups of four bytes or of pairs of bfloat16; row k of B has group k of every
   column. The names say what the bytes of A and of B are: s signed, u unsigned. */
#define TILE_DOT(how, sum, a, b)                                                                             \
    __asm__ volatile("tdp" #how " %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::: "memory")

#endif
