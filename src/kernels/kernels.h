/* The table of compute slots: one function pointer for each loop of the library that is worth vector
   instructions, grouped by stage. The header of a stage, slots_STAGE.h, has the contracts of its slots and
   their argument structs. ref.c defines the results (plain loops, sums in double if a slot is TOLERANT). Each
   SIMD body is written once and compiled for every instruction set.
   Rules for all slots:
   EXACT: the same bits on every instruction set. The order of each sum is part of the contract.
   TOLERANT: the order of each sum is free. Within one table every slot is deterministic. The result for a row
   depends only on that row's inputs and the widths, never on the number of rows in the call, unless the slot
   says otherwise.
   Rows of a pointer followed by `ld_` are that many floats apart. No alignment is needed unless a slot says
   so. Outputs never overlap inputs unless a slot says "in place". No slot checks arguments, allocates or
   fails.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include "kernels/dtype.h"
#include "kernels/slots_bf16.h"
#include "kernels/slots_chance.h"
#include "kernels/slots_decode.h"
#include "kernels/slots_features.h"
#include "kernels/slots_hash.h"
#include "kernels/slots_layers.h"
#include "kernels/slots_pairs.h"
#include "kernels/slots_peak.h"
#include "kernels/slots_rows.h"
#include "kernels/slots_softmax.h"
#include "kernels/slots_tables.h"
#include "kernels/slots_tiles.h"

struct kernels {
    const char *name; /* of the instruction set; "ref": plain loops */
    struct chance_slots chance;
    struct hash_slots hash;
    struct tables_slots tables;
    struct pairs_slots pairs;
    struct tiles_slots tiles;
    struct bf16_slots bf16;
    struct softmax_slots softmax;
    struct rows_slots rows;
    struct features_slots features;
    struct decode_slots decode;
    struct layers_slots layers;
    struct peak_slots peak;
};

/* Names of enum hash_projection, terminated by NULL. */
extern const char *const hash_projection_names[];

/* Resolves HASH_AUTO to the fastest projection that is as good as float32; returns any other `wanted`
   unchanged. */
enum hash_projection hash_projection_of(const struct kernels *kernels, enum hash_projection wanted);

/* The table of the instruction set `name`: "ref", or one of this architecture ("avx2 avx512 avx512bf16
   amx" on x86, "neon" on AArch64). NULL or "auto" selects the widest that runs here. The environment variable
   HASHATTN_ISA caps named requests too.
   Returns NULL if the name is unknown, the set is above the cap, or the processor or operating system cannot
   run it; *why is then a constant sentence. */
const struct kernels *kernels_named(const char *name, const char **why);

/* Names of all tables that are built in, narrowest first, terminated by NULL. Some may not run on this
   machine. */
const char *const *kernels_names(void);

#endif
