/* Saved states: every bit comes back, and a complete state is found whatever happens during a save: killed at
   random moments, cut between any two of its steps, and on a full disk.
   Bugs planted and caught: trainer.json written before optimizer.safetensors.next; no settling before a save
   (two accidents overwrite the only copy of a file); steps not compared; the names of m and v exchanged on
   reading; a real number printed with six digits; names with dots read as paths; metrics that the file lacks
   read as 0, or refused; sums that are not numbers accepted, or kept as integers; the last parameters taken
   from last.safetensors although trainer.json is of the step of its .next, or not found without it; files of
   a failed save left on a full disk; no word of what a damaged file leaves; a .next that cannot be read just
   now taken for one of another step, and overwritten.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/checkpoint.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/random.h"
#include "models/model_io.h"
#include "support/check.h"
#include "support/named_metric.h"
#include "support/small_run.h"

static const char *const files[] = {"last.safetensors",      "optimizer.safetensors",      "trainer.json",
                                    "last.safetensors.next", "optimizer.safetensors.next", NULL};

struct fixture {
    struct host host;
    struct model_config config;
    struct model *model;
    const struct params *params; /* of model */
    struct train_blocks blocks;
    float *memory;
    char run[64];
};

/* In memory if there is such a folder: a save waits for a disk three times. */
static void make_run(char run[64])
{
    strcpy(run, "/dev/shm/hashattn_run_XXXXXX");
    if (mkdtemp(run) == NULL) {
        strcpy(run, "/tmp/hashattn_run_XXXXXX");
        assert_non_null(mkdtemp(run));
    }
}

/* A classifier with a loss of its own, or a model that predicts the next token. */
static void make_model(struct fixture *fixture, size_t vocab_size, const char *objective)
{
    struct model_config *config = &fixture->config;
    bool next = strcmp(objective, "next_token") == 0;
    options_preset(model_options, config);
    config->layers = config->heads = 1;
    config->dim = config->ffn = 4;
    config->vocab_size = (int64_t)vocab_size;
    config->max_len = 8;
    config->causal = next;
    config->num_objectives = 1;
    config->objectives[0] = (struct model_objective){.objective = objective_find(objective),
                                                     .weight = 1,
                                                     .num_outputs = next ? (int64_t)vocab_size - 1 : 3,
                                                     .first_output = next};
    check_status(&fixture->host, head_plan_new(&fixture->host, next ? "softmax" : "lha", &config->plan),
                 HASHATTN_OK, NULL);
    check_status(&fixture->host, model_new(&fixture->host, config, &fixture->model), HASHATTN_OK, NULL);
    fixture->params = model_params(fixture->model);
}

static void fixture_init(struct fixture *fixture, size_t vocab_size)
{
    memset(fixture, 0, sizeof *fixture);
    host_init(&fixture->host);
    make_model(fixture, vocab_size, "classify");
    size_t total = fixture->params->total;
    fixture->memory = calloc(3 * total, sizeof(float));
    assert_non_null(fixture->memory);
    fixture->blocks =
        (struct train_blocks){fixture->memory, fixture->memory + total, fixture->memory + 2 * total};
    make_run(fixture->run);
}

static void fixture_free(struct fixture *fixture)
{
    small_run_remove(fixture->run);
    free(fixture->memory);
    model_free(&fixture->host, fixture->model);
    head_plan_free(&fixture->host, &fixture->config.plan);
}

/* The state of step s has s in every value, s + 1/4 in m, s + 1/2 in v. */
static struct train_state state_of_step(struct fixture *fixture, int64_t step)
{
    for (size_t i = 0; i < fixture->params->total; i++) {
        fixture->blocks.values[i] = (float)step;
        fixture->blocks.m[i] = (float)step + 0.25f;
        fixture->blocks.v[i] = (float)step + 0.5f;
    }
    struct train_state state = {.step = step, .evaluated = -1, .best_step = -1};
    for (size_t i = 0; i < MODEL_METRICS; i++)
        state.best[i] = NAN;
    strcpy(state.kernels, "ref");
    strcpy(state.product, "own");
    return state;
}

