#!/bin/sh
# A person's first hour with files as people have them: documents in tables with headers, delimiters and encodings of all
# kinds; what was read is shown; splits and scores on rare labels; stopped runs; predictions with ids and file names; a
# classifier for the transformers library; tables of forecasters; a report; help and suggestions.
# Planted and caught: a header taken for a document; the split drawn without labels; the counts of another part; an id of
# the document before; the file's name left out; a bad line counted twice; an error of the test set taken for a missing one;
# a cell without labels refused; CSV of sets without them; predictions before a bad line dropped; the patience of an
# extended run forgotten when it is stopped; files of folders left out unnamed; the text taken for the label; a compressed
# file read as Latin-1.
# Faults that it shows: the line named twice; known labels told as unknown.
# Covers: data_describe.c data_out.c csv_out.c
. "$(dirname "$0")/checks.sh"
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 8 --max-len 32 --learning-rate 0.02 --tokens bytes"

# ---- what was read ----

mkdir mail
python3 - <<'P'
# A sorted file: 90 ham, then 10 spam, with a header in capitals and the text first.
rows = [("see you at noon, room %d" % i, "ham") for i in range(90)] + [("buy now, offer %d" % i, "spam") for i in range(10)]
open("mail/train.tsv", "w").write("Text\tLabel\n" + "".join("%s\t%s\n" % row for row in rows))
open("plain.tsv", "w").write("".join("%s\t%s\n" % (l, t) for t, l in rows))
open("review.csv", "w", encoding="latin-1").write("Stars;Review\n" + "".join("%s;\"caf\xe9; %s\"\n" % (l, t) for t, l in rows))
open("bare.csv", "w").write("".join("%d,\"%s\",%s\n" % (i, t, l) for i, (t, l) in enumerate(rows)))
open("wrong.tsv", "w").write("".join("%s\t%s\n" % row for row in rows))
open("windows.csv", "wb").write("label,text\n".encode() + "".join("%s,\u20ac %s\n" % (l, t.replace(",", "")) for t, l in rows).encode("cp1252"))
P
run data describe text mail $tiny
cp out described
[ "$code" = 0 ] && grep -q "read label: column 2 'Label', text: column 1 'Text'" out && grep -q '^train  *80 ' out && passed describe_names_columns || failed describe_names_columns "$code $(cat out err)"
grep -Eq '^ham +72 +9 +9 ' out && grep -Eq '^spam +8 +1 +1 ' out && passed splits_have_the_share_of_each_label || failed splits_have_the_share_of_each_label "$(cat out)"
grep -q '^ham: "see you at noon, room 0"$' out && grep -q '^spam: "buy now, offer 0"$' out && passed examples_of_labels || failed examples_of_labels "$(cat out)"
run data describe text mail/train.tsv --json
holds describe_json json out 'd["parts"]["valid"]["labels"] == {"ham": 9, "spam": 1} and d["parts"]["train"]["examples"] == 80 and d["parts"]["test"]["drawn"] and d["first_example"].startswith("see")'
run train text --data mail --out first --steps 20 --eval-every 10 $tiny
head -n 3 described | cut -c 1-40 >want
head -n 3 err | cut -c 1-40 >got
holds train_begins_with_what_was_read cmp want got
run train text --data mail --out quiet --steps 20 --eval-every 10 $tiny --quiet
[ "$code" = 0 ] && [ ! -s err ] && passed quiet_shows_nothing || failed quiet_shows_nothing "$(cat err)"
run train text --data plain.tsv --out lone --steps 20 --eval-every 10 $tiny --quiet
holds a_file_is_data cmp lone/model.safetensors first/model.safetensors
expect the_wrong_column_is_refused 3 "wrong.tsv: 100 of 100 labels occur once, as 'see you at noon, room 0': this is the column of the text" train text --data wrong.tsv --out never $tiny
run train text --data review.csv --delimiter ';' --encoding latin-1 --text-column review --label-column stars --out reviews --steps 40 --eval-every 10 $tiny --quiet
holds other_columns [ "$code" = 0 ]
expect another_encoding_is_named 3 "--encoding latin-1 or windows-1252" train text --data review.csv --delimiter ';' --text-column review --label-column stars --out never $tiny
run data describe text windows.csv --encoding windows-1252 --json
holds windows_1252 json out 'd["first_example"] == "\u20ac see you at noon room 0"'
run data describe text bare.csv --no-header --label-column 3 --text-column 2 --json
holds numbered_columns json out 'd["parts"]["train"]["labels"] == {"ham": 72, "spam": 8} and d["columns"] == "label: column 3, text: column 2"'
run data describe text windows.csv --encoding windows-1252 --label-column 1 --text-column 2 --json
holds numbers_beside_a_header json out 'd["columns"] == "label: column 1 \x27label\x27, text: column 2 \x27text\x27"'
expect a_column_has_one_role 3 "plain.tsv: line 1: column 1 'ham' is both the text and the label (--text-column, --label-column)" data describe text plain.tsv --text-column ham --label-column 1
expect other_names_are_listed 3 "line 1: no column is named 'text' (--text-column); there are: Stars, Review" data describe text review.csv --delimiter ';' --encoding latin-1
python3 -c 'open("unicode.csv", "w", encoding="utf-16").write("label,text\nham,see you\n"); open("unicode.tsv", "w", encoding="utf-16").write("ham\tsee you\n")'
expect utf_16_of_records 3 "unicode.csv: the text is UTF-16, UTF-8 is needed (iconv -f UTF-16 -t UTF-8 converts it)" data describe text unicode.csv
expect utf_16_of_lines 3 "unicode.tsv: the text is UTF-16" data describe text unicode.tsv
expect utf_16_of_a_table 3 "unicode.csv: the text is UTF-16" train forecast --data unicode.csv --out never
gzip -c plain.tsv >plain.jsonl
cp plain.jsonl plain.gz.tsv
for file in plain.jsonl plain.gz.tsv; do
    expect "compressed_$file" 3 "$file: the file is compressed (gzip), a text is needed: unpack it first" data describe text $file
    expect "compressed_${file}_of_bytes" 3 "$file: the file is compressed (gzip)" data describe text $file --encoding latin-1
