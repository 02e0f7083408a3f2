/* The interface of a task: where sequences come from. A task is one file that exports one `const struct
   task`: it reads data sets from a directory, or writes generated ones into it, and turns every example into
   token ids and a label. SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_TASK_H
#define TASKS_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/host.h"
#include "base/options.h"

struct words; /* words.h */

enum split { SPLIT_TRAIN, SPLIT_VALID, SPLIT_TEST, SPLIT_COUNT };
const char *split_name(enum split split); /* "train", "valid", "test" */

/* What must be known to build a model and to read the next file alike: kept in config.json under "task". */
struct task_facts {
    size_t vocab_size, num_classes, max_len; /* max_len in tokens, of any sequence */
    bool pairs;                              /* an example is two sequences */
    /* What is asked for is the token after each: no classes. With a vocabulary of words, `words`, owned, has
       the num_words = vocab_size - 1 of them; num_words 0: tokens are bytes. */
    bool next_token;
    size_t num_words;
    struct words *words;
    char **labels; /* (num_classes) text of each class, owned */
};
/* Copies `labels`. On failure *facts is empty. */
hashattn_status task_facts_new(struct host *host, size_t vocab_size, size_t max_len,
                               const char *const *labels, size_t num_classes, struct task_facts *facts);
void task_facts_free(struct host *host, struct task_facts *facts);

/* Examples of one split, in memory. Sequence s is tokens[offsets[s] .. offsets[s+1]), 1 <= its length <=
   max_len; example i is sequence i or, of pairs, sequences 2 i and 2 i + 1. With next_token a sequence has
   one token more, the last one, which is asked for and not given. */
struct dataset {
    uint16_t *tokens; /* ids >= 1; 0 is padding and never occurs */
    size_t *offsets;  /* (dataset_sequences + 1) */
    int32_t *labels;  /* (count) */
    size_t count;     /* examples */
    bool pairs, next_token;
    size_t num_cut;     /* examples that were cut to max_len */
    size_t num_unknown; /* of the tokens asked for, those that the vocabulary does not know */
};
static inline size_t dataset_sequences(const struct dataset *dataset)
{
    return dataset->count * (dataset->pairs ? 2 : 1);
}
/* Tokens of a sequence that a model is given. */
static inline size_t dataset_length(const struct dataset *dataset, size_t sequence)
{
    return dataset->offsets[sequence + 1] - dataset->offsets[sequence] - dataset->next_token;
}
void dataset_free(struct host *host, struct dataset *dataset);

/* How a task's default training looks; the trainer's options start from it. */
struct task_preset {
    size_t steps, batch, eval_every, warmup;
    double learning_rate;
    size_t layers, dim, heads, ffn;
    int64_t hash_bits;
    const char *pooling; /* "mean", "mean-padded" or "first" */
};

struct task {
    const char *name, *summary;
    const struct option_row *options; /* of reading and generating, ended by name NULL */
    size_t options_size;
    struct task_preset preset, lra; /* lra.steps = 0: there is no such preset */

    /* (optional) Writes train, valid and test files of `counts` examples into the existing directory (none
       where the count is 0); a file that is there already is INVALID. The example at (split, index) depends
       on (seed, split, index) alone. */
    hashattn_status (*generate)(struct host *host, const void *options, const char *directory,
                                const size_t *counts, uint64_t seed);
    /* Facts from the training file in the directory: labels sorted bytewise, vocabulary, largest length. On
     * failure *facts is empty. */
    hashattn_status (*facts)(struct host *host, const void *options, const char *directory,
                             struct task_facts *facts);
    /* One split, in the order of its file. Where the directory has no validation file, 10 % of the training
       file are cut out by (seed) instead (with next_token: off its end); where it has neither validation nor
       test, another 10 % are the test. A label that the facts do not know is BAD_FILE with the line number.
       On failure *dataset is empty. */
    hashattn_status (*load)(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset);
    /* (optional) A file of documents to predict: labels not needed (-1 where absent or not in the facts).
       path "-" is standard input. */
    hashattn_status (*load_file)(struct host *host, const void *options, const struct task_facts *facts,
                                 const char *path, struct dataset *dataset);
};

const struct task *const *task_all(void); /* ended by NULL */
const struct task *task_find(const char *name);

#endif
