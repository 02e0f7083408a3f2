/* The events of a training for the callback, and the records of log.jsonl.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "train/run_log.h"
#include "train/trainer/trainer_parts.h"

void trainer_warn(struct trainer *t)
{
    size_t used = strlen(t->warning);
    snprintf(t->warning + used, sizeof t->warning - used, "%s%s", used > 0 ? "; " : "", t->host->message);
}

void trainer_tell(struct trainer *t)
{
    const struct train_state *state = &t->state;
    struct train_event *event = &t->event;
    double running[MODEL_METRICS];
    model_metrics(t->stepper.model, state->running, running);
    event->step = state->step;
    event->steps = t->options->steps;
    event->model = t->stepper.model;
    event->train = running;
    event->best = state->best_step < 0 ? NULL : state->best;
    event->tokens_per_second =
        state->running_seconds > 0 ? (double)state->running_tokens / state->running_seconds : 0;
    event->seconds = state->seconds;
    hashattn_message_clean(t->warning); /* they quote paths, and may be cut in a character */
    hashattn_message_clean(t->note);
    event->warning = t->warning[0] != '\0' ? t->warning : NULL;
    event->note = t->note[0] != '\0' ? t->note : NULL;
    if (t->setup->callback != NULL && t->setup->callback(t->setup->user, event))
        t->stop = true;
    event->train = NULL;
    t->warning[0] = t->note[0] = '\0';
}

/* A failed write of the log is only a warning: the run needs nothing in it. */
static void log_append(struct trainer *t, struct run_record *record)
{
    if (record->status == HASHATTN_OK)
        record->status = trainer_check_lock(t);
    if (run_record_append(record, t->run) != HASHATTN_OK)
        trainer_warn(t);
}

/* Where the values of the start come from. */
static void log_origin(struct trainer *t, struct run_record *record)
{
    struct origin_report *report = &t->origin;
    run_record_text(record, "from", t->config->from);
    run_record_int(record, "tensors_taken", (int64_t)report->taken);
    if (report->positions > 0) {
        run_record_int(record, "stored_positions", (int64_t)report->stored_positions);
        run_record_int(record, "positions", (int64_t)report->positions);
    }
    run_record_put(record, "tensors_new", report->anew);
    run_record_put(record, "tensors_dropped", report->dropped);
    report->anew = report->dropped = NULL;
}

void trainer_log_visit(struct trainer *t, const char *what)
{
    if (!is_writer(t))
        return;
    struct run_record record = run_record_new(t->host, t->state.step);
    run_record_text(&record, "event", what);
    run_record_text(&record, "isa", t->state.kernels);
    run_record_text(&record, "product", t->state.product);
    run_record_text(&record, "precision", precision_names[t->config->model.precision]);
    run_record_int(&record, "ranks", comm_size(comm_of_run(t)));
    run_record_int(&record, "threads", pool_threads(t->setup->pool));
    run_record_int(&record, "parameters", (int64_t)params_count(t->stepper.params));
    if (t->origin.anew != NULL)
        log_origin(t, &record);
    log_append(t, &record);
}

/* Writes the metrics of a model, each with the prefix `word`. evaluated: metrics of an evaluation. */
static void put_metrics(struct run_record *record, const struct model *model, const char *word,
                        const double *values, bool evaluated)
{
    char key[METRIC_NAME + 8];
    for (size_t i = 0; i < model_num_metrics(model); i++) {
        const struct model_metric *metric = model_metric(model, i);
        snprintf(key, sizeof key, "%s%s", word, metric->name);
        if (evaluated ? !metric->training_only : !metric->overall)
            run_record_real(record, key, values[i]);
    }
}

/* The loss is that of this step, own losses included; metrics are means since the last evaluation. */
void trainer_log_step(struct trainer *t, double loss, double norm)
{
    if (!is_writer(t))
        return;
    double running[MODEL_METRICS];
    struct run_record record = run_record_new(t->host, t->state.step);
    model_metrics(t->stepper.model, t->state.running, running);
    put_metrics(&record, t->stepper.model, "", running, false);
    run_record_real(&record, "loss", loss);
    run_record_real(&record, "learning_rate", t->event.learning_rate);
    run_record_real(&record, "gradient_norm", norm);
    run_record_real(&record, "tokens_per_second", t->event.tokens_per_second);
    run_record_real(&record, "seconds", t->state.seconds);
    run_record_int(&record, "saved_bytes", (int64_t)t->event.saved_bytes);
    run_record_int(&record, "rss_bytes", (int64_t)clock_peak_resident());
    log_append(t, &record);
}

/* Rows are true classes, columns predicted ones. */
static void put_confusion(struct run_record *record, const struct evaluation *found)
{
    struct json *rows = NULL;
    if (found->confused == 0 || record->status != HASHATTN_OK)
        return;
    record->status = json_new_array(record->host, &rows);
    for (size_t i = 0; i < found->confused && record->status == HASHATTN_OK; i++) {
        struct json *row;
        record->status = json_new_array(record->host, &row);
        for (size_t k = 0; k < found->confused && record->status == HASHATTN_OK; k++)
            record->status =
                json_put_int(record->host, row, NULL, (int64_t)found->confusion[i * found->confused + k]);
        if (record->status == HASHATTN_OK)
            record->status = json_put(record->host, rows, NULL, row);
        else
            json_free(row);
    }
    run_record_put(record, "confusion", rows);
}

void trainer_log_evaluation(struct trainer *t, const struct evaluation *found)
{
    if (!is_writer(t))
        return;
    struct run_record record = run_record_new(t->host, t->state.step);
    const struct model *model = t->stepper.model;
    double running[MODEL_METRICS];
    model_metrics(model, t->state.running, running);
    put_metrics(&record, model, "mean_", running, false);
    put_metrics(&record, model, "valid_", found->metrics, true);
    for (size_t i = 0; i < model_num_baselines(model); i++) {
        char name[METRIC_NAME], key[METRIC_NAME + 8];
        model_baseline_name(model, i, name);
        snprintf(key, sizeof key, "valid_%s", name);
        run_record_real(&record, key, found->baselines[i]);
    }
    put_metrics(&record, model, "best_", t->state.best, true);
    put_confusion(&record, found);
    run_record_real(&record, "valid_seconds", found->seconds);
    run_record_real(&record, "seconds", t->state.seconds);
    run_record_int(&record, "rss_bytes", (int64_t)clock_peak_resident());
    log_append(t, &record);
}
