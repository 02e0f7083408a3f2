/* How vec_*.h define the vector words that are one expression: a line for each, so that the sets can be
   compared line by line.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_VEC_WORD_H
#define KERNELS_VEC_WORD_H

/* WORD(vf, v_add, (vf a, vf b), a + b) is the inline function vf v_add(vf a, vf b). */
#define WORD(type, name, parameters, ...)                                                                    \
    static inline type name parameters                                                                       \
    {                                                                                                        \
        return __VA_ARGS__;                                                                                  \
    }

#endif