static hashattn_status save_step(struct fixture *fixture, const char *run, int64_t step)
{
    struct train_state state = state_of_step(fixture, step);
    return checkpoint_save(&fixture->host, run, fixture->model, &fixture->blocks, &state);
}

/* Loads the state, checks that it is complete, and returns its step. */
static int64_t load_step(struct fixture *fixture, const char *run)
{
    struct train_state state;
    struct run_values found;
    struct model_block values = {"", fixture->blocks.values, NULL};
    memset(fixture->memory, 0xff, 3 * fixture->params->total * sizeof(float));
    check_status(&fixture->host, run_values_find(&fixture->host, run, &found), HASHATTN_OK, NULL);
    check_status(&fixture->host, model_load(&fixture->host, found.path, fixture->params, &values, 1),
                 HASHATTN_OK, NULL);
    assert_true(fixture->blocks.values[fixture->params->rows[0].offset] == (float)found.last_step);
    memset(fixture->memory, 0xff, 3 * fixture->params->total * sizeof(float));
    check_status(&fixture->host,
                 checkpoint_load(&fixture->host, run, fixture->model, &fixture->blocks, &state), HASHATTN_OK,
                 NULL);
    assert_int_equal(found.last_step, state.step);
    for (size_t i = 0; i < fixture->params->num_rows; i++) {
        const struct param *row = &fixture->params->rows[i];
        for (size_t at = row->offset; at < row->offset + row->count; at++) {
            assert_true(fixture->blocks.values[at] == (float)state.step);
            assert_true(fixture->blocks.m[at] == (float)state.step + 0.25f);
            assert_true(fixture->blocks.v[at] == (float)state.step + 0.5f);
        }
    }
    return state.step;
}

static void every_bit_comes_back(void **unused)
{
    (void)unused;
    struct fixture fixture;
    fixture_init(&fixture, 7);
    size_t total = fixture.params->total;
    struct train_state state = {.step = 1234567890123,
                                .evaluated = 1234567890000,
                                .best_step = 99,
                                .best = {1.0 / 3, 0x1.fffffffffffffp-3, 0.3, 7e-9},
                                .running = {1e22 / 7, 5, 0x1p31 + 0.1, 1.0 / 3, 1e-300},
                                .running_tokens = 1ull << 40,
                                .running_seconds = 0.1,
                                .seconds = 1e6 / 3,
                                .train = {7, 8, 0xffffffffffffffffu},
                                .valid = {9, 10, 0x0123456789abcdefu}};
    /* Accuracy, loss, macro-F1 and an own loss; six sums of classify, an own loss and its count. */
    size_t num_metrics = model_num_metrics(fixture.model), num_sums = model_num_sums(fixture.model);
    assert_true(num_metrics == 4 && num_sums == 8);
    strcpy(state.kernels, "avx512");
    strcpy(state.product, "oneDNN 2.6.3");
    random_normals(1, 0, fixture.memory, 3 * total);
    float *copy = calloc(3 * total, sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, fixture.memory, 3 * total * sizeof *copy);
    check_status(&fixture.host,
                 checkpoint_save(&fixture.host, fixture.run, fixture.model, &fixture.blocks, &state),
                 HASHATTN_OK, NULL);
    memset(fixture.memory, 0, 3 * total * sizeof *copy);
    struct train_state loaded;
    memset(&loaded, 0x55, sizeof loaded);
    check_status(&fixture.host,
                 checkpoint_load(&fixture.host, fixture.run, fixture.model, &fixture.blocks, &loaded),
                 HASHATTN_OK, NULL);
    assert_true(loaded.best[MODEL_METRICS - 1] == 0 && loaded.running[MODEL_SUMS - 1] == 0);
    for (size_t block = 0; block < 3; block++)
        for (size_t i = 0; i < fixture.params->num_rows; i++) {
            const struct param *row = &fixture.params->rows[i];
            size_t at = block * total + row->offset;
            check_same_bits(fixture.memory + at, copy + at, row->count * sizeof(float), "block");
        }
    assert_int_equal(loaded.step, state.step);
    assert_int_equal(loaded.evaluated, state.evaluated);
    assert_int_equal(loaded.best_step, state.best_step);
    check_same_bits(loaded.best, state.best, num_metrics * sizeof *state.best, "best metrics");
    check_same_bits(loaded.running, state.running, num_sums * sizeof *state.running, "running sums");
    assert_int_equal(loaded.running_tokens, state.running_tokens);
    assert_true(loaded.running_seconds == state.running_seconds && loaded.seconds == state.seconds);
    check_same_bits(&loaded.train, &state.train, sizeof state.train, "fingerprint");
    check_same_bits(&loaded.valid, &state.valid, sizeof state.valid, "fingerprint");
    assert_string_equal(loaded.kernels, "avx512");
    assert_string_equal(loaded.product, "oneDNN 2.6.3");
    state = state_of_step(&fixture, 3); /* nothing evaluated yet: NaN is stored as null */
    check_status(&fixture.host,
                 checkpoint_save(&fixture.host, fixture.run, fixture.model, &fixture.blocks, &state),
                 HASHATTN_OK, NULL);
    check_status(&fixture.host,
                 checkpoint_load(&fixture.host, fixture.run, fixture.model, &fixture.blocks, &loaded),
                 HASHATTN_OK, NULL);
    assert_int_equal(loaded.best_step, -1);
    for (size_t i = 0; i < num_metrics; i++)
        assert_true(isnan(loaded.best[i]));
    free(copy);
    fixture_free(&fixture);
}