done
cp plain.jsonl plain.csv
expect compressed_records 3 "plain.csv: the file is compressed (gzip)" data describe text plain.csv
printf '[{"text": "see you", "label": "ham"}]\n' >list.jsonl
expect a_list_is_told 3 "list.jsonl: line 1: a list begins here; .jsonl has an object {...} on each line" data describe text list.jsonl
python3 -c 'print("stars,text"); [print("%.1f,%s" % (1 + i % 5, "bad good fine poor best".split()[i % 5])) for i in range(100)]' >stars.csv
run train text --data stars.csv --label-column stars --label-type number --out numbers --steps 60 --eval-every 20 $tiny --quiet
run predict numbers stars.csv
holds numbers_are_predicted_in_their_units python3 -c 'import json; s = [json.loads(l)["score"] for l in open("out")]; assert len(s) == 100 and all(abs(v - 1 - i % 5) < 0.8 for i, v in enumerate(s)), s[:5]'
expect numbers_are_suggested 3 "numbers to predict need --label-type number" data describe text "$(python3 -c 'print("label,text"); [print("%d.%d,x" % (i, i)) for i in range(20)]' >n.csv; echo n.csv)"

printf '%s\n' '{"label": 1.5, "text": "good"}' '{"label": -2, "text": "bad"}' '{"label": 4, "text": "fine"}' >reals.jsonl
run data describe text reals.jsonl --label-type number --json
holds numbers_of_json json out 'sum(p["examples"] for p in d["parts"].values()) == 3'
mkdir halves
cp plain.tsv halves/train.tsv
cp plain.tsv halves/valid.tsv
run data describe text halves $tiny
[ "$code" = 0 ] && grep -q '^valid  *100 ' out && ! grep -q '^test' out && passed no_test_set_is_none || failed no_test_set_is_none "$code $(cat out err)"
printf 'ham\tsee you\nno tab\n' >halves/test.tsv
expect a_bad_test_set_is_told 3 "halves/test.tsv: line 2: no tab between label and text" data describe text halves $tiny
printf 'review\tstars\nsee you\tham\n' >other.tsv
run data describe text other.tsv --label-column stars
holds the_line_is_named_once grep -q "other.tsv: line 1: no column is named 'text' (--text-column); there are: review, stars" err
holds the_line_is_not_named_twice sh -c '! grep -q "line 1: line 1" err'
printf '{"text": "see you", "label": ["a", "b"]}\n' >list.jsonl
expect a_list_of_labels 3 "list.jsonl: line 1: label is a list; --multi-label reads several labels of a document" data describe text list.jsonl
printf '{"text": "see you"}\n' >keyless.jsonl
expect a_line_without_the_key 3 "keyless.jsonl: line 1: the object has no key 'label' (--label-column); there are: text" data describe text keyless.jsonl

