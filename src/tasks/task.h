/* The interface of a task, the source of sequences. A task is one file that exports one `const struct task`.
   It reads data sets from a directory, may generate them there, and turns every example into ids or rows of
   floats and the targets of its objectives.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKS_TASK_H
#define TASKS_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/file_map.h"
#include "base/host.h"
#include "base/options.h"
#include "base/quantiles.h"
#include "tasks/windows.h"

struct words;     /* words.h */
struct tokenizer; /* text/tokenizer.h */

struct pool;     /* base/pool.h */
struct calendar; /* io/dates/calendar.h */

enum split { SPLIT_TRAIN, SPLIT_VALID, SPLIT_TEST, SPLIT_COUNT };
const char *split_name(enum split split); /* "train", "valid", "test" */

enum { TASK_OBJECTIVES = 4, TASK_OBJECTIVE_NAME = 32, TASK_SHOWN = 48 };

/* What is needed to build a model and to read the next file the same way. Stored in config.json under
   "task". */
struct task_facts {
    size_t vocab_size; /* ids are below it; 0: sequences are rows of floats */
    size_t row_width;  /* floats per row; 0: sequences are ids */
    /* Rows that a decoder reads for an example; the last decoded_rows of them are predicted. 0: none */
    size_t decoder_rows, decoded_rows;
    size_t num_segments; /* segment ids are below it; 0: no segments */
    size_t max_len;      /* rows of the longest sequence */
    bool pairs;          /* an example is two sequences */
    bool bytes;          /* an id is a byte of text */
    /* Of runs of earlier versions: .tsv files have no header, splits are drawn without regard to labels, and
       evaluations take the first examples. */
    bool first_reading;
    /* What the model is trained for. Data sets have one set of targets per objective, in this order. */
    size_t num_objectives;
    struct task_objective {
        char name[TASK_OBJECTIVE_NAME]; /* from src/objectives */
        double weight;
        size_t num_outputs;  /* classes, floats per target, or number of ids that can be predicted */
        size_t first_output; /* the smallest of these ids */
        size_t positive;     /* the class, from 1, whose F1 is computed; 0: the second of two, or none */
        char selects[TASK_OBJECTIVE_NAME]; /* the metric that chooses the best model; empty: the objective's
                                              own choice. First objective only */
        struct quantiles quantiles;
    } objectives[TASK_OBJECTIVES];
    char **labels; /* (num_classes) text of each class, owned; NULL without classes */
    size_t num_classes;
    size_t num_words;            /* in `words`; 0: none */
    struct words *words;         /* a vocabulary of words, owned, or NULL */
    size_t num_tokens;           /* ids of `tokenizer`; 0: none */
    struct tokenizer *tokenizer; /* that made the ids, owned, or NULL */
    /* Columns of numbers of a table, standardised by (value - mean) / deviation; NULL: no table. */
    struct task_column {
        char *name; /* owned */
        double mean, deviation;
        double scale; /* of MASE: the mean size of the training part's differences over a season; 0: none */
    } * columns;      /* (num_columns), for each series in turn if there are several */
    size_t num_columns;
    char **series; /* (num_series) names, owned; NULL: the table is one series */
    size_t num_series;
    /* How the dates of the table were read, so that other files are read alike; empty: not recorded. */
    struct task_dates {
        char column[OPTION_TEXT_SIZE], freq[OPTION_TEXT_SIZE], format[OPTION_TEXT_SIZE];
    } dates;
    /* For a description, of newly read data only: which columns were read, or what a table has, and the
       beginnings of documents of the first and the last label, or of the least and the greatest number.
       Owned; NULL: not known. */
    char *read;
    char (*shown)[TASK_SHOWN]; /* (2) */
};
/* Adds an objective of weight 1. */
void task_facts_add(struct task_facts *facts, const char *objective, size_t num_outputs, size_t first_output);
/* The facts of a task that classifies sequences of ids. Copies `labels`. On failure *facts is empty. */
hashattn_status task_facts_new(struct host *host, size_t vocab_size, size_t max_len,
                               const char *const *labels, size_t num_classes, struct task_facts *facts);
void task_facts_free(struct host *host, struct task_facts *facts);
/* Names for a message, "a, b, c", of which those that do not fit `size` bytes are "...". */
void task_names_list(char *const *names, size_t count, char *list, size_t size);

/* The targets of one objective. */
struct target_set {
    enum target_kind {
        TARGETS_EXAMPLE, /* one per example */
        TARGETS_ROW,     /* one per row */
        TARGETS_NEXT,    /* for each row the id after it; not stored here */
        TARGETS_MASKED,  /* for each row the id that masking hid; drawn when a batch is packed */
    } kind;
    size_t width;  /* floats per target; 0: targets are ids */
    uint32_t *ids; /* (targets) */
    float *floats; /* (targets, width); NULL if sparse */
    /* Sparse: floats are 0 or 1, and only the places of ones are kept, because a file may have many labels
       and few per example. TARGETS_EXAMPLE only. */
    bool sparse;
    struct target_ones {
        size_t first, count; /* range of `places`, which ascend in it */
    } * ones;                /* (targets) */
    uint32_t *places;        /* from 0, below width */
    bool weighted;
    float *weights; /* (targets), >= 0; 0: no loss for this target. NULL: all 1 */
    bool scaled;    /* a step divides its losses by the number of targets of weight above 0, not by the sum of
                       the    weights, which in a small batch would cancel those of rare classes */
};