static void copy_file(const char *from_run, const char *from, const char *to_run, const char *to)
{
    char path[128], bytes[1 << 16];
    snprintf(path, sizeof path, "%s/%s", from_run, from);
    FILE *in = fopen(path, "r");
    snprintf(path, sizeof path, "%s/%s", to_run, to);
    FILE *out = fopen(path, "w");
    assert_true(in != NULL && out != NULL);
    size_t size = fread(bytes, 1, sizeof bytes, in);
    assert_true(size > 0 && size < sizeof bytes);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    fclose(in);
    fclose(out);
}

/* A save that ends at its n-th allocation. Returns false if it has fewer allocations and succeeded. */
static bool fail_to_save(struct fixture *fixture, const char *run, int64_t step, long n)
{
    struct failing_host failing;
    failing_host_init(&failing, n);
    struct train_state state = state_of_step(fixture, step);
    hashattn_status status = checkpoint_save(&failing.host, run, fixture->model, &fixture->blocks, &state);
    if (status != HASHATTN_OK)
        check_status(&failing.host, status, HASHATTN_NO_MEMORY, "no memory");
    return status != HASHATTN_OK;
}

/* The files that a save of step 2 over step 1 leaves after each of its renames, and after a second
   accident. */
static void every_cut_between_files_is_survived(void **unused)
{
    (void)unused;
    struct fixture fixture;
    fixture_init(&fixture, 7);
    char second[64];
    make_run(second);
    check_status(&fixture.host, save_step(&fixture, second, 2), HASHATTN_OK, NULL);
    static const struct {
        bool last_next, optimizer_next, json, last, optimizer;
        int64_t step;
    } cuts[] = {{true, false, false, false, false, 1},
                {true, true, false, false, false, 1},
                {true, true, true, false, false, 2},
                {false, true, true, true, false, 2},
                {false, false, true, true, true, 2}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        /* The second accident, after each cut: a save of step 3 that ends at its n-th allocation, so before,
           between and after its first two files. -1: no second accident. */
        bool failed = true;
        for (long n = -1; failed; n++) {
            char run[64];
            make_run(run);
            check_status(&fixture.host, save_step(&fixture, run, 1), HASHATTN_OK, NULL);
            if (cuts[i].last_next)
                copy_file(second, files[0], run, files[3]);
            if (cuts[i].optimizer_next)
                copy_file(second, files[1], run, files[4]);
            if (cuts[i].json)
                copy_file(second, files[2], run, files[2]);
            if (cuts[i].last)
                copy_file(second, files[0], run, files[0]);
            if (cuts[i].optimizer)
                copy_file(second, files[1], run, files[1]);
            failed = n < 0 || fail_to_save(&fixture, run, 3, n);
            assert_int_equal(load_step(&fixture, run), failed ? cuts[i].step : 3);
            assert_true(failed || n > 3);
            check_status(&fixture.host, save_step(&fixture, run, 4), HASHATTN_OK, NULL);
            assert_int_equal(load_step(&fixture, run), 4);
            small_run_remove(run);
        }
    }
    small_run_remove(second);
    fixture_free(&fixture);
}