# ---- several labels of a document ----

python3 - <<'P'
import json
# Words tell the labels: "a" food, "z" travel, both, or neither.
rows = [("aaaa", ["food"]), ("zzzz", ["travel"]), ("aaaa zzzz", ["food", "travel"]), ("mmmm", [])] * 20
open("topics.jsonl", "w").write("".join(json.dumps({"text": t, "label": l}) + "\n" for t, l in rows))
open("topics.csv", "w").write("text,label\n" + "".join('%s,"%s"\n' % (t, ", ".join(l)) for t, l in rows))
P
run data describe text topics.jsonl --multi-label --json $tiny
cp out sets.json
holds sets_are_counted json out 'sum(p["labels"]["food"] for p in d["parts"].values()) == 40 and set(d["parts"]["train"]["labels"]) == {"food", "travel"}'
run train text --data topics.jsonl --multi-label --out topics --steps 200 --eval-every 50 --json --quiet $tiny
holds sets_are_trained json out 'd["valid_f1"] > 0.9 and "valid_exact" in d and "valid_accuracy" not in d'
run train text --data topics.csv --multi-label --out topics2 --steps 200 --eval-every 50 --quiet $tiny
holds commas_in_csv_are_the_same cmp topics/model.safetensors topics2/model.safetensors
run eval topics --split test --json
holds sets_are_evaluated json out '0.9 < d["f1"] <= 1 and 0.5 < d["exact"] <= 1 and "confusion" not in d'
run eval topics --split test
grep -Eq '^test: f1 [01]\.[0-9]+, exact [01]\.[0-9]+, loss .*, 8 examples' out && passed sets_in_words || failed sets_in_words "$(cat out err)"
grep -q '^f1 is that of all labels together; --positive LABEL chooses one$' out && grep -Eq '^food +[01]\.[0-9]{4} +[01]\.[0-9]{4} +[01]\.[0-9]{4} +[2-6]$' out && grep -q '^macro-F1' out && ! grep -q 'taken for' out && passed a_table_per_label || failed a_table_per_label "$(cat out)"
run train text --data topics.jsonl --multi-label --out few --steps 3 --eval-every 3 --quiet --best f1:travel $tiny
run eval few --split train --json
holds best_of_a_label_among_several json out 'd["positive"] == "travel" and abs(d["f1"] - d["per_class"]["travel"]["f1"]) < 1e-12'
run eval few --split train --positive food --json
holds scores_of_each_label json out 'd["positive"] == "food" and abs(d["f1"] - d["per_class"]["food"]["f1"]) < 1e-12 and abs(d["macro_f1"] - sum(c["f1"] for c in d["per_class"].values()) / 2) < 1e-12 and d["per_class"]["food"]["examples"] == json.load(open("sets.json"))["parts"]["train"]["labels"]["food"]'
printf '%s\n' aaaa zzzz 'aaaa zzzz' mmmm | "$tool" predict topics - --lines >out 2>err
cp out sets
holds sets_are_predicted python3 - <<'P'
import json
rows = [json.loads(line) for line in open("sets")]
assert [row["labels"] for row in rows] == [["food"], ["travel"], ["food", "travel"], []], rows
assert all(set(row["probabilities"]) == {"food", "travel"} for row in rows)
assert all((label in row["labels"]) == (p > 0.5) for row in rows for label, p in row["probabilities"].items())
P
printf '%s\n' aaaa zzzz 'aaaa zzzz' mmmm | "$tool" predict topics - --lines --csv >sets.csv 2>err
holds sets_in_csv python3 - <<'P'
import csv, json
rows, lines = list(csv.DictReader(open("sets.csv"))), [json.loads(line) for line in open("sets")]
assert list(rows[0]) == ["id", "file", "labels", "food", "travel"], rows[0]
assert [row["labels"].split(",") for row in rows] == [line["labels"] or [""] for line in lines], rows
texts = ["aaaa", "zzzz", "aaaa zzzz", "mmmm"]
fields = [line.rstrip("\n").split(",", 2)[2].rsplit(",", 2)[0] for line in open("sets.csv")][1:]
open("back.csv", "w").write("text,label\n" + "".join("%s,%s\n" % of for of in zip(texts, fields, strict=True)))
P
run eval topics --data back.csv --json
holds sets_in_csv_are_read_back json out 'd["exact"] == 1 and d["f1"] == 1 and sum(c["examples"] for c in d["per_class"].values()) == 4'
expect numbers_are_no_sets 2 "--multi-label needs --label-type class" train text --data topics.csv --multi-label --label-type number --out never

