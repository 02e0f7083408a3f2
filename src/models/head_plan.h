/* Which mechanism every head of every layer has. As text, "LIST/LIST/...", a list for each layer from the
   first on, the last one for all layers that follow; LIST is "NAME*HEADS,NAME*HEADS,...", the heads of a
   layer in order. Names without a number share equally what the others leave: so "lha" is lha everywhere,
   "local*5,lha*5" both in every layer, "local/local,lha" a first layer of its own. A mechanism has one set of
   options, wherever it stands. SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_HEAD_PLAN_H
#define MODELS_HEAD_PLAN_H

#include "nn/self_attention.h"

enum { PLAN_TEXT = 256, PLAN_MECHANISMS = 8, PLAN_LISTS = 32 };

struct head_plan {
    char text[PLAN_TEXT];
    size_t num_used; /* mechanisms, in the order in which the text names them first */
    struct planned {
        const struct mechanism *mechanism;
        void *options; /* owned by whoever made the plan */
    } used[PLAN_MECHANISMS];
    size_t num_lists;
    struct head_list {
        size_t num_groups;
        struct {
            size_t used, heads; /* index; 0: a share */
        } groups[HEAD_GROUPS];
    } lists[PLAN_LISTS];
};

/* The plan that the text says, every mechanism with its default options; INVALID, and nothing to free, where
   it says none. head_plan_free takes the options. */
hashattn_status head_plan_new(struct host *host, const char *text, struct head_plan *plan);
void head_plan_free(struct host *host, struct head_plan *plan);
/* One mechanism for all heads, with options of the caller. */
struct head_plan head_plan_of(const struct mechanism *mechanism, void *options);
/* The same plan with options of its own. */
hashattn_status head_plan_copy(struct host *host, const struct head_plan *plan, struct head_plan *copy);

/* Whether a mechanism of the plan has the option: "num_buckets" any, "lha.num_buckets" lha. */
bool head_plan_has(const struct head_plan *plan, const char *name);
/* Sets it in every mechanism that it names, or says why not, and then in none. */
hashattn_status head_plan_set(struct host *host, struct head_plan *plan, const char *name, const char *text);

/* Sets "OPTION=VALUE OPTION=VALUE ..." in every mechanism that has the option; text may be NULL. */
hashattn_status head_plan_preset(struct host *host, struct head_plan *plan, const char *text);

/* The groups of a layer (HEAD_GROUPS) in a model of so many heads; their number, or 0: the list is not one of
   so many heads. */
size_t head_plan_groups(const struct head_plan *plan, size_t layer, size_t heads, struct head_group *groups);
/* INVALID, with the numbers, where a list is not one of so many heads or there are more lists than layers. */
hashattn_status head_plan_check(struct host *host, const struct head_plan *plan, size_t layers, size_t heads);

#endif
