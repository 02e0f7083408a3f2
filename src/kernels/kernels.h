/* The table of compute slots: every loop of the library that is worth a vector instruction, one function
   pointer each, grouped by stage. The header of a stage, slots_STAGE.h, has the contracts of its slots and
   their argument structs. ref.c is the truth (plain loops, sums in double where a slot is TOLERANT); the SIMD
   body is written once and compiled per instruction set. The rules for all slots:
   EXACT: the same bits on every instruction set, because the order of each sum is part of the contract.
   TOLERANT: the order of each sum is free. Within one table every slot is deterministic, and what it writes
   for one row depends on that row's inputs and the widths alone, never on how many rows stand beside it,
   unless the slot says otherwise. A pointer followed by `ld_` has rows that many floats apart; no alignment
   is needed unless a slot says so; outputs never overlap inputs unless a slot says "in place". No slot checks
   arguments, allocates or fails. SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include "kernels/dtype.h"
#include "kernels/slots_bf16.h"
#include "kernels/slots_chance.h"
#include "kernels/slots_hash.h"
#include "kernels/slots_layers.h"
#include "kernels/slots_pairs.h"
#include "kernels/slots_peak.h"
#include "kernels/slots_rows.h"
#include "kernels/slots_softmax.h"
#include "kernels/slots_tables.h"
#include "kernels/slots_tiles.h"

struct kernels {
    const char *name; /* of its instruction set; "ref": plain loops */
    struct chance_slots chance;
    struct hash_slots hash;
    struct tables_slots tables;
    struct pairs_slots pairs;
    struct tiles_slots tiles;
    struct bf16_slots bf16;
    struct softmax_slots softmax;
    struct rows_slots rows;
    struct layers_slots layers;
    struct peak_slots peak;
};

/* Words of enum hash_projection, ended by NULL. */
extern const char *const hash_projection_names[];

/* What `wanted` means with this table: itself, and for HASH_AUTO the fastest that is as good as float32. */
enum hash_projection hash_projection_of(const struct kernels *kernels, enum hash_projection wanted);

/* The table of the instruction set `name`: "ref", or one of this architecture ("avx2 avx512 avx512bf16" on
   x86); NULL or "auto": the widest that runs here. The environment variable HASHATTN_ISA caps requests by
   name too. NULL when the name is unknown, above the cap, or this processor or its operating system cannot
   run it; then *why is a constant sentence. */
const struct kernels *kernels_named(const char *name, const char **why);

/* Names of all tables that are built in, whether they run here or not, narrowest first, ended by NULL. */
const char *const *kernels_names(void);

#endif