static void kills_at_random_moments_leave_a_whole_state(void **unused)
{
    (void)unused;
    enum { KILLS = 50 };
    struct fixture fixture;
    fixture_init(&fixture, 15000); /* 240 KB per block: a save takes some milliseconds */
    int64_t *done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(done != MAP_FAILED);
    check_status(&fixture.host, save_step(&fixture, fixture.run, 0), HASHATTN_OK, NULL);
    struct random random = random_open(1);
    for (int i = 0; i < KILLS; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (int64_t step = *done + 1;; step++) {
                if (save_step(&fixture, fixture.run, step) != HASHATTN_OK)
                    _exit(1);
                *(volatile int64_t *)done = step;
            }
        }
        struct timespec wait = {0, (long)random_below(&random, 20000000)};
        nanosleep(&wait, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        int64_t complete = *done, found = load_step(&fixture, fixture.run);
        if (found != complete && found != complete + 1)
            fail_msg("killed after step %lld was saved, found step %lld", (long long)complete,
                     (long long)found);
        *done = found;
    }
    munmap(done, sizeof *done);
    fixture_free(&fixture);
}

static void a_full_disk_keeps_the_old_state(void **unused)
{
    (void)unused;
    struct fixture fixture;
    fixture_init(&fixture, 350); /* 8 KB of values, 16 KB of moments */
    char path[128];
    struct stat largest;
    check_status(&fixture.host, save_step(&fixture, fixture.run, 1), HASHATTN_OK, NULL);
    snprintf(path, sizeof path, "%s/%s", fixture.run, files[1]);
    assert_int_equal(stat(path, &largest), 0);
    struct rlimit before, limited;
    getrlimit(RLIMIT_FSIZE, &before);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    rlim_t failures = 0, size = (rlim_t)largest.st_size;
    for (rlim_t limit = 0; limit < size + 2000; limit += 500) {
        limited = before;
        limited.rlim_cur = limit;
        setrlimit(RLIMIT_FSIZE, &limited);
        hashattn_status status = save_step(&fixture, fixture.run, 2);
        setrlimit(RLIMIT_FSIZE, &before);
        failures += status != HASHATTN_OK;
        if (status != HASHATTN_OK)
            check_status(&fixture.host, status, HASHATTN_NO_DISK, fixture.run);
        for (int i = 3; files[i] != NULL; i++) {
            snprintf(path, sizeof path, "%s/%s", fixture.run, files[i]);
            assert_false(file_exists(path));
        }
        assert_int_equal(load_step(&fixture, fixture.run), status == HASHATTN_OK ? 2 : 1);
        if (status == HASHATTN_OK)
            check_status(&fixture.host, save_step(&fixture, fixture.run, 1), HASHATTN_OK, NULL);
    }
    signal(SIGXFSZ, handler);
    assert_true(size > 10000 && failures == (size + 499) / 500);
    fixture_free(&fixture);
}

static void failing_allocations_keep_the_old_state(void **unused)
{
    (void)unused;
    struct fixture fixture;
    fixture_init(&fixture, 7);
    check_status(&fixture.host, save_step(&fixture, fixture.run, 1), HASHATTN_OK, NULL);
    const struct host plain = fixture.host;
    hashattn_status status = HASHATTN_NO_MEMORY;
    for (long n = 0; status != HASHATTN_OK; n++) {
        struct failing_host failing;
        failing_host_init(&failing, n);
        struct train_state state = state_of_step(&fixture, 2);
        status = checkpoint_save(&failing.host, fixture.run, fixture.model, &fixture.blocks, &state);
        assert_int_equal(failing.outstanding, 0);
        if (status != HASHATTN_OK)
            check_status(&failing.host, status, HASHATTN_NO_MEMORY, "no memory");
        fixture.host = plain;
        /* No failure is possible after trainer.json: nothing is allocated there. */
        assert_int_equal(load_step(&fixture, fixture.run), status == HASHATTN_OK ? 2 : 1);
        assert_true(n < 1000);
    }
    fixture_free(&fixture);
}

