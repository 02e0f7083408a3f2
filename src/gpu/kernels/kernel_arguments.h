/* Structs that the host passes to kernels. Included by both compilers, so it includes nothing: on every
   machine with a GPU, unsigned has 32 bits and unsigned long long 64. Addresses are numbers.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNEL_ARGUMENTS_H
#define GPU_KERNEL_ARGUMENTS_H

enum { GPU_QUERIES, GPU_KEYS, GPU_SIDES };

/* What a kernel found wrong: the upper 4 bits of a word of which the smallest is kept. Below them are 28 bits
   that name the unit and 32 of the row. */
enum gpu_finding {
    GPU_SAVED, /* not what forward of this call wrote */
    GPU_QUERY, /* NaN or infinity */
    GPU_KEY,
    GPU_VALUE,
    GPU_DOUT,
    GPU_OVERFLOW, /* a result is beyond float32 */
    GPU_FINDINGS
};
#define GPU_FINDING_SHIFT 60
#define GPU_UNIT_SHIFT    32
#define GPU_HEAD_BITS     12 /* of the unit's name; 16 are of the sequence. Larger numbers are cut */
#define GPU_NOTHING       (~0ULL)
#define GPU_EVERY_KEY     (~0ULL)

/* One head of one sequence. */
struct gpu_unit {
    unsigned rows[GPU_SIDES]; /* queries; keys that take part */
    unsigned all_keys;        /* masked ones too */
    unsigned sequence, head;
    unsigned name;                       /* both, as a finding has them */
    unsigned turn;                       /* index of its permutation and signs */
    unsigned aligned;                    /* 0: keeps the 64-bit fields below aligned */
    unsigned long long first[GPU_SIDES]; /* packed number of its first row */
    unsigned long long kept; /* index of its first entry in the list of kept keys, or GPU_EVERY_KEY */
    /* Bytes into the block of codes: codes (m, rows rounded up to 8), and 1 / |row| as floats. */
    unsigned long long codes[GPU_SIDES], inverse[GPU_SIDES];
    unsigned long long length; /* bytes into `saved`: what the normalisation keeps */
};

/* The caller's rows: row r of head h starts at data + (first + r) * row_stride + h * head_stride elements, or
   if padded, at data + sequence * sequence_stride + r * row_stride + h * head_stride. */
struct gpu_rows {
    unsigned long long data, sequence_stride, row_stride, head_stride;
    unsigned width;
    unsigned half;   /* 1: bfloat16, 0: float */
    unsigned padded; /* 0 or 1 */
    unsigned aligned;
};

/* Rows in device memory, (units, longest, D). */
struct gpu_array {
    unsigned long long data;
    unsigned half; /* 1: bfloat16, 0: float */
    unsigned aligned;
};

/* The rows of one side sorted by the codes of some hashes: (units, hashes, ld) each, starts (units, hashes,
   2^tau + 1). */
struct gpu_order {
    unsigned long long rows;   /* unsigned */
    unsigned long long codes;  /* unsigned short */
    unsigned long long starts; /* unsigned */
};

/* Sums over the pairs of one hash: out_i += <a_i, b_j> c_j / |c_j|, i of side `own`, j of the other. */
struct gpu_pairs {
    struct gpu_array a, b, c;
    unsigned long long out;        /* (units, longest, D) floats */
    unsigned long long codes;      /* the block of codes, with 1 / |c_j| */
    unsigned long long own_bias;   /* (units, longest): added to <a_i, b_j>; 0: none */
    unsigned long long other_bias; /* the same by j */
    unsigned long long kept;       /* list of kept keys */
    struct gpu_order order[GPU_SIDES];
    struct gpu_array own_rows; /* of yoso_weigh: those of side `own`, which c has of the other */
    unsigned own;
    unsigned longest, ld, hash_bits;
    unsigned hashes, hash; /* hashes of the orders, and the one to use */
    unsigned causal;       /* 1: a query meets the keys up to its own place */
    /* A bucket of a own rows and b others is dense if a b > dense (a + b): yoso_dense sums its d x d matrix,
       and yoso_pairs leaves it out. */
    unsigned dense;
    /* Of yoso_weigh: all hashes, and 1 for gradient released, 0 for true. */
    unsigned num_hashes, released;
};

#endif
