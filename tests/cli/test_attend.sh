#!/bin/sh
# `attend`: results against plain loops, every shape, every kind of bad input, and no partly written output.
# Planted and caught: the mask of the first sequence used for all; gradients of k and v exchanged on disk; the
# batch read as heads; a NaN with exit code 2; y.npy modified although the disk is full; the seed ignored; with --chunk: the
# mask of the first sequence used for all, every head hashed as the first, the first head's rows used for all, memory
# allocated for all rows of --chunk; a bad number without its file.
# Covers: cmd_attend.c attend_chunks.c attend_fail.c halves.c
. "$(dirname "$0")/checks.sh"
npy=$source_dir/tests/cli/npy.py
attend() { "$tool" attend "$@" >out 2>err; code=$?; }
arrays="--q q.npy --k k.npy --v v.npy"

for rank in 2 3 4; do
    python3 "$npy" make $rank
    attend --attention softmax $arrays --grad-out g.npy --grad-dir grads --out y.npy
    holds softmax_of_rank_$rank python3 "$npy" judge $rank 1111111
done
[ -s out ] && failed attend_is_silent "$(cat out)" || passed attend_is_silent

# bf16: input and output are rounded to bfloat16; files hold them as float32 with 16 zero bits.
cp y.npy y32.npy
attend --attention softmax $arrays --grad-out g.npy --grad-dir halves --out y16.npy --precision bf16 --json
cp out y16.json
holds bf16_is_said json y16.json 'd["precision"] == "bf16"'
holds bf16_in_and_out python3 - "$source_dir/tests/cli" <<'P'
import struct
import sys
sys.path.insert(0, sys.argv[1])
import npy
for half, single in (("y16.npy", "y32.npy"), ("halves/dq.npy", "grads/dq.npy"), ("halves/dv.npy", "grads/dv.npy")):
    a, b = npy.flat(npy.read(half)), npy.flat(npy.read(single))
    large = max(map(abs, b))
    # Operands are rounded by at most 2^-9 of their value, scores change by a few times that, output by another 2^-9.
    assert all(abs(x - y) <= 2 ** -4 * large for x, y in zip(a, b)), half
    assert all(struct.unpack("<I", struct.pack("<f", x))[0] & 0xffff == 0 for x in a), half
    assert a != b, half
P

expect chunks_are_float32 2 "--chunk computes on float32 arrays, but --precision is bf16" attend --attention yoso $arrays --out y.npy --chunk 4 --precision bf16

# Masks: bool or bytes, for the whole batch or per sequence.
python3 "$npy" raw m.npy '|b1' '(7,)' 01000101010001
attend --attention softmax $arrays --mask m.npy --grad-out g.npy --grad-dir grads --out y.npy
holds mask_for_all python3 "$npy" judge 4 1011101
python3 "$npy" raw m.npy '|u1' '(2,7)' 0100010101000101000101010001
cp y.npy want.npy
attend --attention softmax $arrays --mask m.npy --out y.npy
holds mask_for_each_the_same cmp y.npy want.npy
python3 "$npy" raw m.npy '|u1' '(2,7)' 0100010101000101010101010101
attend --attention softmax $arrays --mask m.npy --out y.npy
cmp -s y.npy want.npy && failed mask_for_each_differs "the second row was not used" || passed mask_for_each_differs
python3 "$npy" raw m.npy '|b1' '(7,)' 00000000000000
attend --attention yoso $arrays --mask m.npy --out y.npy
holds all_masked_is_zero python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import npy; sys.exit(any(npy.flat(npy.read("y.npy"))))' "$source_dir/tests/cli"

