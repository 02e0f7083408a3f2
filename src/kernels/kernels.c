/* The only place that decides which table of slots runs. A name asks for one table; the environment variable
   HASHATTN_ISA caps all of them, so that a test, valgrind or a curious user can see a narrower one run.
   Nothing is cached: a context asks once. SPDX-License-Identifier: Apache-2.0 */
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/isa.h"
#include "kernels/tables.h"

#if defined(__AVX2__)
#error "kernels.c decides what may run, so it must run everywhere: build it for the baseline"
#endif

static const char *const names[ISA_COUNT + 1] = {"ref", "avx2", "avx512", "avx512bf16", NULL};

/* Row w: every table up to the ISA w, ended by NULL. */
static const struct kernels *const tables[ISA_COUNT][ISA_COUNT + 1] = {
    {&kernels_ref},
    {&kernels_ref, &kernels_avx2},
    {&kernels_ref, &kernels_avx2, &kernels_avx512},
    {&kernels_ref, &kernels_avx2, &kernels_avx512, &kernels_avx512bf16},
};

/* ISA_COUNT: no such name. */
static enum isa isa_of(const char *name)
{
    enum isa isa = ISA_REF;
    while (isa < ISA_COUNT && strcmp(names[isa], name) != 0)
        isa++;
    return isa;
}

/* HASHATTN_ISA: the widest allowed; ISA_COUNT when it says nothing known, and *known tells which. */
static enum isa cap(bool *known)
{
    const char *text = getenv("HASHATTN_ISA");
    bool unset = text == NULL || text[0] == '\0' || strcmp(text, "auto") == 0;
    enum isa isa = unset ? ISA_COUNT - 1 : isa_of(text);
    *known = isa < ISA_COUNT;
    return isa;
}

const struct kernels *kernels_named(const char *name, const char **why)
{
    bool known;
    enum isa allowed = cap(&known), here = isa_widest();
    if (!known) {
        *why = "the environment variable HASHATTN_ISA is not one of ref, avx2, avx512, avx512bf16, auto";
        return NULL;
    }
    if (name == NULL || strcmp(name, "auto") == 0)
        return tables[ISA_COUNT - 1][here < allowed ? here : allowed];
    enum isa wanted = isa_of(name);
    if (wanted == ISA_COUNT)
        *why = "the instruction set is not one of ref, avx2, avx512, avx512bf16, auto";
    else if (wanted > here)
        *why = "this processor or its operating system does not run that instruction set";
    else if (wanted > allowed)
        *why = "the environment variable HASHATTN_ISA forbids that instruction set";
    else
        return tables[ISA_COUNT - 1][wanted];
    return NULL;
}

const struct kernels *const *kernels_all(void)
{
    bool known;
    enum isa allowed = cap(&known), here = isa_widest();
    if (!known)
        allowed = ISA_REF;
    return tables[here < allowed ? here : allowed];
}

const char *const hash_projection_names[] = {"auto", "f32", "int16-dp", "bf16-dp", "int8-dp", NULL};

enum hash_projection hash_projection_of(const struct kernels *kernels, enum hash_projection wanted)
{
    /* int8-dp is faster, but turns vectors far enough to be seen (docs/decisions). */
    (void)kernels;
    return wanted == HASH_AUTO ? HASH_INT16_DP : wanted;
}

const char *const *kernels_names(void)
{
    return names;
}