# ---- predictions ----

mkdir inbox
printf 'see you\nat noon' >inbox/1.txt
printf 'buy now' >inbox/2.txt
printf '%s\n' '{"text": "buy now", "id": 17}' 'broken' '{"text": "see you", "id": "b, \"c\""}' >new.jsonl
printf 'id,Text\nx7,"see you, at noon"\n' >new.csv
run predict first new.jsonl
[ "$code" = 3 ] && grep -q "new.jsonl: line 2: " err && passed a_bad_line_is_an_error || failed a_bad_line_is_an_error "$code $(cat err)"
[ "$(wc -l <out)" = 1 ] && [ "$(wc -l <err)" = 1 ] && passed what_is_before_a_bad_line_is_predicted || failed what_is_before_a_bad_line_is_predicted "$(cat out err)"
run predict first new.jsonl new.csv inbox --skip-bad
cp out names
holds names_pass_through python3 - <<'P'
import json
rows = [json.loads(line) for line in open("names")]
assert [(row.get("id"), row["file"]) for row in rows] == [(17, "new.jsonl"), ('b, "c"', "new.jsonl"), ("x7", "new.csv"), (None, "inbox/1.txt"), (None, "inbox/2.txt")], rows
P
grep -q "5 documents, 0 of them cut to 32 tokens, 1 bad line left out" err && passed bad_lines_are_counted || failed bad_lines_are_counted "$(cat err)"
mkdir -p nest/a/b nest/unsup empty
cp new.csv nest/q.csv
head -n 1 new.jsonl >nest/r.JSONL
echo 'see you' >nest/a/1.txt
echo 'see you' >nest/a/b/2.txt
echo 'buy now' >nest/unsup/3.TXT
echo x >nest/s.pdf
run predict first nest empty --csv
[ "$code" = 3 ] && grep -q "empty has no documents" err && passed an_empty_folder_is_told || failed an_empty_folder_is_told "$code $(cat err)"
cp nest/s.pdf empty
expect what_is_unread_is_the_reason 3 "empty has no documents; 1 file or folder is not read: empty/s.pdf" predict first empty
run predict first nest empty --csv --skip-bad
[ "$(cut -d, -f2 out | tr '\n' ' ')" = 'file nest/q.csv nest/r.JSONL nest/a/1.txt nest/unsup/3.TXT ' ] && passed folders_are_read || failed folders_are_read "$(cat out err)"
holds unread_files_are_named grep -q "^3 files or folders are not read: nest/s.pdf, nest/a/b/, empty/s.pdf (a folder gives" err
run predict first new.jsonl new.csv inbox --skip-bad --csv --quiet
cp out table.csv
holds csv_has_the_same python3 - <<'P'
import csv, json
rows, lines = list(csv.DictReader(open("table.csv"))), [json.loads(line) for line in open("names")]
assert list(rows[0]) == ["id", "file", "label", "ham", "spam"], rows[0]
for row, line in zip(rows, lines, strict=True):
    assert row["id"] == str(line.get("id", "")) and row["file"] == line["file"] and row["label"] == line["label"]
    assert abs(float(row["ham"]) - line["probabilities"]["ham"]) < 1e-6
