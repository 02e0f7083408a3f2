/* Pictures of dots as PNG files: colours of a palette, compressed runs of equal bytes (deflate with its fixed
   codes, RFC 1951). The picture of a forecast takes about 65 KB.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PNG_H
#define CLI_PNG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* pixels: (height, width) indices of colours, each red, green, blue. */
void png_write(FILE *file, const uint8_t *pixels, size_t width, size_t height, const uint8_t colours[256][3]);

#endif
