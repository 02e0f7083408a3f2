/* The mechanism of every head of every layer. As text, "LIST/LIST/...", one list per layer from the first on;
   the last list applies to all further layers. LIST is "NAME*HEADS,NAME*HEADS,...", the heads of a layer in
   order. Names without a number share the remaining heads equally: "lha" is lha everywhere, "local*5,lha*5"
   both in every layer, "local/local,lha" gives the first layer a list of its own. A mechanism has one set of
   options in all layers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef MODELS_HEAD_PLAN_H
#define MODELS_HEAD_PLAN_H

#include "nn/attention_layer.h"

enum { PLAN_TEXT = 256, PLAN_MECHANISMS = 8, PLAN_LISTS = 32 };

struct head_plan {
    char text[PLAN_TEXT];
    size_t num_used; /* mechanisms, in order of their first mention in the text */
    struct planned {
        const struct mechanism *mechanism;
        void *options; /* owned by the creator of the plan */
    } used[PLAN_MECHANISMS];
    size_t num_lists;
    struct head_list {
        size_t num_groups;
        struct {
            size_t used, heads; /* index in `used`; number of heads, 0: a share of the rest */
        } groups[HEAD_GROUPS];
    } lists[PLAN_LISTS];
};

/* The plan that the text describes, every mechanism with its default options. A wrong text is INVALID, and
   leaves nothing to free. The options belong to the plan: head_plan_free frees them. */
hashattn_status head_plan_new(struct host *host, const char *text, struct head_plan *plan);
void head_plan_free(struct host *host, struct head_plan *plan);
/* A copy with options of its own. */
hashattn_status head_plan_copy(struct host *host, const struct head_plan *plan, struct head_plan *copy);

/* True if a mechanism of the plan has the option: "num_buckets" matches any mechanism, "lha.num_buckets"
   lha. */
bool head_plan_has(const struct head_plan *plan, const char *name);
/* Sets the option in every mechanism that the name matches. On failure sets it in none. */
hashattn_status head_plan_set(struct host *host, struct head_plan *plan, const char *name, const char *text);
/* As head_plan_set, for a plan in use: take() makes what follows from it. If that fails, the options have
   their old values again. */
typedef hashattn_status head_plan_take(struct host *host, void *owner);
hashattn_status head_plan_change(struct host *host, struct head_plan *plan, const char *name,
                                 const char *text, head_plan_take *take, void *owner);

/* Sets "OPTION=VALUE OPTION=VALUE ..." in every mechanism that has the option; text may be NULL. */
hashattn_status head_plan_preset(struct host *host, struct head_plan *plan, const char *text);

/* Writes the groups of a layer (HEAD_GROUPS) in a model with `heads` heads. Returns their number, or 0 if the
   list does not fit that many heads. */
size_t head_plan_groups(const struct head_plan *plan, size_t layer, size_t heads, struct head_group *groups);
/* INVALID, with the numbers, if a list does not fit `heads` or there are more lists than layers. */
hashattn_status head_plan_check(struct host *host, const struct head_plan *plan, size_t layers, size_t heads);
/* REFUSED if a mechanism of the plan has no backward pass. */
hashattn_status head_plan_check_backward(struct host *host, const struct head_plan *plan);

#endif
