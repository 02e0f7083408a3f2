/* Readers of data sets are linear (support/linear_time.h): files of many examples, of one long example, of
   many names, and of all that is read between examples.

   Planted and caught: the start of an expression read again for each symbol, that of a needle for each token;
   the rest of a line of metadata read again at each byte of a field; all pairs before a pair looked at; all
   rows of GLUE before a row.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "support/linear_time.h"
#include "support/task_case.h"
#include "tasks/mlm/sentences.h"
#include "tasks/mlm/text_sections.h"
#include "tasks/mlm/token_file.h"
#include "tasks/words.h"

enum { SHORT = 40 }; /* examples beside a long one, so that a data set can be cut */

static void load_path(struct work *work, const char *name, const char *settings, const char *path)
{
    const struct task *task = task_find(name);
    const struct task_options options = task_options_of(name, settings);
    struct task_facts facts;
    struct dataset dataset;
    good(work, task->facts(work->host, &options, path, NULL, &facts));
    good(work, task->load(work->host, &options, &facts, path, SPLIT_TRAIN, 1, &dataset));
    assert_true(dataset.count > 0);
    dataset_free(work->host, &dataset);
    task_facts_free(work->host, &facts);
}

static void load(struct work *work, const char *name, const char *settings)
{
    load_path(work, name, settings, work->folder->path);
}

/* ---- expressions and needles -------------------------------------------------------------------------- */

static void make_expressions(struct work *work, size_t n)
{
    put_text(work, "Source\tTarget\r\n");
    put_repeated(work, "( ( ( [MAX 1 ) 2 ) ] )\t2\r\n", n);
    put_file(work, "basic_train.tsv");
}

/* One list, with many parentheses and blanks. */
static void make_expression(struct work *work, size_t n)
{
    put_text(work, "Source\tTarget\r\n");
    put_repeated(work, "1\t1\r\n", SHORT);
    put_repeated(work, "( ", n);
    put_text(work, "[SM");
    put_repeated(work, "  0 )", n);
    put_text(work, " ] )\t0\r\n");
    put_file(work, "basic_train.tsv");
}

static void read_listops(struct work *work)
{
    load(work, "listops", "");
}

static void make_needles(struct work *work, size_t n)
{
    put_repeated(work, "a\tbAc?\n", n);
    put_file(work, "train.tsv");
}

static void make_needle(struct work *work, size_t n)
{
    put_repeated(work, "a\tb?\n", SHORT);
    put_text(work, "a\t");
    put_repeated(work, "Ab", n);
    put_text(work, "?\n");
    put_file(work, "train.tsv");
}

static void read_needle(struct work *work)
{
    load(work, "needle", "");
}

/* ---- texts -------------------------------------------------------------------------------------------- */

/* n rows of a set in which a number differs. */
static void make_set(struct work *work, size_t n, const char *head, const char *const rows[2],
                     const char *const ends[2])
{
    put_text(work, head);
    for (size_t i = 0; i < n; i++)
        put_number(work, rows[i % 2], i, ends[i % 2]);
    put_file(work, "train.tsv");
}

static void load_set(struct work *work, const char *name)
{
    char settings[64];
    snprintf(settings, sizeof settings, "name=%s max_len=16 vocab_size=300", name);
    load(work, "glue", settings);
}

static void make_sst(struct work *work, size_t n)
{
    make_set(work, n, "sentence\tlabel\n", (const char *[]){"word ", "other "},
             (const char *[]){"\t1\n", "\t0\n"});
}

static void make_row(struct work *work, size_t n)
{
    put_text(work, "sentence\tlabel");
    put_repeated(work, "\tc", n);
    put_text(work, "\n");
    put_repeated(work, "a\t1\n", SHORT);
    put_repeated(work, "a ", n);
    put_text(work, "\t1");
    put_repeated(work, "\t", n);
    put_text(work, "\n");
    put_file(work, "train.tsv");
}

static void read_sst(struct work *work)
{
    load_set(work, "SST-2");
}

static void make_cola(struct work *work, size_t n)
{
    make_set(work, n, "", (const char *[]){"a\t1\t\tword ", "a\t0\t*\tword "}, (const char *[]){"\n", "\n"});
}