# Sampling: output depends on the seed, not on the number of threads or on the other sequences of the batch.
for seed in 1 2; do attend --attention yoso $arrays --seed $seed --threads 1 --out y$seed.npy; done
attend --attention yoso $arrays --seed 1 --threads 3 --grad-out g.npy --grad-dir other --out y3.npy
holds threads_change_no_bit cmp y1.npy y3.npy
cmp -s y1.npy y2.npy && failed seed_matters "two seeds, one output" || passed seed_matters
attend --attention yoso --planes gaussian --num-hashes 8 --hash-bits 4 --normalize none --gradient true $arrays --out y4.npy
[ "$code" = 0 ] && passed options_of_the_mechanism || failed options_of_the_mechanism "$(cat err)"
python3 - "$source_dir/tests/cli" <<'P'
import sys
sys.path.insert(0, sys.argv[1])
import npy
for name in "qkv":
    npy.write(f"{name}1.npy", npy.read(f"{name}.npy")[1])
npy.write("want.npy", npy.read("y1.npy")[1])
P
attend --attention yoso --q q1.npy --k k1.npy --v v1.npy --seed 1 --out y.npy
same_data() { tail -c "$1" "$2" >a.bin; tail -c "$1" "$3" >b.bin; cmp a.bin b.bin; } # headers may differ
holds alone_as_in_the_batch same_data 360 y.npy want.npy

# Causal: row i is the same as with only rows 0 to i.
rows() { # rows N FILE: the first N rows of every head
    python3 - "$source_dir/tests/cli" "$1" "$2" <<'P'
import sys
sys.path.insert(0, sys.argv[1])
import npy
n, name = int(sys.argv[2]), sys.argv[3]
npy.write("cut_" + name, [[head[:n] for head in batch] for batch in npy.read(name)])
P
}
for mechanism in yoso yoso-e softmax; do
    attend --attention $mechanism --causal --q q.npy --k q.npy --v g.npy --out y.npy
    for n in 1 2 3 4 5; do
        rows $n q.npy
        rows $n g.npy
        attend --attention $mechanism --q cut_q.npy --k cut_q.npy --v cut_g.npy --out alone$n.npy
    done
    holds causal_$mechanism python3 - "$source_dir/tests/cli" <<'P'
import sys
sys.path.insert(0, sys.argv[1])
import npy
y = npy.read("y.npy")
worst = 0
for n in range(1, 6):
    alone = npy.read(f"alone{n}.npy")
    for b, batch in enumerate(y):
        for h, head in enumerate(batch):
            worst = max(worst, max(abs(a - c) for a, c in zip(head[n - 1], alone[b][h][n - 1])))
sys.exit(worst > 1e-5)
P
done

# --chunk: the same bytes as without, with heads, batch and masks, causal or not.
python3 "$npy" raw m.npy '|u1' '(2,7)' 0100010101000101010101010101
for rows in 1 3 100; do
    attend --attention yoso --normalize sum $arrays --mask m.npy --out y.npy
    attend --attention yoso --normalize sum $arrays --mask m.npy --chunk $rows --out chunks.npy
    holds chunks_of_$rows cmp y.npy chunks.npy
    attend --attention yoso --causal --q q.npy --k q.npy --v g.npy --out y.npy
    attend --attention yoso --causal --q q.npy --k q.npy --v g.npy --chunk $rows --threads 3 --out chunks.npy
    holds causal_chunks_of_$rows cmp y.npy chunks.npy
