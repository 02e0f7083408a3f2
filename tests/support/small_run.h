/* A small training for the tests: a generated needle data set and a configuration in a new folder, which the
   end of the test removes.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_SMALL_RUN_H
#define TESTS_SUPPORT_SMALL_RUN_H

#include "train/trainer.h"

struct small_run {
    struct host host;
    char folder[64], data[80], run[80]; /* run does not exist yet */
    struct run_config config;
};

/* seq_len tokens with `marks` of them marked; a model of one layer, 16 wide, with two heads; ten steps of 5
   examples with dropout, clipping and a cycling beta1. Change anything before a run. */
void small_run_init(struct small_run *small, const char *mechanism, size_t seq_len, size_t marks);
void small_run_free(struct small_run *small);
/* Writes the path of `name` in the same folder to text. */
void small_run_path(const struct small_run *small, const char *name, char text[80]);
/* Generates the data set again. */
void small_run_generate(struct small_run *small, const size_t counts[SPLIT_COUNT], uint64_t seed);
/* Loads a split. */
void small_run_load(struct small_run *small, enum split split, struct dataset *dataset);
/* Sets an option of the mechanism, model or training; fails the test if there is none. */
void small_run_set(struct small_run *small, const char *name, const char *value);

/* Reads a whole file as text; free with free(). */
char *small_run_read(const char *run, const char *name, size_t *size);
void small_run_remove(const char *path);

#endif