static void files_of_different_steps_are_refused(void **unused)
{
    (void)unused;
    struct fixture fixture;
    fixture_init(&fixture, 7);
    char second[64];
    make_run(second);
    check_status(&fixture.host, save_step(&fixture, second, 2), HASHATTN_OK, NULL);
    for (size_t i = 0; i < 3; i++) {
        check_status(&fixture.host, save_step(&fixture, fixture.run, 1), HASHATTN_OK, NULL);
        copy_file(second, files[i], fixture.run, files[i]);
        struct train_state state;
        check_status(&fixture.host,
                     checkpoint_load(&fixture.host, fixture.run, fixture.model, &fixture.blocks, &state),
                     HASHATTN_BAD_FILE,
                     i < 2 ? "is of step 2, trainer.json of step 1" : "is of step 1, trainer.json of step 2");
        copy_file(second, files[2], fixture.run, files[2]);
        copy_file(second, files[1], fixture.run, files[1]);
        copy_file(second, files[0], fixture.run, files[0]);
    }
    small_run_remove(second);
    fixture_free(&fixture);
}

/* The first file that cannot be read is named. If parameters are left, the message says so and they are
 * found. */
static void damaged_files_are_named(void **unused)
{
    (void)unused;
    struct fixture fixture;
    fixture_init(&fixture, 7);
    struct host *host = &fixture.host;
    static const char way_out[] = "; a new run can start from the parameters of this one (from)";
    for (size_t i = 0; i < 3; i++) {
        struct train_state state;
        struct run_values found;
        char path[128];
        snprintf(path, sizeof path, "%s/%s", fixture.run, files[i]);
        check_status(host, save_step(&fixture, fixture.run, 3), HASHATTN_OK, NULL);
        assert_int_equal(truncate(path, 0), 0);
        hashattn_status status = run_values_find(host, fixture.run, &found);
        if (i == 0)
            check_status(host, status, HASHATTN_BAD_FILE,
                         "no parameters of step 3, the last that trainer.json names: ");
        check_status(host, status, i == 0 ? HASHATTN_BAD_FILE : HASHATTN_OK, i == 0 ? path : NULL);
        assert_int_equal(found.last_step, 3);
        for (int loads = 0; loads < 2; loads++) {
            status = loads ? checkpoint_load(host, fixture.run, fixture.model, &fixture.blocks, &state)
                           : checkpoint_check(host, fixture.run, fixture.model);
            check_status(host, status, HASHATTN_BAD_FILE, path);
            assert_int_equal(strstr(host->message, way_out) != NULL, i > 0);
        }
        assert_int_equal(unlink(path), 0);
    }
    fixture_free(&fixture);
}

/* The word "step" in the metadata of a file must be a number from 0 on. */
static void files_without_their_step_are_refused(void **unused)
{
    (void)unused;
    static const char *const words[] = {NULL, "", "one", "1 ", "1x", "-1", "99999999999999999999", "2", "1"};
    struct fixture fixture;
    fixture_init(&fixture, 7);
    struct host *host = &fixture.host;
    char path[128];
    snprintf(path, sizeof path, "%s/%s", fixture.run, files[0]);
    check_status(host, save_step(&fixture, fixture.run, 1), HASHATTN_OK, NULL);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const struct model_block block = {"", fixture.blocks.values, NULL};
        const struct tensor_word step[] = {{"format", "pt"}, {"step", words[i]}};
        char want[200];
        struct train_state state;
        check_status(host, model_save(host, path, fixture.params, &block, 1, step, words[i] == NULL ? 1 : 2),
                     HASHATTN_OK, NULL);
        snprintf(want, sizeof want, "the word 'step' of its metadata is %s, a number is needed",
                 words[i] == NULL ? "missing" : words[i]);
        hashattn_status status = checkpoint_load(host, fixture.run, fixture.model, &fixture.blocks, &state);
        check_status(host, status, i == 8 ? HASHATTN_OK : HASHATTN_BAD_FILE,
                     i == 7 ? "is of step 2, trainer.json of step 1" : want);
    }
    fixture_free(&fixture);
}