/* How TARGETS_MASKED are drawn (train/masking.h). */
struct mask_rules {
    double share;     /* of the rows of an example that may be masked */
    uint32_t mask_id; /* replaces most of the hidden ids */
    size_t num_ids;   /* random ids are below it */
    uint8_t *fixed;   /* (num_ids), owned; 1: this id is never hidden, and never drawn as a random one */
};

/* The examples of one split, in memory or in a mapped file. Sequence s is rows offsets[s] .. offsets[s + 1),
   with 1 <= length <= max_len. Example i is sequence i or, for pairs, sequences 2 i and 2 i + 1. No id is
   special, because nothing is padded. */
struct dataset {
    uint32_t *ids;    /* (rows), or NULL */
    float *floats;    /* (rows, row_width), or NULL, as for windows */
    size_t row_width; /* 0: sequences are ids */
    bool segmented;
    uint8_t *segments; /* (rows), or NULL */
    size_t *offsets;   /* (dataset_sequences + 1) */
    size_t count;      /* number of examples */
    bool pairs;
    bool next; /* each sequence has one more id at its end, a target only (TARGETS_NEXT) */
    size_t num_targets;
    struct target_set targets[TASK_OBJECTIVES];
    struct mask_rules masks; /* of TARGETS_MASKED */
    size_t num_cut;          /* number of examples cut to max_len */
    bool drawn;              /* the split was cut out of the training file */
    bool absent;        /* of a failed `load`: there is no file of this split, and nothing to cut it out of */
    size_t num_unknown; /* number of targets that are not in the vocabulary */
    /* Windows of a series instead of `floats` and the floats of targets[0], the only set (TARGETS_EXAMPLE):
       example i is example i of the windows. */
    struct windows windows;
    /* The file that holds the arrays; zeros: they are allocated. Its reader has checked ids (< masks.num_ids)
       and segments (0 and 1) and computed the hash of everything, so that it is read once. */
    struct file_map map;
    uint64_t hash;
};
static inline size_t dataset_sequences(const struct dataset *dataset)
{
    return dataset->count * (dataset->pairs ? 2 : 1);
}
/* Rows of a sequence that the model reads. */
static inline size_t dataset_length(const struct dataset *dataset, size_t sequence)
{
    return dataset->offsets[sequence + 1] - dataset->offsets[sequence] - dataset->next;
}
void dataset_free(struct host *host, struct dataset *dataset);
/* Writes the floats (width) of a target of a set that has floats, sparse or not. */
void target_read(const struct target_set *set, size_t target, float *floats);

/* Where an example of a file comes from. Valid during the call. */
struct document_name {
    const char *file; /* "-": standard input */
    const char *id;   /* (id_size) that its line has, or NULL */
    size_t id_size;
    bool id_is_number;
};

struct unread_files; /* documents/document_unread.h */
struct given_texts;  /* documents/given_texts.h */

/* Who gets the examples of a file that is read in parts. */
struct dataset_stream {
    size_t batch;                /* examples at a time, at least 1; the last part may have fewer */
    bool lines;                  /* of a .txt file each line is a document */
    struct unread_files *unread; /* (optional) gets what folders hold beside documents (document_unread.h) */
    /* May take the arrays of a part by setting *part to zeros. A failure ends the reading. */
    hashattn_status (*visit)(struct host *host, void *context, struct dataset *part);
    /* (optional) Gets the name of each document, in order, before the part that has it. */
    hashattn_status (*name)(struct host *host, void *context, const struct document_name *name);
    /* (optional) Gets a bad line, with its place in the host's message; the reading goes on. */
    hashattn_status (*skip)(struct host *host, void *context);
    void *context;
};

/* A training of a task; the options of the model and the trainer start from it. */
struct task_preset {
    const char *name; /* "lra"; NULL: the default */
    size_t steps, batch, eval_every, warmup;
    double learning_rate;
    size_t layers, dim, heads, ffn;
    const char *pooling; /* "mean", "mean-padded" or "first" */
    bool causal;
    /* "OPTION=VALUE ..." or NULL: for every mechanism that has the option, other options of the model and
       of training, and those of the task. */
    const char *attention, *model, *training, *task;
    const char *plan; /* the heads (models/head_plan.h); NULL: those that were chosen */
};

/* The bits of a hash, of the mechanisms for which they are the paper's tau. Others have an option of this
   name too. */
#define YOSO_BITS(bits) "yoso.hash_bits=" #bits " yoso-e.hash_bits=" #bits

/* The rest of the preset "lra" of every task: the released trainer does not clip, and lets OneCycleLR move
   beta1. */
#define LRA_MODEL    "dropout=0.1"
#define LRA_TRAINING "clip=0 cycle_momentum=true"