done
# Shared planes: in chunks, and on several threads as in one call, and not as without.
attend --attention yoso --num-hashes 40 --plane-pool 13 $arrays --mask m.npy --out y.npy
attend --attention yoso --num-hashes 40 --plane-pool 13 $arrays --mask m.npy --chunk 2 --threads 3 --out chunks.npy
holds chunks_with_shared_planes cmp y.npy chunks.npy
attend --attention yoso --num-hashes 40 --plane-pool 41 $arrays --mask m.npy --out chunks.npy
cmp -s y.npy chunks.npy && failed planes_are_shared "the same output" || passed planes_are_shared
expect pools_of_chunks 2 "yoso: --plane-pool is 21; it must be a prime number" attend --plane-pool 21 $arrays --chunk 3 --out new.npy
attend $arrays --chunk 3 --out y.npy --json
cp out report.json
holds report_of_chunks json report.json 'd["scratch_bytes"] > 300000 and d["peak_rss_bytes"] > 1 << 20 and d["forward_ms"] > 0'
# Chunks that no memory holds: a file of 1.8 GB, of which no block is on the disk.
if [ -z "${HASHATTN_SANITIZED:-}" ]; then
    python3 "$npy" raw long.npy '<f4' '(7000000, 64)' ''
    truncate -s $(($(wc -c <long.npy) + 1792000000)) long.npy
    (ulimit -v 4000000 && exec "$tool" attend --q long.npy --k long.npy --v long.npy --chunk 7000000 --out y.npy) >out 2>err
    code=$?
    [ $code = 4 ] && grep -qF "no memory for chunks of 7000000 rows, 64 and 64 wide" err && passed no_memory_for_chunks ||
        failed no_memory_for_chunks "code $code: $(head -c 300 err)"
    rm long.npy
fi
# A chunk longer than the sequence allocates memory only for the sequence.
huge_chunk() { # FORM, arguments
    form=$1
    shift
    attend "$@" --out y.npy
    attend "$@" --chunk 7 --out chunks.npy --json
    cp out of_7.json
    rm chunks.npy
    attend "$@" --chunk 1000000000 --out chunks.npy --json
    cp out of_huge.json
    holds "huge_chunk_of_$form" cmp y.npy chunks.npy
    holds "bytes_of_huge_chunk_of_$form" json of_huge.json "d['scratch_bytes'] == json.load(open('of_7.json'))['scratch_bytes'] < 8 << 20"
}
huge_chunk yoso $arrays
huge_chunk yoso_causal --causal --q q.npy --k q.npy --v g.npy
huge_chunk yoso_sum --normalize sum $arrays
python3 "$npy" raw e.npy '<f4' '(0, 4)' ''
says chunks_of_empty_arrays '"queries": 0' attend --q e.npy --k e.npy --v e.npy --chunk 1000000000 --out chunks.npy --json
expect chunks_need_a_state 2 "softmax has no state of constant size" attend --attention softmax $arrays --chunk 3 --out new.npy
expect chunks_have_no_gradient 2 "--chunk computes no gradients" attend $arrays --chunk 3 --grad-out g.npy --grad-dir grads --out new.npy
expect chunks_of_nothing 2 "--chunk" attend $arrays --chunk 0 --out new.npy
expect chunks_are_not_of_standard_input 2 "--chunk needs files, but --k is -, standard input" attend --q q.npy --k - --v v.npy --chunk 3 --out new.npy
expect standard_input_is_read_once 2 "--q and --v are both -, standard input" attend --q - --k k.npy --v - --out new.npy
expect chunks_need_files 3 "is a device, a regular file is needed" attend $arrays --chunk 3 --mask /dev/null --out new.npy
expect causal_chunks_need_as_many 2 "q.npy has 5 rows and k.npy has 7; --causal needs equal numbers" attend --causal $arrays --chunk 3 --out new.npy
expect chunks_of_tables_too_large 4 "this machine has" attend $arrays --chunk 3 --hash-bits 24 --num-hashes 4096 --out new.npy
head -c 200 q.npy >bad.npy
expect chunks_of_a_cut_file 3 "bad.npy: cut short" attend --q bad.npy --k k.npy --v v.npy --chunk 3 --out new.npy
python3 - "$source_dir/tests/cli" <<'P'
import sys
sys.path.insert(0, sys.argv[1])
import npy
a = npy.read("k.npy")
a[1][2][5][0] = float("nan")
npy.write("bad.npy", a)
P
expect chunks_of_nan 3 "hashattn: bad.npy: key is nan at row 5 of the sequence" attend --q q.npy --k bad.npy --v v.npy --chunk 3 --out new.npy

