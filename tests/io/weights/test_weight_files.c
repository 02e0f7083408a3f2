/* One file or several with an index: every tensor is found, and a directory whose files and index disagree is
   refused with the names. Bugs planted and caught: the first file only searched; an index whose file lacks a
   tensor accepted; tensors beyond the index accepted; a path in the index followed; the archive taken for
   missing weights; mapped files kept after a failure; the path of an index before that of its file.
   SPDX-License-Identifier: Apache-2.0 */
#include "io/weights/weight_files.h"

#include <stdio.h>
#include <string.h>

#include "support/folder.h"

static const float numbers[] = {1, 2, 3};

static void put_file(struct folder *folder, const char *name, const struct tensor *tensors, size_t count)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    check_status(&folder->host, safetensors_write(&folder->host, path, tensors, count, NULL, 0), HASHATTN_OK,
                 NULL);
}

static void put_shards(struct folder *folder)
{
    const struct tensor first[] = {
        {.name = "a", .type = TENSOR_F32, .rank = 1, .shape = {1}, .data = numbers}};
    const struct tensor second[] = {
        {.name = "b", .type = TENSOR_F32, .rank = 1, .shape = {2}, .data = numbers},
        {.name = "c", .type = TENSOR_F32, .rank = 1, .shape = {3}, .data = numbers}};
    put_file(folder, "one.safetensors", first, 1);
    put_file(folder, "two.safetensors", second, 2);
}

#define INDEX(map) "{\"metadata\": {\"total_size\": 24}, \"weight_map\": {" map "}}"
static const char index_name[] = "model.safetensors.index.json";

static void check_refused(struct folder *folder, const char *part)
{
    struct weight_files weights;
    check_status(&folder->host, weight_files_open(&folder->host, folder->path, &weights), HASHATTN_BAD_FILE,
                 part);
    assert_true(weights.files == NULL && weights.num_files == 0);
}

static void files_of_an_index_are_one(void **state)
{
    struct folder *folder = *state;
    struct weight_files weights;
    const struct safetensors *file;
    put_shards(folder);
    folder_put_text(
        folder, index_name,
        INDEX("\"c\": \"two.safetensors\", \"a\": \"one.safetensors\", \"b\": \"two.safetensors\""));
    check_status(&folder->host, weight_files_open(&folder->host, folder->path, &weights), HASHATTN_OK, NULL);
    assert_int_equal(weights.num_files, 2);
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        const struct tensor *tensor = weight_files_find(&weights, names[i], &file);
        assert_int_equal(tensor->shape[0], i + 1);
        check_same_bits(tensor->data, numbers, (i + 1) * sizeof *numbers, names[i]);
        assert_ptr_equal(safetensors_find(file, names[i]), tensor);
        assert_true((const char *)tensor->data > file->map.bytes);
    }
    assert_null(weight_files_find(&weights, "d", NULL));
    weight_files_close(&folder->host, &weights);
    weight_files_close(&folder->host, &weights);
}

static void one_file_needs_no_index(void **state)
{
    struct folder *folder = *state;
    struct weight_files weights;
    const struct tensor tensor = {.name = "a", .type = TENSOR_F32, .rank = 1, .shape = {3}, .data = numbers};
    put_file(folder, "model.safetensors", &tensor, 1);
    folder_put_text(folder, "pytorch_model.bin", "pickle"); /* not looked at beside it */
    check_status(&folder->host, weight_files_open(&folder->host, folder->path, &weights), HASHATTN_OK, NULL);
    check_same_bits(weight_files_find(&weights, "a", NULL)->data, numbers, sizeof numbers, "data");
    weight_files_close(&folder->host, &weights);
    folder_put(folder, "model.safetensors", "", 0);
    check_refused(folder, "model.safetensors: not a safetensors file: 0 bytes");
}

static void indices_that_lie_are_refused(void **state)
{
    struct folder *folder = *state;
    static const struct {
        const char *index, *part;
    } cases[] = {
        {INDEX("\"a\": \"one.safetensors\", \"c\": \"one.safetensors\""),
         "'c' is not in the file one.safetensors"},
        {INDEX("\"a\": \"one.safetensors\", \"b\": \"two.safetensors\""),
         "weight_map has 2 tensors, its files have 3"},
        {INDEX("\"a\": \"x/one.safetensors\""),
         "'a' the file 'x/one.safetensors', a name without / is needed"},
        {INDEX("\"a\": \".\""), "a name without / is needed"},
        {INDEX("\"a\": 1"), "a name without / is needed"},
        {INDEX("\"a\": \"none.safetensors\""), "none.safetensors: cannot open: No such file"},
        {INDEX(""), "index.json: weight_map is empty"},
        {"{}", "'weight_map' is missing"},
        {"{", "index.json: "},
    };
    put_shards(folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder_put_text(folder, index_name, cases[i].index);
        check_refused(folder, cases[i].part);
        const char *message = folder->host.message, *path = strstr(message, folder->path);
        assert_true(path == message && strstr(path + 1, folder->path) == NULL); /* told once */
    }
}

static void archives_are_refused_with_the_command(void **state)
{
    struct folder *folder = *state;
    check_refused(folder, "has neither model.safetensors nor model.safetensors.index.json");
    folder_put_text(folder, "pytorch_model.bin", "pickle");
    check_refused(folder, "pytorch_model.bin: a pickled archive can run code, so it is not read; convert it");
    check_refused(folder,
                  "torch.load(f, weights_only=True).items()}, 'model.safetensors', {'format': 'pt'})\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_of_an_index_are_one, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(one_file_needs_no_index, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(indices_that_lie_are_refused, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(archives_are_refused_with_the_command, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
