/* What test_abi_first.c uses of the headers of the first version of the ABI (HASHATTN_0). Never changed:
   programs that were compiled with them run with every later library of the same SONAME.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_FIRST_VERSION_H
#define HASHATTN_FIRST_VERSION_H

#include <stddef.h>
#include <stdint.h>

typedef enum hashattn_status { HASHATTN_OK = 0, HASHATTN_INVALID = 2, HASHATTN_BAD_FILE = 4 } hashattn_status;
typedef enum hashattn_element { HASHATTN_FLOAT32, HASHATTN_BYTE, HASHATTN_BF16 } hashattn_element;

typedef struct hashattn_context hashattn_context;
typedef struct hashattn_attention hashattn_attention;
typedef struct hashattn_stream hashattn_stream;
typedef struct hashattn_npy_reader hashattn_npy_reader;
typedef struct hashattn_tokenizer hashattn_tokenizer;
typedef struct hashattn_setup hashattn_setup;
typedef struct hashattn_prepared hashattn_prepared;

typedef struct hashattn_context_options {
    size_t struct_size;
    int threads;
    const char *precision;
    const char *isa;
    void *(*allocate)(void *user, size_t alignment, size_t bytes);
    void (*release)(void *user, void *block);
    void *user;
    const struct hashattn_communicator *communicator;
} hashattn_context_options;

typedef struct hashattn_description {
    size_t struct_size;
    const char *version;
    const char *isa;
    const char *projection;
    const char *precision;
    const char *bf16;
    char products[64];
    char processor[64];
    int threads;
    char libraries[64];
    char caches[64];
    int rank, ranks;
    uint64_t bytes_sent;
} hashattn_description;

typedef struct hashattn_mechanism_info {
    size_t struct_size;
    const char *name, *summary;
    int exact;
    size_t num_options;
    size_t num_params;
} hashattn_mechanism_info;

typedef struct hashattn_array {
    void *data;
    size_t sequence_stride, row_stride, head_stride;
} hashattn_array;

typedef struct hashattn_problem {
    size_t struct_size;
    size_t num_sequences, num_heads;
    size_t num_queries, num_keys;
    size_t head_dim, value_dim;
    const size_t *query_offsets, *key_offsets;
    const uint8_t *key_mask;
    int causal;
    uint64_t seed;
    const uint64_t *sample_ids;
    hashattn_element element;
    size_t max_len;
    int padded;
    size_t total_rows;
} hashattn_problem;

typedef struct hashattn_stream_options {
    size_t struct_size;
    size_t num_heads, head_dim, value_dim;
    size_t chunk_rows;
    int causal;
    size_t first_head;
    uint64_t seed;
} hashattn_stream_options;

typedef struct hashattn_chunk {
    size_t struct_size;
    size_t rows;
    hashattn_array query, key, value;
    hashattn_array out;
    const uint8_t *key_mask;
} hashattn_chunk;

typedef struct hashattn_npy {
    hashattn_element element;
    int rank;
    size_t shape[4];
    void *data;
} hashattn_npy;

typedef struct hashattn_encode_options {
    size_t struct_size;
    size_t max_tokens;
    int special_tokens;
    int offsets;
} hashattn_encode_options;

typedef struct hashattn_encoding {
    size_t struct_size;
    size_t count;
    const uint32_t *ids;
    const uint8_t *segments;
    const size_t *begins, *ends;
    int truncated;
} hashattn_encoding;

typedef struct hashattn_learn_options {
    size_t struct_size;
    size_t vocab_size;
    size_t min_frequency;
    int (*progress)(void *user, size_t tokens, size_t vocab_size);
    void *user;
} hashattn_learn_options;

typedef struct hashattn_text_options {
    size_t struct_size;
    const char *pooling;
    int special_tokens;
    int truncate;
    uint64_t seed;
} hashattn_text_options;

typedef struct hashattn_sources {
    size_t struct_size;
    const char *const *files;
    size_t num_files;
    const char *valid, *test;
    const char *tokenizer;
    uint64_t seed;
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
} hashattn_sources;

typedef struct hashattn_metric {
    const char *name;
    double value;
    int more_is_better;
    int selects;
} hashattn_metric;

typedef struct hashattn_metrics {
    size_t count;
    const hashattn_metric *list;
} hashattn_metrics;

void hashattn_context_options_default(hashattn_context_options *options);
void hashattn_problem_default(hashattn_problem *problem);
void hashattn_stream_options_default(hashattn_stream_options *options);
void hashattn_encode_options_default(hashattn_encode_options *options);
void hashattn_learn_options_default(hashattn_learn_options *options);
void hashattn_text_options_default(hashattn_text_options *options);
void hashattn_sources_default(hashattn_sources *sources);

hashattn_status hashattn_context_new(const hashattn_context_options *options, char *message,
                                     size_t message_size, hashattn_context **context);
void hashattn_context_free(hashattn_context *context);
const char *hashattn_context_message(const hashattn_context *context);
void hashattn_context_describe(const hashattn_context *context, hashattn_description *description);
int hashattn_mechanism_get(size_t index, hashattn_mechanism_info *info);

hashattn_status hashattn_attention_new(hashattn_context *context, const char *mechanism,
                                       hashattn_attention **attention);
void hashattn_attention_free(hashattn_attention *attention);
hashattn_array hashattn_array_of_heads(void *data, size_t heads, size_t rows, size_t width);
hashattn_status hashattn_attention_sizes(hashattn_attention *attention, const hashattn_problem *problem,
                                         size_t *saved_bytes, size_t *scratch_bytes);
hashattn_status hashattn_attention_forward(hashattn_attention *attention, const hashattn_problem *problem,
                                           const hashattn_array *query, const hashattn_array *key,
                                           const hashattn_array *value, const hashattn_array *out,
                                           void *saved, void *scratch);
hashattn_status hashattn_attention_backward(hashattn_attention *attention, const hashattn_problem *problem,
                                            const hashattn_array *query, const hashattn_array *key,
                                            const hashattn_array *value, const hashattn_array *out,
                                            const hashattn_array *dout, const hashattn_array *dquery,
                                            const hashattn_array *dkey, const hashattn_array *dvalue,
                                            void *saved, void *scratch);
void hashattn_fill_normal(uint64_t seed, uint64_t stream, float *out, size_t count);

hashattn_status hashattn_stream_new(hashattn_attention *attention, const hashattn_stream_options *options,
                                    hashattn_stream **stream);
void hashattn_stream_free(hashattn_stream *stream);
hashattn_status hashattn_stream_absorb(hashattn_stream *stream, const hashattn_chunk *chunk);
hashattn_status hashattn_stream_read(hashattn_stream *stream, const hashattn_chunk *chunk);

hashattn_status hashattn_npy_read(hashattn_context *context, const char *path, hashattn_npy *array);
void hashattn_npy_free(hashattn_context *context, hashattn_npy *array);
hashattn_status hashattn_npy_write(hashattn_context *context, const char *path, const float *data, int rank,
                                   const size_t *shape);
hashattn_status hashattn_npy_open(hashattn_context *context, const char *path, hashattn_npy *array,
                                  hashattn_npy_reader **reader);
void hashattn_npy_close(hashattn_npy_reader *reader);

hashattn_status hashattn_tokenizer_learn(hashattn_context *context, const char *const *files,
                                         size_t num_files, const hashattn_learn_options *options,
                                         hashattn_tokenizer **tokenizer);
hashattn_status hashattn_tokenizer_encode(hashattn_tokenizer *tokenizer, const char *text, size_t size,
                                          const char *second, size_t second_size,
                                          const hashattn_encode_options *options,
                                          hashattn_encoding *encoding);
void hashattn_tokenizer_free(hashattn_tokenizer *tokenizer);

hashattn_status hashattn_setup_new(hashattn_context *context, const char *task, hashattn_setup **setup);
void hashattn_setup_free(hashattn_setup *setup);
hashattn_status hashattn_setup_prepare(hashattn_setup *setup, const hashattn_sources *sources,
                                       const char *directory, hashattn_prepared *prepared);

const hashattn_metric *hashattn_metric_find(const hashattn_metrics *metrics, const char *name);

#endif
