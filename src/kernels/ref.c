/* The table "ref": every slot as the plain loop that its contract describes, written for clarity, not speed.
   It defines the results that the other tables are tested against, and runs on any processor. An EXACT slot
   follows the order of its contract with fmaf; a TOLERANT one sums in double. Each ref_*.h has the loops of
   one stage and ends with their rows of the table.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

#include "kernels/ref_bf16.h"
#include "kernels/ref_chance.h"
#include "kernels/ref_decode.h"
#include "kernels/ref_features.h"
#include "kernels/ref_hadamard.h"
#include "kernels/ref_hash.h"
#include "kernels/ref_layers.h"
#include "kernels/ref_pairs.h"
#include "kernels/ref_peak.h"
#include "kernels/ref_pool.h"
#include "kernels/ref_rows.h"
#include "kernels/ref_softmax.h"
#include "kernels/ref_tables.h"
#include "kernels/ref_tiles.h"

const struct isa isa_ref = {
    .needs = 0,
    .kernels =
        {
            .name = "ref",
            REF_BF16,
            REF_CHANCE,
            REF_DECODE,
            REF_FEATURES,
            REF_HADAMARD,
            REF_HASH,
            REF_LAYERS,
            REF_PAIRS,
            REF_PEAK,
            REF_POOL,
            REF_ROWS,
            REF_SOFTMAX,
            REF_TABLES,
            REF_TILES,
        },
};
