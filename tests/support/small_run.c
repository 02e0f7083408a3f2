/* Small trainings.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/small_run.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "support/check.h"

static void *options_of(struct host *host, const struct option_row *rows, size_t size)
{
    void *block;
    check_status(host, memory_new_zeroed(host, size, 1, "options", &block), HASHATTN_OK, NULL);
    options_preset(rows, block);
    return block;
}

static void set(struct host *host, const struct option_row *rows, void *values, const char *name,
                const char *text)
{
    check_status(host, option_set(host, rows, "test", values, name, text), HASHATTN_OK, NULL);
}

void small_run_set(struct small_run *small, const char *name, const char *value)
{
    struct run_config *config = &small->config;
    if (head_plan_has(&config->model.plan, name))
        check_status(&small->host, head_plan_set(&small->host, &config->model.plan, name, value), HASHATTN_OK,
                     NULL);
    else if (option_find(model_options, name) != NULL)
        set(&small->host, model_options, &config->model, name, value);
    else
        set(&small->host, train_rows, &config->training, name, value);
}

void small_run_path(const struct small_run *small, const char *name, char text[80])
{
    snprintf(text, 80, "%s/%s", small->folder, name);
}

void small_run_generate(struct small_run *small, const size_t counts[SPLIT_COUNT], uint64_t seed)
{
    struct host *host = &small->host;
    const struct run_config *config = &small->config;
    small_run_remove(small->data);
    check_status(host, file_make_directory(host, small->data, false), HASHATTN_OK, NULL);
    check_status(host, config->task->generate(host, config->task_options, small->data, counts, seed),
                 HASHATTN_OK, NULL);
}

void small_run_load(struct small_run *small, enum split split, struct dataset *dataset)
{
    struct run_config *config = &small->config;
    check_status(&small->host,
                 config->task->load(&small->host, config->task_options, &config->facts, small->data, split,
                                    (uint64_t)config->training.seed, dataset),
                 HASHATTN_OK, NULL);
}

void small_run_init(struct small_run *small, const char *mechanism, size_t seq_len, size_t marks)
{
    memset(small, 0, sizeof *small);
    struct host *host = &small->host;
    struct run_config *config = &small->config;
    host_init(host);
    /* In memory if possible: the tests save often and would wait for a disk each time. */
    strcpy(small->folder, "/dev/shm/hashattn_small_XXXXXX");
    if (mkdtemp(small->folder) == NULL) {
        strcpy(small->folder, "/tmp/hashattn_small_XXXXXX");
        assert_non_null(mkdtemp(small->folder));
    }
    small_run_path(small, "data", small->data);
    small_run_path(small, "run", small->run);
    strcpy(config->data, small->data);

    char text[32];
    config->task = task_find("needle");
    assert_non_null(config->task);
    config->task_options = options_of(host, config->task->options, config->task->options_size);
    snprintf(text, sizeof text, "%zu", seq_len);
    set(host, config->task->options, config->task_options, "seq_len", text);
    snprintf(text, sizeof text, "%zu", marks);
    set(host, config->task->options, config->task_options, "marks", text);
    static const size_t counts[SPLIT_COUNT] = {40, 12, 7};
    small_run_generate(small, counts, 3);
    check_status(host, config->task->facts(host, config->task_options, small->data, NULL, &config->facts),
                 HASHATTN_OK, NULL);

    struct model_config *model = &config->model;
    options_preset(model_options, model);
    check_status(host, head_plan_new(host, mechanism, &model->plan), HASHATTN_OK, NULL);
    check_status(host, run_config_take_facts(host, config), HASHATTN_OK, NULL);
    options_preset(train_rows, &config->training);
    static const char *const settings[][2] = {{"layers", "1"},
                                              {"dim", "16"},
                                              {"heads", "2"},
                                              {"ffn", "24"},
                                              {"dropout", "0.1"},
                                              {"pooling", "first"},
                                              {"steps", "10"},
                                              {"batch", "5"},
                                              {"warmup", "3"},
                                              {"eval_every", "4"},
                                              {"save_every", "3"},
                                              {"eval_examples", "7"},
                                              {"learning_rate", "0.01"},
                                              {"weight_decay", "0.01"},
                                              {"clip", "0.5"},
                                              {"cycle_momentum", "true"}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        small_run_set(small, settings[i][0], settings[i][1]);
}

static int remove_one(const char *path, const struct stat *facts, int type, struct FTW *place)
{
    (void)facts;
    (void)type;
    (void)place;
    return remove(path);
}

void small_run_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void small_run_free(struct small_run *small)
{
    run_config_free(&small->host, &small->config);
    small_run_remove(small->folder);
}

char *small_run_read(const char *run, const char *name, size_t *size)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", run, name);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail_msg("%s: missing", path);
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    char *bytes = calloc((size_t)length + 1, 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)length, file), length);
    fclose(file);
    *size = (size_t)length;
    return bytes;
}