static void read_cola(struct work *work)
{
    load_set(work, "CoLA");
}

static void make_mrpc(struct work *work, size_t n)
{
    make_set(work, n, "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n",
             (const char *[]){"1\t1\t2\tsome\tword ", "0\t1\t2\t\"some\tword "},
             (const char *[]){"\r\n", "\r\n"});
}

static void read_mrpc(struct work *work)
{
    load_set(work, "MRPC");
}

static void make_qqp(struct work *work, size_t n)
{
    make_set(work, n, "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n",
             (const char *[]){"0\t0\t0\tword ", "0\t0\t0\tother "},
             (const char *[]){"\tword\t1\n", "\tword\t0\n"});
}

static void read_qqp(struct work *work)
{
    load_set(work, "QQP");
}

static void make_stsb(struct work *work, size_t n)
{
    make_set(work, n, "index\tgenre\tsentence1\tsentence2\tscore\n",
             (const char *[]){"0\tnews\ta cat\tword ", "0\tnews\ta dog\tword "},
             (const char *[]){"\t4.50\n", "\t0.25\n"});
}

static void read_stsb(struct work *work)
{
    load_set(work, "STS-B");
}

static void make_mnli(struct work *work, size_t n)
{
    make_set(work, n, "index\tlabel1\tsentence1\tsentence2\tgold_label\n",
             (const char *[]){"0\t-\ta cat\tword ", "0\t-\ta dog\tword "},
             (const char *[]){"\tentailment\n", "\tneutral\n"});
}

static void read_mnli(struct work *work)
{
    load_set(work, "MNLI");
}

static void make_qnli(struct work *work, size_t n)
{
    make_set(work, n, "index\tquestion\tsentence\tlabel\n",
             (const char *[]){"0\twhat\tword ", "0\twho\tword "},
             (const char *[]){"\tentailment\n", "\tnot_entailment\n"});
}

static void read_qnli(struct work *work)
{
    load_set(work, "QNLI");
}

static void make_rte(struct work *work, size_t n)
{
    make_set(work, n, "index\tsentence1\tsentence2\tlabel\n",
             (const char *[]){"0\ta cat\tword ", "0\ta cat\tword "},
             (const char *[]){"\tentailment\n", "\tnot_entailment\n"});
}

static void read_rte(struct work *work)
{
    load_set(work, "RTE");
}

static void make_pairs(struct work *work, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_number(work, i % 2 == 0 ? "0\tone\ttwo " : "1\tone\ttwo ", i, "\n");
    put_file(work, "train.tsv");
}

static void make_pair(struct work *work, size_t n)
{
    put_repeated(work, "0\ta\tb\n1\ta\tb\n", SHORT);
    put_text(work, "0\t");
    put_repeated(work, "one ", n);
    put_text(work, "\t");
    put_repeated(work, "two ", n);
    put_text(work, "\n");
    put_file(work, "train.tsv");
}

static void read_retrieval(struct work *work)
{
    load(work, "retrieval", "max_len=16");
}

static void make_words(struct work *work, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_number(work, i % 16 == 0 ? "\nw" : " w", i, "");
    put_text(work, "\n");
    put_file(work, "train.txt");
}

static void make_line_of_words(struct work *work, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_number(work, "w", i, " ");
    put_text(work, "\n");
    put_file(work, "train.txt");
}

static void read_lm(struct work *work)
{
    load(work, "lm", "vocabulary=words seq_len=16 max_words=1000000");
}

static void read_bpe(struct work *work)
{
    load(work, "lm", "vocabulary=bpe seq_len=16 max_words=300");
}

static void make_vocabulary(struct work *work, size_t n)
{
    put_text(work, "<unk>\n<eos>\n");
    for (size_t i = 0; i < n; i++)
        put_number(work, "w", i, "\n");
    work->ids = calloc(1, sizeof *work->ids);
    work->ids[0] = (uint32_t)n + 2;
}

static void read_vocabulary(struct work *work)
{
    struct words *words;
    good(work, words_parse(work->host, work->text, work->size, work->ids[0], &words));
    words_free(work->host, words);
}

