/* Selects the table of slots; no other file does. A caller may name a table. The environment variable
   HASHATTN_ISA caps all requests, so that a test, valgrind or a user can run a narrower table. Nothing is
   cached: a context asks once. The system is asked only for a table that is wanted and not above the cap.
   KERNELS_ISAS is ISA(NAME) for each instruction set of this architecture except ref, narrowest first
   (cmake/isas.cmake).
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu.h"
#include "kernels/isa.h"

#define ISA(name) extern const struct isa isa_##name;
KERNELS_ISAS
#undef ISA

#define ISA(name) &isa_##name,
static const struct isa *const isas[] = {&isa_ref, KERNELS_ISAS};
#undef ISA

#define ISA(name) #name,
static const char *const names[] = {"ref", KERNELS_ISAS NULL};
#undef ISA

#define ISA(name) #name ", "
#define ALLOWED   "ref, " KERNELS_ISAS "auto"

enum { NUM_ISAS = sizeof isas / sizeof isas[0] };

/* Returns NUM_ISAS if the name is unknown. */
static size_t isa_of(const char *name)
{
    size_t isa = 0;
    while (isa < NUM_ISAS && strcmp(names[isa], name) != 0)
        isa++;
    return isa;
}

static bool runs(const struct isa *isa, uint64_t features)
{
    return (isa->needs & ~features) == 0 && (isa->granted == NULL || isa->granted());
}

const struct kernels *kernels_named(const char *name, const char **why)
{
    const char *cap = getenv("HASHATTN_ISA");
    bool uncapped = cap == NULL || cap[0] == '\0' || strcmp(cap, "auto") == 0;
    size_t allowed = uncapped ? NUM_ISAS - 1 : isa_of(cap);
    if (allowed == NUM_ISAS) {
        *why = "the environment variable HASHATTN_ISA is not one of " ALLOWED;
        return NULL;
    }
    uint64_t features = cpu_features();
    if (name == NULL || strcmp(name, "auto") == 0) {
        while (!runs(isas[allowed], features)) /* ref runs everywhere */
            allowed--;
        return &isas[allowed]->kernels;
    }
    size_t wanted = isa_of(name);
    if (wanted == NUM_ISAS)
        *why = "the instruction set is not one of " ALLOWED;
    else if (wanted > allowed)
        *why = "the environment variable HASHATTN_ISA forbids that instruction set";
    else if (!runs(isas[wanted], features))
        *why = "this processor or its operating system does not run that instruction set";
    else
        return &isas[wanted]->kernels;
    return NULL;
}

const char *const hash_projection_names[] = {"auto", "f32", "int16-dp", "bf16-dp", "int8-dp", NULL};

enum hash_projection hash_projection_of(const struct kernels *kernels, enum hash_projection wanted)
{
    /* int8-dp is faster, but its rounding rotates vectors enough to change results (docs/decisions). */
    (void)kernels;
    return wanted == HASH_AUTO ? HASH_INT16_DP : wanted;
}

const char *const *kernels_names(void)
{
    return names;
}