# Streams and the report.
"$tool" attend --attention softmax --q - --k k.npy --v v.npy --out - <q.npy >streamed.npy 2>err
attend --attention softmax $arrays --out y.npy
holds streams_of_arrays cmp y.npy streamed.npy
attend --attention softmax $arrays --out y.npy --json
cp out report.json
holds fields_of_report json report.json 'list(d) == "attention batch heads queries keys saved_bytes scratch_bytes peak_rss_bytes forward_ms isa precision threads".split() and d["peak_rss_bytes"] > 1 << 20 and d["scratch_bytes"] > 0 and d["precision"] == "float32"'
attend --attention softmax $arrays --out - --json --threads 2 --grad-out g.npy --grad-dir grads
cp err report_of_stream.json
holds report_beside_a_stream json report_of_stream.json 'd["threads"] == 2 and d["backward_ms"] > 0 and list(d)[9] == "backward_ms"'
holds stream_beside_a_report cmp out streamed.npy
holds report_is_json json report.json 'd["attention"] == "softmax" and (d["batch"], d["heads"], d["queries"], d["keys"]) == (2, 3, 5, 7) and d["forward_ms"] > 0 and d["saved_bytes"] >= 0 and "backward_ms" not in d'
python3 "$npy" raw e.npy '<f4' '(0, 4)' ''
python3 "$npy" raw k2.npy '<f4' '(1, 4)' 00000000000000000000000000000000
says no_queries_is_no_error '"queries": 0' attend --q e.npy --k k2.npy --v k2.npy --out y.npy --json
says no_keys_is_no_error '"keys": 0' attend --q k2.npy --k e.npy --v e.npy --out y.npy --json
holds zero_vectors_are_no_error same_data 16 y.npy k2.npy

# Usage errors.
expect operand_of_attend 2 "attend takes no operand, got 'q.npy'" attend q.npy
expect q_is_missing 2 "attend needs --q FILE" attend
expect out_is_missing 2 "attend needs --out FILE" attend $arrays
expect grad_dir_is_missing 2 "--grad-out and --grad-dir" attend $arrays --out y.npy --grad-out g.npy
expect unknown_mechanism 2 "no mechanism 'yosso'" attend --attention yosso $arrays --out y.npy
expect foreign_option 2 "softmax has no option 'num_hashes'" attend --attention softmax --num-hashes 4 $arrays --out y.npy
expect absurd_hash_bits 2 "--hash-bits is 40, allowed are 1 to 24" attend --hash-bits 40 $arrays --out y.npy
expect absurd_num_hashes 2 "--num-hashes is 4000000000" attend --num-hashes 4000000000 $arrays --out y.npy
expect number_without_end 2 "--hash-bits is" attend --hash-bits 99999999999999999999999 $arrays --out y.npy
expect causal_needs_as_many 2 "5 queries and 7 keys; causal attention needs equal numbers" attend --causal $arrays --out y.npy
expect none_needs_as_many 2 "5 queries, 7 keys" attend --attention none $arrays --out y.npy

# --map neyshabur: its bound M, and rows longer than M.
attend --attention yoso-e --map neyshabur $arrays --grad-out g.npy --grad-dir grads --out y.npy
[ "$code" = 0 ] && passed map_with_the_longest_row || failed map_with_the_longest_row "$(cat err)"
attend --attention yoso --map neyshabur --max-norm 50 --causal --q q.npy --k q.npy --v g.npy --out y.npy
attend --attention yoso --map neyshabur --max-norm 50 --causal --q q.npy --k q.npy --v g.npy --chunk 2 --out chunks.npy
holds map_in_chunks cmp y.npy chunks.npy
expect row_longer_than_m 3 "; --max-norm is 0.001" attend --map neyshabur --max-norm 0.001 $arrays --out new.npy
expect row_of_a_chunk_longer_than_m 3 "key has length" attend --map neyshabur --max-norm 0.001 --chunk 3 $arrays --out new.npy
expect causal_map_needs_m 2 "--map neyshabur needs --max-norm" attend --map neyshabur --causal --q q.npy --k q.npy --v g.npy --out new.npy
expect chunks_with_map_need_m 2 "--map neyshabur needs --max-norm" attend --map neyshabur --chunk 3 $arrays --out new.npy