P
printf 'see you\nbuy now\n' | "$tool" predict first - --lines >out 2>err
[ "$(wc -l <out)" = 2 ] && ! grep -q '"file"' out && passed lines_of_standard_input || failed lines_of_standard_input "$(cat out err)"
echo 'see you' | "$tool" predict first - >out 2>err
grep -qF 'standard input: line 1: no object {...} of .jsonl; --lines reads plain text' err && passed plain_text_is_told || failed plain_text_is_told "$(cat err)"
run predict first other.tsv
holds an_unknown_header_is_told grep -qx "other.tsv was read as label: column 1, text: column 2, without a header; none of its labels is one of the run's" err
run predict first plain.tsv
holds known_labels_are_not_told sh -c '! grep -q "was read as" err'
printf 'see you\n' >notes.md
expect other_endings_are_told 3 "notes.md: line 1: no object {...} of .jsonl; other files have the endings .tsv, .csv and .txt" predict first notes.md
printf 'txt,label\nsee you,ham\n' >renamed.csv
expect columns_of_the_training_are_told 3 "renamed.csv: line 1: no column is named 'text', the name in the training file; there are: txt, label" predict first renamed.csv
holds no_option_that_predict_lacks sh -c '! grep -q -- "--text-column" err'
expect encodings_are_converted_outside 3 "; the run reads UTF-8 (iconv -t UTF-8 converts other texts)" predict first windows.csv
run predict reviews review.csv
[ "$code" = 0 ] && [ "$(wc -l <out)" = 100 ] && passed files_are_read_as_in_training || failed files_are_read_as_in_training "$(cat err)"

# ---- rare labels and honest scores ----

run eval first --split valid --json
holds eval_has_every_class json out 'set(d["per_class"]) == {"ham", "spam"} and d["positive"] == "spam" and "macro_f1" in d and d["per_class"]["spam"]["examples"] == 1'
run eval first --split valid
grep -q "f1 is that of 'spam'; --positive LABEL" out && grep -Eq '^ham +[01]\.[0-9]{4} +[01]\.[0-9]{4} +[01]\.[0-9]{4} +9$' out && grep -q '^macro-F1' out && grep -q '^taken for  *ham  *spam$' out && passed eval_table || failed eval_table "$(cat out)"
run eval first --split train --positive ham --json
holds positive_is_chosen json out 'd["positive"] == "ham" and abs(d["f1"] - d["per_class"]["ham"]["f1"]) < 1e-12 and abs(d["macro_f1"] - sum(c["f1"] for c in d["per_class"].values()) / 2) < 1e-12'
expect unknown_positive 2 "the model has no label 'eggs'; it has: ham, spam" eval first --positive eggs
run eval first --data plain.tsv --json
holds another_file_is_evaluated_whole json out 'd["examples"] == 100'
python3 - <<'P'
# A sorted file whose words tell little: balanced weights find the rare label, plain ones do not.
import random
random.seed(1)
rows = [("ham", 190), ("spam", 10)]
open("rare.tsv", "w").write("".join("%s\t%s\n" % (l, "bbbb" if l == "spam" else random.choice(("aaaa", "aaaa", "bbbb"))) for l, n in rows for _ in range(n)))
P
run train text --data rare.tsv --out plain --steps 200 --eval-every 50 --quiet $tiny --batch 64
run eval plain --split train --json
cp out plain.json
run train text --data rare.tsv --out fair --steps 200 --eval-every 50 --class-weight balanced --best macro_f1 --quiet $tiny --batch 64
run eval fair --split train --json
cp out fair.json
holds balanced_weights_find_the_rare_label python3 -c 'import json; p, f = (json.load(open(n))["per_class"]["spam"]["recall"] for n in ("plain.json", "fair.json")); assert p < 0.5 < f, (p, f)'
run train text --data rare.tsv --out label --steps 40 --eval-every 20 --best f1:ham --json --quiet $tiny
holds best_of_a_label json label/config.json 'd["task"]["facts"]["objectives"][0]["selects"] == "f1" and d["task"]["facts"]["objectives"][0]["positive"] == 1'
expect unknown_metric 2 "classify has no metric 'f2' that could choose the best model; there are: accuracy, f1, matthews, loss, macro_f1" train text --data rare.tsv --out never --best f2 $tiny
expect unknown_label 2 "no label 'eggs'; it has: ham, spam" train text --data rare.tsv --out never --best f1:eggs $tiny
run train text --data rare.tsv --out drawn --steps 20 --eval-every 10 --eval-examples 10 --best loss --quiet $tiny
holds drawn_examples_are_not_the_first json "$(tail -n 1 drawn/log.jsonl >last.json; echo last.json)" 'sum(d["confusion"][1]) <= 3 and sum(map(sum, d["confusion"])) == 10'