/* The check before the memory of a model is allocated: the files have its tensors, and of both moments. */
static void files_of_another_model_are_refused_by_the_check(void **unused)
{
    (void)unused;
    struct fixture fixture, other;
    fixture_init(&fixture, 7);
    fixture_init(&other, 8);
    check_status(&fixture.host, save_step(&fixture, fixture.run, 1), HASHATTN_OK, NULL);
    check_status(&other.host, save_step(&other, other.run, 1), HASHATTN_OK, NULL);
    check_status(&fixture.host, checkpoint_check(&fixture.host, fixture.run, fixture.model), HASHATTN_OK,
                 NULL);
    for (int i = 0; i < 2; i++) {
        copy_file(other.run, files[i], fixture.run, files[i]);
        check_status(&fixture.host, checkpoint_check(&fixture.host, fixture.run, fixture.model),
                     HASHATTN_BAD_FILE, files[i]);
        check_status(&fixture.host, save_step(&fixture, fixture.run, 1), HASHATTN_OK, NULL);
    }
    copy_file(fixture.run, files[0], fixture.run,
              files[4]); /* no moments, and a stale .next: it is ignored */
    copy_file(fixture.run, files[0], fixture.run, files[1]);
    check_status(&fixture.host, checkpoint_check(&fixture.host, fixture.run, fixture.model),
                 HASHATTN_BAD_FILE, files[1]);
    fixture_free(&fixture);
    fixture_free(&other);
}

/* As older versions wrote it, which had only these metrics. */
static const char good[] =
    "{\"format\": \"hashattn trainer\", \"version\": 1, \"step\": 5, \"evaluated\": 4, \"best_step\": 4, "
    "\"best_accuracy\": 0.5, \"best_loss\": 1.5, \"running\": {\"loss\": 2.5, \"correct\": 1, \"count\": "
    "2, "
    "\"tokens\": 9, \"seconds\": 1.0}, \"seconds\": 2.0, \"train\": {\"examples\": 1, \"tokens\": 2, "
    "\"hash\": \"0123456789abcdef\"}, \"valid\": {\"examples\": 3, \"tokens\": 4, "
    "\"hash\": \"0123456789abcdef\"}, \"kernels\": \"ref\", \"product\": \"own\"}";