# Bad files.
cp q.npy good.npy
broken() { name=$1 part=$2; expect "$name" 3 "$part" attend --attention softmax --q bad.npy --k k.npy --v v.npy --out new.npy; }
cp q.npy bad.npy; rm bad.npy; broken missing_file "bad.npy: "
: >bad.npy; broken empty_file "bad.npy: "
head -c 60 good.npy >bad.npy; broken cut_header "bad.npy: "
head -c 200 good.npy >bad.npy; broken cut_data "bad.npy: "
(cat good.npy; printf x) >bad.npy; broken data_too_long "bad.npy: "
tr '\223' '\222' <good.npy >bad.npy; broken wrong_magic "bad.npy: "
python3 "$npy" raw bad.npy '<f8' '(1, 1)' 0000000000000000; broken float64_is_named "holds float64, float32 (or uint8 or bool) is needed: save array.astype"
python3 "$npy" raw bad.npy '<i8' '(1, 1)' 0000000000000000; broken int64_is_named "int64"
python3 "$npy" raw bad.npy '<f4' '(2, 2)' 00000000000000000000000000000000 fortran; broken fortran_order "ortran"
python3 "$npy" raw bad.npy '<f4' '(1,)' 00000000; broken rank_1 "bad.npy: is (1) float32; it must be (n, d)"
python3 "$npy" raw bad.npy '<f4' '(1,1,1,1,1)' 00000000; broken rank_5 "bad.npy: "
python3 "$npy" raw bad.npy '<f4' '(4611686018427387904, 4)' 00000000; broken hostile_shape "bad.npy: "
python3 "$npy" raw bad.npy '<f4' '(-1, 4)' 00000000; broken negative_shape "bad.npy: "
python3 "$npy" raw bad.npy '|u1' '(1, 4)' 00000000; broken bytes_are_no_numbers "is (1, 4) bytes"
python3 "$npy" raw bad.npy '<f4' '(1, 4)' 00000000000000000000000000000000; broken other_rank "bad.npy is (1, 4) float32 and k.npy is (2, 3, 7, 4) float32"
python3 "$npy" raw bad.npy '<f4' '(2, 3, 0, 5)' ''; broken other_width "axis 1 from the right must agree"
python3 "$npy" raw bad.npy '<f4' '(1, 3, 1, 4)' 000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000; broken other_batch "axis 4 from the right"
python3 - "$source_dir/tests/cli" <<'P'
import sys
sys.path.insert(0, sys.argv[1])
import npy
a = npy.read("q.npy")
a[1][2][3][0] = float("nan")
npy.write("bad.npy", a)
P
broken nan_has_a_place "query is nan at sequence 1, head 2, row 3, column 0"
python3 "$npy" raw m.npy '|u1' '(6,)' 010101010101
expect mask_of_other_length 3 "m.npy: is (6) bytes; it must be (7) or (2, 7) of bool or uint8" attend $arrays --mask m.npy --out new.npy
python3 "$npy" raw m.npy '|u1' '(7,)' 01010201010101
python3 "$npy" raw m.npy '<f4' '(7,)' "$(printf '%056d' 0)"
expect mask_of_floats 3 "m.npy: is (7) float32; it must be (7) or (2, 7)" attend $arrays --mask m.npy --out new.npy
python3 "$npy" raw m.npy '|u1' '(3,7)' "$(printf '%042d' 0)"
expect mask_of_other_batch 3 "m.npy: is (3, 7) bytes; it must be (7) or (2, 7)" attend $arrays --mask m.npy --out new.npy
python3 "$npy" raw m.npy '|u1' '(1,2,7)' "$(printf '%028d' 0)"
expect mask_of_rank_3 3 "m.npy: is (1, 2, 7) bytes; it must be (7) or (2, 7)" attend $arrays --mask m.npy --out new.npy
expect mask_that_is_gone 3 "gone.npy: " attend $arrays --mask gone.npy --out new.npy
for shapes in "(2,3,0,0) (2,3,0,6)" "(2,3,0,4) (2,3,0,0)" "(2,0,5,4) (2,0,5,6)"; do
    python3 "$npy" raw k0.npy '<f4' "${shapes% *}" ''
    python3 "$npy" raw v0.npy '<f4' "${shapes#* }" ''
    expect "no_columns_$shapes" 3 "k0.npy or v0.npy has an axis of 0; only n and batch may be 0" attend --q k0.npy --k k0.npy --v v0.npy --out new.npy