# ---- longer, shorter and stopped runs ----

run train text --data mail --out early --steps 2000 --eval-every 5 --patience 3 --json $tiny
[ "$code" = 0 ] && json out 'd["stopped_by"] == "patience" and d["steps"] < 2000' && grep -q 'stopped early at step .* of 2000: no better model' err && passed patience || failed patience "$(cat out err)"
run train text --data mail --out longer --steps 20 --eval-every 10 --quiet $tiny
run train --resume longer --steps 40
[ "$code" = 0 ] && grep -q 'steps are 40 instead of 20: from step 20 on, the learning rate is that of a schedule one-cycle of 40 steps' err && passed a_run_is_extended || failed a_run_is_extended "$(cat err)"
run train --resume longer
holds what_goes_on_is_told grep -q "nothing left to do in longer; to go on: hashattn train --resume longer --steps N, the new total" err
holds the_new_total_is_kept json longer/config.json 'd["training"]["steps"] == 40'
expect fewer_steps_than_done 2 "has done 40 steps; as the new total, 30 is too few" train --resume longer --steps 30
run train text --data mail --out timed --steps 100000 --eval-every 100000 --max-seconds 0.3 $tiny
[ "$code" = 0 ] && grep -q 'valid accuracy' err && grep -q 'stopped by time at step .*; continue with: hashattn train --resume timed' err && passed a_stopped_run_is_evaluated || failed a_stopped_run_is_evaluated "$(cat err)"
run eval timed --json
[ "$code" = 0 ] && grep -q 'timed has no best model yet; these are its last parameters, of training step' err && json out 'd["parameters"] == "last"' && passed last_parameters_serve || failed last_parameters_serve "$(cat err out)"
for signal in HUP TERM; do
    "$tool" train text --data mail --out gone$signal --steps 1000000 --eval-every 1000000 $tiny >out 2>err &
    pid=$!
    while [ ! -e gone$signal/config.json ] && kill -0 $pid 2>/dev/null; do sleep 0.05; done
    sleep 0.5
    kill -$signal $pid
    wait $pid
    code=$?
    [ "$code" = 130 ] && grep -q 'valid accuracy' err && grep -q "interrupted at step .*; continue with: hashattn train --resume gone$signal" err && passed signal_$signal || failed signal_$signal "$code $(cat err)"
done
# Evaluations before an extension are not vain, nor after a second stop. Nothing improves at a rate of 0.
run train text --data mail --out still --steps 40 --eval-every 2 --save-every 2 --patience 3 --quiet --json $tiny --learning-rate 0
holds nothing_improves json out 'd["steps"] == 8'
cp -r still again
run train --resume still --steps 60 --quiet --json
holds an_extension_has_patience json out 'd["steps"] == 14'
run train --resume again --steps 60 --max-seconds 0.000001 --quiet --json
run train --resume again --quiet --json
holds an_extension_that_was_stopped_too json out 'd["steps"] == 14'
# The last evaluation changes nothing of what follows.
run train text --data mail --out whole --steps 60 --eval-every 50 --quiet $tiny
run train text --data mail --out parted --steps 60 --eval-every 50 --max-seconds 0.000001 --quiet $tiny
run train --resume parted --quiet
holds resuming_is_bit_for_bit cmp whole/last.safetensors parted/last.safetensors
holds the_best_model_too cmp whole/model.safetensors parted/model.safetensors
[ ! -e parted/stopped.safetensors ] && passed no_model_of_a_stop_is_left || failed no_model_of_a_stop_is_left "$(ls parted)"