/* Copies `good` with one piece of it replaced. */
static void change(const char *from, const char *to, char text[1024])
{
    const char *at = strstr(good, from);
    assert_non_null(at);
    snprintf(text, 1024, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
}

static struct train_state parse(struct fixture *fixture, const char *text)
{
    struct train_state state;
    memset(&state, 0x55, sizeof state);
    check_status(&fixture->host,
                 train_state_parse(&fixture->host, text, strlen(text), fixture->model, &state), HASHATTN_OK,
                 NULL);
    return state;
}

static void states_of_older_versions_are_read(void **unused)
{
    (void)unused;
    struct fixture fixture;
    fixture_init(&fixture, 7);
    const struct model *model = fixture.model;
    struct train_state state = parse(&fixture, good);
    assert_true(state.step == 5 && state.evaluated == 4 && state.best_step == 4);
    assert_true(state.best[MODEL_METRICS - 1] == 0 && state.running[MODEL_SUMS - 1] == 0);
    assert_true(metric_named(model, state.best, "accuracy") == 0.5);
    assert_true(metric_named(model, state.best, "loss") == 1.5);
    assert_true(isnan(metric_named(model, state.best, "lha.own_loss")));
    assert_true(sum_named(model, state.running, "loss") == 2.5);
    assert_true(sum_named(model, state.running, "correct") == 1);
    assert_true(sum_named(model, state.running, "count") == 2);
    assert_true(sum_named(model, state.running, "lha.own_loss") == 0);
    assert_true(sum_named(model, state.running, "lha.count") == 0);
    assert_true(state.running_tokens == 9 && state.running_seconds == 1 && state.seconds == 2);
    assert_true(state.train.hash == 0x0123456789abcdefu && state.valid.tokens == 4);

    char text[1024]; /* a name with a dot is a name, not a path */
    change("\"correct\": 1", "\"lha.own_loss\": 0.25, \"lha\": {\"own_loss\": 7, \"count\": 7}", text);
    state = parse(&fixture, text);
    assert_true(sum_named(model, state.running, "lha.own_loss") == 0.25);
    assert_true(sum_named(model, state.running, "lha.count") == 0);
    assert_true(sum_named(model, state.running, "correct") == 0);
    change("\"best_loss\": 1.5, ", "", text);
    state = parse(&fixture, text);
    assert_true(isnan(metric_named(model, state.best, "loss")));
    assert_true(metric_named(model, state.best, "accuracy") == 0.5);
    fixture_free(&fixture);

    fixture_init(&fixture, 7); /* language models were selected by their loss */
    model_free(&fixture.host, fixture.model);
    head_plan_free(&fixture.host, &fixture.config.plan);
    make_model(&fixture, 7, "next_token");
    model = fixture.model;
    state = parse(&fixture, good);
    assert_true(isnan(metric_named(model, state.best, "perplexity")));
    assert_true(metric_named(model, state.best, "loss") == 1.5);
    assert_true(sum_named(model, state.running, "count") == 2);
    fixture_free(&fixture);
}

static void hostile_states_are_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *from, *to, *part;
    } cases[] = {
        {"", "", "last.safetensors"}, /* unchanged: the error is the next missing file */
        {"hashattn trainer", "something", "format is 'something'"},
        {"\"version\": 1", "\"version\": 2", "version"},
        {"\"step\": 5", "\"step\": -1", "step"},
        {"\"step\": 5", "\"step\": \"5\"", "step"},
        {"\"step\": 5", "\"step\": 5.5", "step"},
        {"\"step\": 5", "\"step\": 1e400", ""},
        {"\"step\": 5, ", "", "step"},
        {"\"evaluated\": 4", "\"evaluated\": 6", "evaluated"},
        {"\"best_step\": 4", "\"best_step\": -2", "best_step"},
        {"\"best_loss\": 1.5", "\"best_loss\": []", "best_loss"},
        {"\"best_accuracy\": 0.5", "\"best_accuracy\": \"0.5\"", "best_accuracy"},
        {"\"correct\": 1", "\"correct\": null", "running.correct is not finite"},
        {"\"correct\": 1", "\"correct\": \"1\"", "correct"},
        {"\"tokens\": 9, ", "", "running.tokens"},
        {"\"running\": {", "\"walking\": {", "running"},
        {"0123456789abcdef", "0123456789abcdeg", "hash is"},
        {"0123456789abcdef", "0123", "hash is"},
        {"0123456789abcdef", "-123456789abcdef", "hash is"},
        {"\"ref\"", "\"0123456789012345678901234567890123456789012345678901234567890123456789\"", "kernels"},
        {"\"own\"}", "\"own\"", ""},
    };
    struct fixture fixture;
    fixture_init(&fixture, 7);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[128], text[1024];
        change(cases[i].from, cases[i].to, text);
        snprintf(path, sizeof path, "%s/%s", fixture.run, files[2]);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
        struct train_state state;
        check_status(&fixture.host,
                     checkpoint_load(&fixture.host, fixture.run, fixture.model, &fixture.blocks, &state),
                     HASHATTN_BAD_FILE, cases[i].part);
        assert_true(strncmp(fixture.host.message, fixture.run, strlen(fixture.run)) == 0);
    }
    fixture_free(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bit_comes_back),
        cmocka_unit_test(every_cut_between_files_is_survived),
        cmocka_unit_test(kills_at_random_moments_leave_a_whole_state),
        cmocka_unit_test(a_full_disk_keeps_the_old_state),
        cmocka_unit_test(failing_allocations_keep_the_old_state),
        cmocka_unit_test(files_of_different_steps_are_refused),
        cmocka_unit_test(damaged_files_are_named),
        cmocka_unit_test(files_without_their_step_are_refused),
        cmocka_unit_test(files_of_another_model_are_refused_by_the_check),
        cmocka_unit_test(states_of_older_versions_are_read),
        cmocka_unit_test(hostile_states_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