/* In the preset lra-small, where the mean of the rows decides by few of them: dropout shifts the mean, so
   that a model 75 % right in training was 60 % right in evaluation. */
#define LRA_SMALL_MODEL "dropout=0"

/* `unread` of tasks that classify examples. */
#define UNREAD_BY_CLASSIFIERS "decoder_layers distil cutoffs div_value scale_words"

/* What presets share, as fields of struct task_preset; a task adds its own. */
#define ENCODER(of_layers, of_dim, of_heads, of_ffn)                                                         \
    .layers = (of_layers), .dim = (of_dim), .heads = (of_heads), .ffn = (of_ffn)
#define SMALL_ENCODER ENCODER(2, 64, 2, 128)
#define LRA_PRESET                                                                                           \
    .name = "lra", .learning_rate = 1e-4, SMALL_ENCODER, .pooling = "mean-padded", .model = LRA_MODEL,       \
    .training = LRA_TRAINING
#define LRA_SMALL_PRESET .name = "lra-small", .batch = 32, .eval_every = 100, SMALL_ENCODER

/* Texts that a task turns into its data. */
struct task_sources {
    const char *const *files; /* (num_files) of the training set */
    size_t num_files;         /* at least one */
    const char *valid, *test; /* files; NULL: see the options of the task */
    const char *tokenizer;    /* directory */
    uint64_t seed;
    struct pool *pool;
    /* Called now and then with bytes of text; total is 0 if unknown. Returns true to stop. May be NULL. */
    bool (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
};
struct task_prepared {
    size_t examples[SPLIT_COUNT], tokens[SPLIT_COUNT];
    size_t documents; /* in all splits */
    size_t dropped;   /* tokens in no example */
};

struct task {
    const char *name, *summary;
    const struct option_row *options; /* for reading and generating, ended by name NULL */
    size_t options_size;
    struct task_preset preset;
    const char *unread; /* options of the model and of training that no model of this task reads: "a b c" */
    const struct task_preset *presets; /* by name, ended by name NULL; or NULL */
    bool lone_files;                   /* in place of a directory, a file can be given */
    bool fine_tunes; /* training that starts from a trained encoder has the usual options of fine-tuning */

    /* (optional) Writes train, valid and test files of `counts` examples into the existing directory, none
       for a count of 0. A file that exists already is INVALID. (seed, split, index) determines an example. */
    hashattn_status (*generate)(struct host *host, const void *options, const char *directory,
                                const size_t *counts, uint64_t seed);
    /* (optional) Writes the files that `facts` and `load` read into the existing directory, from texts of the
       user. options: of the rows prepare_options. A file that exists already is INVALID. Does not depend on
       the number of threads. INTERRUPTED: the callback asked to stop; no file is left. */
    const struct option_row *prepare_options;
    size_t prepare_options_size;
    hashattn_status (*prepare)(struct host *host, const void *options, const struct task_sources *sources,
                               const char *directory, struct task_prepared *prepared);
    /* Reads the facts from the training file in the directory: labels sorted by bytes, vocabulary, largest
       length. `given` is the tokenizer of the stored model that training starts from, or NULL; a task whose
       ids are tokens must use it, and facts->tokenizer == given then says that *facts owns it. On failure
       *facts is empty, and `given` belongs to the caller. */
    hashattn_status (*facts)(struct host *host, const void *options, const char *directory,
                             struct tokenizer *given, struct task_facts *facts);
    /* Reads one split, in the order of its file. Without a validation file, 10 % of the training file, chosen
       by (seed) from every label alike, take its place (for one text: its end); with neither validation nor
       test, another 10 % are the test. SPLIT_COUNT, of a task with lone files: all of the file. A label that
       is not in the facts is BAD_FILE with the line number. On failure *dataset is empty but for `absent`. */
    hashattn_status (*load)(struct host *host, const void *options, const struct task_facts *facts,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset);
    /* (optional) As `load`, of a task whose data sets are windows; SPLIT_COUNT: the one window that ends with
       the file, or with each of its series. *calendar: the dates of the file; *first: its row that is time 0
       of the windows, if it is one series. Without load_dated nothing is forecast. */
    hashattn_status (*load_dated)(struct host *host, const void *options, const struct task_facts *facts,
                                  const char *directory, enum split split, struct dataset *dataset,
                                  struct calendar *calendar, size_t *first);
    /* (optional) Passes the documents of a file to predict on in parts, in order, so that memory does not
       grow with the file. Labels are optional (-1 if absent or not in the facts). path "-" is standard
       input. */
    hashattn_status (*stream_file)(struct host *host, const void *options, const struct task_facts *facts,
                                   const char *path, const struct dataset_stream *stream);
    /* (optional) The same for texts in memory, at least one. INVALID: as given_texts_visit. */
    hashattn_status (*stream_texts)(struct host *host, const void *options, const struct task_facts *facts,
                                    const struct given_texts *texts, const struct dataset_stream *stream);
};

extern const struct task *const task_table[]; /* all tasks, ended by NULL (task_table.c) */
const struct task *task_find(const char *name);
/* NULL: the task has no preset of this name. */
const struct task_preset *task_preset_find(const struct task *task, const char *name);

#endif