/* ---- documents and token files ------------------------------------------------------------------------ */

/* Blank lines that no text is between. */
static void make_blank(struct work *work, size_t n)
{
    put_text(work, "a");
    put_repeated(work, "\n \t\n", n);
    put_file(work, "a.txt");
}

/* A line that is longer than a block of lines. */
static void make_long_line(struct work *work, size_t n)
{
    put_repeated(work, "word. ", n);
    put_file(work, "a.txt");
}

static void make_headings(struct work *work, size_t n)
{
    put_repeated(work, " = A = \n = = B = = \nc\n", n);
    put_file(work, "a.tokens");
}

static void make_objects(struct work *work, size_t n)
{
    put_repeated(work, "{\"text\": \"a. b!\\nc\"}\n", n);
    put_file(work, "a.jsonl");
}

static void read_sections(struct work *work, const char *name)
{
    char path[LINEAR_PATH];
    const char *files[] = {path};
    struct section_reader reader;
    struct section_block block = {.text = NULL};
    struct sentences sentences = {.text = NULL};
    path_of(work, name, path);
    good(work, section_reader_open(work->host, files, 1, DOCUMENTS_BLANK_LINES, 50, &reader));
    do {
        good(work, section_reader_next(&reader, &block));
        for (size_t i = 0; i < block.count; i++) {
            const struct text_section *section = &block.list[i];
            good(work, sentences_split(work->host, (struct piece){block.text + section->start, section->size},
                                       section->wrapped, &sentences));
        }
    } while (block.count > 0);
    section_reader_close(&reader);
    section_block_free(work->host, &block);
    sentences_free(work->host, &sentences);
}

static void read_txt(struct work *work)
{
    read_sections(work, "a.txt");
}

static void read_wiki(struct work *work)
{
    read_sections(work, "a.tokens");
}

static void read_jsonl(struct work *work)
{
    read_sections(work, "a.jsonl");
}

static void make_tokens(struct work *work, size_t n)
{
    static const uint32_t ids[] = {3, 4, 5};
    const struct token_header header = {.order = ORDER_SOP, .num_ids = 6, .seq_len = 8};
    char path[LINEAR_PATH];
    struct token_writer writer;
    path_of(work, "train.tokens", path);
    good(work, token_writer_open(work->host, path, &header, 1, 2, &writer));
    for (size_t i = 0; i < n; i++)
        good(work, token_writer_add(work->host, &writer, (struct token_span){ids, 3},
                                    (struct token_span){ids, 2}, i % 2));
    good(work, token_writer_commit(work->host, &writer));
}

static void read_tokens(struct work *work)
{
    char path[LINEAR_PATH];
    struct token_header header;
    struct dataset dataset;
    path_of(work, "train.tokens", path);
    good(work, token_file_map(work->host, path, &header, &dataset));
    dataset_free(work->host, &dataset);
}

/* ---- pictures ----------------------------------------------------------------------------------------- */

static void make_cifar(struct work *work, size_t n)
{
    static const char image[1 + 3072] = {7};
    for (size_t i = 0; i < n; i++)
        put(work, image, sizeof image);
    put_file(work, "data_batch_1.bin");
}

static void put_sizes(struct work *work, char rank, size_t n)
{
    put(work, (const char[]){0, 0, 8, rank, 0, (char)(n >> 16), (char)(n >> 8), (char)n}, 8);
}

/* Images of one pixel. */
static void make_mnist(struct work *work, size_t n)
{
    put_sizes(work, 3, n);
    put(work, "\0\0\0\1\0\0\0\1", 8);
    put_repeated(work, "p", n);
    put_file(work, "train-images-idx3-ubyte");
    put_sizes(work, 1, n);
    put_repeated(work, "\7", n);
    put_file(work, "train-labels-idx1-ubyte");
}

static void read_image(struct work *work)
{
    load(work, "image", "");
}

static void make_contours(struct work *work, size_t n)
{
    put_repeated(work, "P5\n# label 1\n1 1\n255\na", n);
    put_file(work, "train.pgm");
}