# ---- a classifier for the transformers library ----

expect what_stops_an_export_is_told_before 0 "export will refuse this run: a file of type yoso cannot describe the model: --norm is pre (post is needed)" train text --data mail --out untold --steps 2 $tiny --tokens bpe
run train text --data mail --out sorter --steps 20 --eval-every 10 --attention softmax --conv-window 0 --norm post --pooling first --classifier tanh $tiny --tokens bpe --quiet
expect a_classifier_is_exported 0 "sorter-hf: an encoder of type bert, 1 layer of width 16, with a classifier of 2 outputs" export sorter --out sorter-hf

# ---- a forecaster's files (test_forecast_files.sh has all kinds) ----

python3 - <<'P'
import datetime, math
day = datetime.date(2020, 1, 1)
rows = [(day + datetime.timedelta(t), 50 + 9 * math.sin(t * 2 * math.pi / 7)) for t in range(140)]
open("power.csv", "w").write("date;load\n" + "".join(f"{d:%d.%m.%Y};" + f"{v:.2f}".replace(".", ",") + "\n" for d, v in rows if d.day != 11))
open("names.csv", "w").write("".join(f"{d:%d-%b-%y},shop,{v:.2f}\n" for d, v in rows))
P
few="--seq-len 16 --horizon 7"
expect gaps_are_refused 3 "set --missing to interpolate or last" train forecast --data power.csv --out never $few
expect repairs_are_counted 0 "dates day-first, decimal commas; 5 missing rows interpolated" train forecast --data power.csv --missing interpolate --out power --steps 20 --eval-every 20 --layers 1 --dim 16 --heads 2 --ffn 16 $few --quantiles 0.1,0.5,0.9
run train forecast --data power.csv --missing interpolate --model seasonal --out season $few --quiet
run eval power --against season
[ "$code" = 0 ] && grep -q '^mae ' out && passed a_forecast_is_compared || failed a_forecast_is_compared "$(cat out err)"
run eval power --draw power.png
[ "$code" = 0 ] && grep -q 'sMAPE %      MASE  coverage' out && [ "$(head -c 4 power.png | tail -c 3)" = PNG ] && passed errors_in_units || failed errors_in_units "$(cat out err)"
run predict power power.csv
head -n 2 out | tail -n 1 | grep -q '^20.05.2020,' && head -n 1 out | grep -q 'load_q0.1' && passed the_future_has_dates_and_quantiles || failed the_future_has_dates_and_quantiles "$(head -n 3 out; cat err)"
run train forecast --data names.csv --no-header --columns 3 --model last --out bare-run --quiet $few
run predict bare-run names.csv --json --quiet
head -n 1 out | grep -q '^{"1": "20-May-20", "3": ' && passed bare_tables_and_names_of_months || failed bare_tables_and_names_of_months "$(head -n 2 out; cat err)"

# ---- a report, and manners ----

run report timed --out stopped.html --json
holds missing_best_values_are_no_numbers_lost json out 'd["runs"][0]["state"].startswith("stopped at step") and "finite" not in d["runs"][0]["state"]'
run report first numbers power season --out page.html --json
holds a_report json out 'd["page"] == "page.html" and [r["run"] for r in d["runs"]] == ["first", "numbers", "power", "season"]'
grep -q 'mail' page.html && grep -q 'power.csv' page.html && passed runs_name_their_data || failed runs_name_their_data "no data in the page"
run help train text
grep -q -- '--class-weight' out && ! grep -q -- '--distil' out && awk "/^  [- ]/ && length > 80 { exit 1 }" out && passed help_applies || failed help_applies "$(head -n 5 out)"
expect the_typo_comes_first 2 "no task 'txt'; did you mean text?" train txt
expect near_names 2 "did you mean --data?" train text --dat mail
expect mechanisms_are_suggested 2 "no mechanism 'yoos'; did you mean yoso?" info --attention yoos
mv mail moved
expect data_that_moved 3 "mail: the data of the run is not there; move it back, or give its new place with --data" eval first
mv moved mail

finish
