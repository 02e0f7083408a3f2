/* Places for outputs, looked at before the work and before a file is written.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include <stddef.h>

/* Check that a file that the user named can be written ("-" always can), or a directory be made or filled,
   and change nothing. Return EXIT_GOOD, or EXIT_RESOURCE with a message. */
int outputs_check_file(const char *path);
int outputs_check_directory(const char *path);

/* EXIT_USAGE with a message if the file that `option` names is one of the inputs, which it would replace:
   the same file by any name, or a file of a folder of documents. path and inputs may be NULL or "-". */
int outputs_check_inputs(const char *option, const char *path, const char *const *inputs, size_t count);
/* The same if it is a file of the stored model or tokenizer, or has the name of one that is not there yet.
   `model` is a folder or a file; it may be NULL or missing. */
int outputs_check_model(const char *option, const char *path, const char *model);
/* The same if two options name one file, by any path, or both name standard output. Either path may be NULL;
   a device such as /dev/null may be named twice. */
int outputs_check_two(const char *option, const char *path, const char *other, const char *other_path);

/* Before a file is written whose name the tool chose: removes a link, pipe or device of this name, which may
   have been planted in a directory that others can write. */
void outputs_own(const char *path);

#endif