static void put_folders(struct work *work)
{
    static const char *const names[] = {"metadata", "imgs"};
    char path[LINEAR_PATH];
    for (size_t i = 0; i < 2; i++) {
        path_of(work, names[i], path);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    folder_put_text(work->folder, "imgs/a.pgm", "P2 1 1 255 7\n");
}

static void make_metadata(struct work *work, size_t n)
{
    put_folders(work);
    put_repeated(work, "imgs a.pgm 0 1 14\n", n);
    put_file(work, "metadata/1.npy");
}

/* One line has a long field, and nothing is read from it. */
static void make_long_field(struct work *work, size_t n)
{
    put_folders(work);
    put_repeated(work, "imgs a.pgm 0 1 14\n", SHORT);
    put_text(work, "imgs a.pgm ");
    put_repeated(work, "000", n);
    put_text(work, " 1\n");
    put_file(work, "metadata/1.npy");
}

static void make_metadata_files(struct work *work, size_t n)
{
    char name[40];
    put_folders(work);
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "metadata/%zu.npy", i);
        folder_put_text(work->folder, name, "imgs a.pgm 0 1\n");
    }
}

static void read_pathfinder(struct work *work)
{
    load(work, "pathfinder", "");
}

/* ---- series ------------------------------------------------------------------------------------------- */

static void make_hours(struct work *work, size_t n)
{
    put_text(work, "date,OT\n");
    for (size_t i = 0; i < n; i++) {
        char text[40];
        struct tm date;
        time_t seconds = (time_t)(3600 * i);
        assert_non_null(gmtime_r(&seconds, &date));
        put(work, text, strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &date));
        put_number(work, ",", i % 7, "\n");
    }
    put_file(work, "table.csv");
}

static void read_forecast(struct work *work)
{
    char path[LINEAR_PATH];
    path_of(work, "table.csv", path);
    load_path(work, "forecast", "seq_len=4 horizon=2 patch_len=2", path);
}

/* ---- the comparison ----------------------------------------------------------------------------------- */

static const struct linear readers[] = {
    {"expressions", 40000, make_expressions, read_listops},
    {"a long expression", 200000, make_expression, read_listops},
    {"needles", 80000, make_needles, read_needle},
    {"a long needle", 300000, make_needle, read_needle},
    {"rows of SST-2", 24000, make_sst, read_sst},
    {"a long row of SST-2", 240000, make_row, read_sst},
    {"rows of CoLA", 24000, make_cola, read_cola},
    {"rows of MRPC", 20000, make_mrpc, read_mrpc},
    {"rows of QQP", 16000, make_qqp, read_qqp},
    {"rows of STS-B", 20000, make_stsb, read_stsb},
    {"rows of MNLI", 20000, make_mnli, read_mnli},
    {"rows of QNLI", 20000, make_qnli, read_qnli},
    {"rows of RTE", 20000, make_rte, read_rte},
    {"pairs of documents", 40000, make_pairs, read_retrieval},
    {"a long pair of documents", 800000, make_pair, read_retrieval},
    {"text for a byte-pair tokenizer", 40000, make_words, read_bpe},
    {"lines of words", 80000, make_words, read_lm},
    {"a long line of words", 80000, make_line_of_words, read_lm},
    {"a vocabulary of words", 80000, make_vocabulary, read_vocabulary},
    {"blank lines", 400000, make_blank, read_txt},
    {"a long line", 2000000, make_long_line, read_txt},
    {"headings", 160000, make_headings, read_wiki},
    {"lines of JSON", 80000, make_objects, read_jsonl},
    {"a token file", 160000, make_tokens, read_tokens},
    {"images of CIFAR-10", 1200, make_cifar, read_image},
    {"images of MNIST", 240000, make_mnist, read_image},
    {"pictures of contours", 80000, make_contours, read_pathfinder},
    {"lines of metadata", 2000, make_metadata, read_pathfinder},
    {"a long field of metadata", 1000000, make_long_field, read_pathfinder},
    {"files of metadata", 1200, make_metadata_files, read_pathfinder},
    {"dates of a series", 40000, make_hours, read_forecast},
};

static void time_grows_as_the_input(void **state)
{
    (void)state;
    linear_check_all(readers, sizeof readers / sizeof *readers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_grows_as_the_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
