/* The build passes HASHATTN_COMMIT, "" outside a git repository, and HASHATTN_COMPILER (CMakeLists.txt).
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/output/facts_out.h"

#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef HASHATTN_COMMIT /* a compiler that only checks this file */
#define HASHATTN_COMMIT   ""
#define HASHATTN_COMPILER ""
#endif

struct facts {
    hashattn_description is;
    char system[300]; /* "Linux 6.1.0 x86_64, glibc 2.36" */
};

static struct facts find_facts(const hashattn_context *context)
{
    struct facts facts = {.is = {.struct_size = sizeof facts.is}};
    hashattn_context_describe(context, &facts.is);
    struct utsname name;
    size_t used = 0;
    if (uname(&name) == 0)
        used = (size_t)snprintf(facts.system, sizeof facts.system, "%.80s %.80s %.40s", name.sysname,
                                name.release, name.machine);
#ifdef _CS_GNU_LIBC_VERSION
    char libc[60];
    if (confstr(_CS_GNU_LIBC_VERSION, libc, sizeof libc) > 0)
        snprintf(facts.system + used, sizeof facts.system - used, ", %s", libc);
#endif
    return facts;
}

static const char *or_unknown(const char *text)
{
    return text[0] == '\0' ? "unknown" : text;
}

void facts_words(const hashattn_context *context)
{
    const struct facts facts = find_facts(context);
    const hashattn_description *is = &facts.is;
    printf("hashattn %s\n\n", is->version);
    printf("commit            %s\n", or_unknown(HASHATTN_COMMIT));
    printf("compiler          %s\n", HASHATTN_COMPILER);
    printf("libraries         %s\n", is->libraries);
    printf("system            %s\n", or_unknown(facts.system));
    printf("processor         %s, %d thread%s\n", or_unknown(is->processor), is->threads,
           is->threads == 1 ? "" : "s");
    printf("caches            %s\n", or_unknown(is->caches));
    printf("products          %s, %s; bf16 %s; hash projection %s\n", is->products, is->precision, is->bf16,
           is->projection);
    printf("instruction set   %s\n", is->isa);
    for (const char *const *name = hashattn_isa_names(); *name != NULL; name++) {
        const char *why = hashattn_isa_refusal(*name);
        printf("  %-14s  %s\n", *name, why == NULL ? "runs here" : why);
    }
}

void facts_json(struct json_out *json, const hashattn_context *context)
{
    const struct facts facts = find_facts(context);
    const hashattn_description *is = &facts.is;
    json_out_text(json, "version", is->version);
    json_out_text(json, "commit", HASHATTN_COMMIT);
    json_out_text(json, "compiler", HASHATTN_COMPILER);
    json_out_text(json, "libraries", is->libraries);
    json_out_text(json, "system", facts.system);
    json_out_text(json, "processor", is->processor);
    json_out_count(json, "threads", (uint64_t)is->threads);
    json_out_text(json, "caches", is->caches);
    json_out_text(json, "isa", is->isa);
    json_out_text(json, "projection", is->projection);
    json_out_text(json, "precision", is->precision);
    json_out_text(json, "bf16", is->bf16);
    json_out_text(json, "products", is->products);
    json_out_array(json, "instruction_sets");
    for (const char *const *name = hashattn_isa_names(); *name != NULL; name++) {
        json_out_object(json, NULL);
        json_out_text(json, "name", *name);
        json_out_flag(json, "runs", hashattn_isa_refusal(*name) == NULL);
        json_out_text(json, "why_not", hashattn_isa_refusal(*name));
        json_out_end_object(json);
    }
    json_out_end_array(json);
}