done
python3 "$npy" raw m.npy '|u1' '(7,)' 01010201010101
expect mask_of_other_values 3 "hashattn: m.npy: key_mask[2] is 2, allowed are 0 and 1" attend $arrays --mask m.npy --out new.npy
expect mask_of_other_values_in_chunks 3 "hashattn: m.npy: key_mask is 2 at row 2 of the sequence" attend $arrays --mask m.npy --chunk 3 --out new.npy
expect gradient_of_other_shape 3 "g.npy" attend --q k.npy --k k.npy --v v.npy --grad-out g.npy --grad-dir grads --out new.npy
[ -e new.npy ] && failed nothing_was_written "new.npy is there" || passed nothing_was_written

# A full disk: the old file stays.
attend --attention softmax $arrays --out y.npy && cp y.npy want.npy
without_room attend --attention yoso $arrays --out y.npy
[ "$code" = 4 ] && passed full_disk || failed full_disk "code $code, $(cat err)"
holds old_output_stays cmp y.npy want.npy
# Gradients of what the mechanism learns: a file as --params takes it; none for a mechanism that learns nothing.
[ -e grads/dparams.safetensors ] && failed nothing_learned_no_file "grads/dparams.safetensors" || passed nothing_learned_no_file
attend --attention rfa --num-features 8 $arrays --grad-out g.npy --grad-dir learned --out y.npy
holds gradients_of_what_is_learned python3 - "$source_dir/tests/cli" <<'P'
import json
import struct
import sys
sys.path.insert(0, sys.argv[1])
import npy
batch = npy.read("q.npy")
heads, width = len(batch[0]), len(batch[0][0][0])
data = open("learned/dparams.safetensors", "rb").read()
size = 8 + int.from_bytes(data[:8], "little")
header = json.loads(data[8:size])
assert header["sigma"]["dtype"] == "F32" and header["sigma"]["shape"] == [heads, 1, width], header
numbers = struct.unpack(f"<{(len(data) - size) // 4}f", data[size:])
assert len(numbers) == heads * width and all(numbers), numbers
P
attend --attention rfa --num-features 8 $arrays --params learned/dparams.safetensors --out y.npy
holds gradients_have_the_form_of_params test "$code" = 0
mkdir -p taken/dparams.safetensors
expect no_place_for_gradients 4 "dparams.safetensors" attend --attention rfa $arrays --grad-out g.npy --grad-dir taken --out y.npy
expect no_gradients_there 4 "nowhere/grads: cannot make the directory: No such file" attend $arrays --out y.npy --grad-out g.npy --grad-dir nowhere/grads
expect gradients_are_no_file 4 "y.npy: cannot make the directory: Not a directory" attend $arrays --out y2.npy --grad-out g.npy --grad-dir y.npy
long=$(printf '%04091d' 0)
expect long_name_of_gradients 4 "cannot create the directory 000" attend $arrays --out y.npy --grad-out g.npy --grad-dir "$long"
expect no_such_directory 4 "/nowhere/y.npy" attend $arrays --out /nowhere/y.npy
"$tool" attend $arrays --out - >/dev/full 2>err
[ $? = 4 ] && passed full_stdout || failed full_stdout "$(cat err)"
finish
