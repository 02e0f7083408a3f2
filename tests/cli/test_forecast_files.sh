#!/bin/sh
# The files that forecasters have: five public kinds of table are made, trained on, compared with the mean of the season and
# forecast with at most one option; then what else tables may have, what is told of repairs, and what another file must have.
# Planted and caught: repairs told only in training; a file of another period accepted; the format of the dates found anew in
# every file; the header of every series; quantiles that are not put in order; the lowest quantile as the forecast; the length
# of a chunk of PNG with its type; rows of PNG that are filtered; a table that is described without its dates and columns;
# a picture written over the table; rows counted that were not written; ticks of equal labels, a title wider than its picture,
# a forecast of one row that is not seen.
# Covers: png.c letters.c plot_png.c plot_axis.c forecast_picture.c series_read.c grid.c raw_rows.c dates.c calendar.c forecast_out.c
. "$(dirname "$0")/checks.sh"
tiny="--layers 1 --dim 16 --heads 2 --ffn 16 --batch 32 --steps 20 --eval-every 20 --threads 1"

cat >make.py <<'P'
import datetime, math, random
random.seed(2)
start, day = datetime.datetime(2018, 1, 1), datetime.timedelta(1)
with open("power.csv", "w") as out:  # hourly, as grid operators publish it
    out.write("timestamp,load,wind\n")
    for t in range(24 * 60):
        load = 40 + 8 * math.sin(2 * math.pi * t / 24) + (3 if t // 24 % 7 < 5 else 0) + random.gauss(0, 1)
        out.write(f"{start + t * day / 24:%Y-%m-%dT%H:%M:%SZ},{load:.2f},{abs(random.gauss(9, 3)):.2f}\n")
with open("sales.csv", "w") as out:  # daily, without the days on which the shop was closed; German spreadsheet
    out.write("Datum;Umsatz;Kunden\n")
    for t in range(500):
        if random.random() < .05:
            continue
        sales = 1500 + 400 * math.sin(2 * math.pi * t / 7) + random.gauss(0, 90)
        text = f"{sales:,.2f}".replace(",", "x").replace(".", ",").replace("x", ".")
        out.write(f"{start + t * day:%d.%m.%Y};{text};{int(sales / 20)}\n")
with open("airline.csv", "w") as out:  # monthly passengers, 1949 to 1960, trend and season that grow
    out.write("Month,#Passengers\n")
    for t in range(144):
        value = (120 + 2.4 * t) * (1 + .2 * math.sin(2 * math.pi * (t - 3) / 12)) + random.gauss(0, 4)
        out.write(f"{1949 + t // 12}-{1 + t % 12:02},{value:.0f}\n")
with open("stock.csv", "w") as out:  # business days without holidays, newest first, as sites offer it for download
    price, rows = 100, []
    for t in range(700):
        price *= math.exp(random.gauss(0, .01))
        date = start + t * day
        if date.weekday() < 5 and (date.month, date.day) not in ((1, 1), (7, 4), (12, 25)):
            rows.append(f"{date:%m/%d/%Y},{price * .99:.2f},{price:.2f},{random.randint(10**6, 10**7)}\n")
    out.write("Date,Open,Close,Volume\n" + "".join(rows[::-1]))
with open("sensor.csv", "w") as out:  # every ten minutes since 1970 in milliseconds, with holes
    out.write("time\ttemperature\thumidity\n")
    for t in range(1200):
        warm = "NaN" if random.random() < .03 else f"{20 + 4 * math.sin(2 * math.pi * t / 144) + random.gauss(0, .2):.3f}"
        out.write(f"{1514764800000 + t * 600000}\t{warm}\t{'' if 300 <= t < 320 else random.randint(40, 60)}\n")
P
python3 make.py

# kind NAME HORIZON NOTE FIRST [OPTION...]: trains with the one option, compares and predicts without any of its file; the note
# of the training has NOTE, and HORIZON rows are forecast, the first of which begins with FIRST.
kind() {
    file=$1 horizon=$2 note=$3 first=$4
    shift 4
    run train forecast --data $file.csv --out $file $tiny "$@"
    holds "${file}_trains" test "$code" = 0
    holds "${file}_note" grep -qF "$note" err
    run train forecast --data $file.csv --model seasonal --out $file-season --threads 1 "$@"
    run eval $file --against $file-season --threads 1
    holds "${file}_is_compared" sh -c '[ '$code' = 0 ] && grep -q "^mse " out'
    run predict $file $file.csv
    holds "${file}_predicts" sh -c "[ $code = 0 ] && [ \$(wc -l <out) = $((horizon + 1)) ] && sed -n 2p out | grep -q '^$first,'"
}
kind power 24 "power.csv: 1440 rows, every h, 2018-01-01T00:00:00Z to 2018-03-01T23:00:00Z, 2 columns" 2018-03-02T00:00:00Z
kind sales 24 "sales.csv: 500 rows, every D, 01.01.2018 to 15.05.2019, 2 columns, dates day-first, decimal commas; " 16.05.2019 --missing interpolate
holds repairs_are_told_again grep -q "missing rows interpolated" err
kind airline 12 "airline.csv: 144 rows, every M, 1949-01 to 1960-12, 1 column" 1961-01 --horizon 12
head -n 30 airline.csv >short.csv
expect rows_that_the_run_reads 3 "short.csv: 29 rows, a forecast reads 40" predict airline short.csv
run eval airline --against airline-season --threads 1
holds short_windows_are_those_of_the_run grep -q "^test: airline against airline-season, 17 examples" out
kind stock 24 "every B, 01/02/2018 to 11/29/2019, 3 columns, dates month-first; " 12/02/2019 --missing last
kind sensor 24 "sensor.csv: 1200 rows, every 10min, 1514764800000 to 1515484200000, 2 columns, dates epoch; " 1515484800000 --missing interpolate
run eval sensor --threads 1
holds eval_tells_repairs grep -q "missing values interpolated" err
run eval sensor --threads 1 --quiet
holds quiet_repairs test ! -s err
expect refused_without_missing 3 "sensor.csv: line 302, row 301: column 'humidity' is '', a finite number is needed; set --missing to interpolate or last" \
    train forecast --data sensor.csv --out no --features S $tiny

"$tool" predict sales - <sales.csv >out 2>err
holds standard_input_is_named grep -q "^standard input: 500 rows, .* missing rows interpolated$" err
echo 1 | "$tool" predict power - >out 2>err
holds standard_input_is_named_in_errors grep -q "hashattn: standard input: line 1: " err
expect lines_are_of_documents 2 "--lines is for documents, and power forecasts a table" predict power power.csv --lines
expect bad_lines_are_of_documents 2 "--skip-bad is for documents, and power forecasts a table" predict power power.csv --skip-bad

# Another file is read as the run's: its format of dates, its gaps, its period.
head -n 1 sales.csv >few.csv
python3 -c '
for t in range(96): print(f"{1 + t % 12:02}.{1 + t // 12:02}.2020;1.000,5;7") if t < 12 else None' >>few.csv
expect too_short_but_read 3 "few.csv: 12 rows, a forecast reads 96" predict sales few.csv
python3 -c '
import datetime
days = [datetime.date(2020, 1, 1) + datetime.timedelta(t) for t in range(100)]
row = lambda d, t: f"{d.day}/{d.month}/{d.year},{t}\n"
open("clear.csv", "w").write("date,x\n" + "".join(row(d, t) for t, d in enumerate(days)))
open("unclear.csv", "w").write("date,x\n" + "".join(row(d, t) for t, d in enumerate(days[:12])))'
run train forecast --data clear.csv --seq-len 10 --horizon 3 --model last --out clear --threads 1
run predict clear unclear.csv --quiet
holds dates_of_the_run sh -c 'sed -n 2p out | grep -q "^13/1/2020,"'
expect unclear_dates 3 "'1/1/2020' and all other dates can be read with the day or the month first; set --date-format" \
    train forecast --data unclear.csv --seq-len 4 --horizon 1 --model last --out no
awk 'NR == 1 || NR % 2 == 0' power.csv >coarse.csv
expect another_period 3 "coarse.csv: the rows are one period of 2h apart, the run was trained on h" predict power coarse.csv
expect another_period_of_eval 3 "the rows are one period of 2h apart, the run was trained on h" eval power --data coarse.csv
sed 's/^timestamp/date/' power.csv >renamed.csv
expect no_option_that_predict_lacks 3 "renamed.csv: line 1: no column 'timestamp', which has the dates of the run; there are: date, load, wind" predict power renamed.csv

# What is wrong with a file to predict or to evaluate is said without options, which are those of the training.
without_options() {
    name=$1 file=$2 told=$3
    for command in "predict power" "eval power --data"; do
        run $command $file
        [ "$code" = 3 ] && grep -qF "$told" err && ! grep -q -- ' --\|set ' err && passed "${name}_by_${command%% *}" || failed "${name}_by_${command%% *}" "$code $(cat err)"
    done
}
sed 301d power.csv >gap.csv
without_options a_gap_is_told gap.csv "gap.csv: line 301, row 300: 1 date is missing before 2018-01-13T12:00:00Z: 2018-01-13T11:00:00Z comes after 2018-01-13T10:00:00Z; the run reads files without gaps: add the rows"
sed '301s/:00:00Z/:20:00Z/' power.csv >between.csv
without_options irregular_rows_are_told between.csv "2018-01-13T11:00:00Z is expected; the run reads rows that are one period apart"
sed 300p power.csv >twice.csv
without_options repeated_dates_are_told twice.csv "the date 2018-01-13T10:00:00Z repeats that of the row before; the run reads one row per date"
sed '301s/,.*,/,,/' power.csv >empty.csv
without_options missing_values_are_told empty.csv "column 'load' is '', a finite number is needed; the run reads files without missing values: fill it in"
sed '301s/,.*,/,"1,5",/' power.csv >comma.csv
without_options decimal_commas_are_told comma.csv "column 'load' is '1,5', a finite number is needed; the run reads decimal points here"
sed 's/wind/sun/' power.csv >column.csv
without_options other_columns_are_told column.csv "no column 'wind', which the model reads; there are: timestamp, load, sun"
head -n 60 power.csv >few.csv
expect few_rows_are_told_by_eval 3 "few.csv: a forecast reads 96 rows and has 24, the training part has 41 of 59 rows" eval power --data few.csv

# Quantiles: the columns of the forecast, their order, and the share of the test part that they cover; errors in the units
# of the file; a loss of another kind is not compared; a baseline takes one step and has no quantiles.
run train forecast --data power.csv --quantiles 0.1,0.5,0.9 --out quantiles $tiny --steps 200 --eval-every 50 --learning-rate 0.003
run predict quantiles power.csv --quiet
holds quantiles_are_columns sh -c 'head -n 1 out | grep -qx "timestamp,load,load_q0.1,load_q0.5,load_q0.9,wind,wind_q0.1,wind_q0.5,wind_q0.9"'
holds quantiles_ascend python3 -c '
import csv
for row in csv.DictReader(open("out")):
    assert float(row["load_q0.1"]) <= float(row["load_q0.5"]) <= float(row["load_q0.9"]) and row["load"] == row["load_q0.5"], row'
run eval quantiles --json --threads 1
cp out quantiles.json
holds interval_covers json quantiles.json '0.6 < d["coverage"] < 0.95 and abs(sum(c["coverage"] for c in d["columns"].values()) / 2 - d["coverage"]) < 1e-6 and d["loss"] < d["mae"]'
says table_of_errors "in the units of the file          mse          mae   sMAPE %      MASE  coverage" eval quantiles --threads 1
run eval quantiles --against power-season --json --threads 1
holds losses_of_one_kind json out 'sorted(d["metrics"]) == ["mae", "mse"]'
run eval power --against power-season --json --threads 1
holds losses_of_one_kind_are_compared json out 'sorted(d["metrics"]) == ["loss", "mae", "mse"]'
holds baselines_take_one_step json power-season/config.json 'd["training"]["steps"] == 1'
expect baselines_have_no_quantiles 2 "naive: it learns nothing, so it has no --quantiles" train forecast --data power.csv --model seasonal --quantiles 0.1,0.9 --out no
expect quantiles_ascend_in_the_option 2 "hashattn: --quantiles is '0.9,0.1', whose level 2 is 0.1; levels must ascend, from above 0 to below 1" train forecast --data power.csv --quantiles 0.9,0.1 --out no
expect columns_are_listed_once 3 "power.csv: line 1: --columns has column 'load' twice, as number 1 and 2; once is allowed" train forecast --data power.csv --columns load,2 --out no
run data describe forecast sales.csv --missing interpolate
holds tables_are_described grep -q "^read .*/sales.csv: 500 rows, every D, 01.01.2018 to 15.05.2019, 2 columns, dates day-first, decimal commas; [1-9][0-9]* missing rows interpolated$" out
run data describe forecast sales.csv --missing interpolate --json
holds tables_are_described_as_json json out '": 500 rows, every D, " in d["columns"]'
expect quantiles_are_numbers 2 "--quantiles is '0.1;0.9'; 1 to 16 levels are needed, as in 0.1,0.5,0.9" train forecast --data power.csv --quantiles '0.1;0.9' --out no
run train forecast --data power.csv --model informer --norm post --positions sinusoidal --label-len 24 --quantiles 0.2,0.8 --out decoded $tiny
run predict decoded power.csv --quiet
holds quantiles_of_a_decoder sh -c 'head -n 1 out | grep -q "load_q0.2,load_q0.8" && [ "$(wc -l <out)" = 25 ]'

# Pictures of any column and of the future, SVG or PNG by the ending; --json of a forecast.
cat >png.py <<'P'
import struct, sys, zlib
data, at, chunks = open(sys.argv[1], "rb").read(), 8, {}
assert data[:8] == b"\x89PNG\r\n\x1a\n"
while at < len(data):
    size, kind = struct.unpack(">I4s", data[at:at + 8])
    body = data[at + 8:at + 8 + size]
    assert struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + body), kind
    chunks[kind] = body
    at += 12 + size
width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
rows = zlib.decompress(chunks[b"IDAT"])
assert list(chunks) == [b"IHDR", b"PLTE", b"IDAT", b"IEND"] and len(rows) == height * (width + 1) and width == 880, chunks.keys()
assert all(rows[y * (width + 1)] == 0 for y in range(height))  # no row is filtered
colours = [chunks[b"PLTE"][3 * i:3 * i + 3].hex() for i in range(256)]
used = [colours[b] for y in range(height) for b in rows[y * (width + 1) + 1:(y + 1) * (width + 1)]]
# The middle of a line of each series, text, and mostly white.
for colour in sys.argv[2:]:
    assert used.count(colour) > 100, (colour, used.count(colour))
assert used.count("ffffff") > .8 * len(used)
P
run predict quantiles power.csv --draw future.png --column wind --quiet
holds future_as_png python3 png.py future.png 1f6fb4 c4500a 1d7f4c 5a6472 1f2933
run predict quantiles power.csv --draw future.svg --column load --json --quiet
holds future_as_svg sh -c 'grep -q "<title>load: forecast of 24 rows from 2018-03-02T00:00:00Z on</title>" future.svg && grep -q "quantile 0.9" future.svg'
holds forecast_as_json python3 -c '
import json
rows = [json.loads(line) for line in open("out")]
assert len(rows) == 24 and rows[0]["timestamp"] == "2018-03-02T00:00:00Z" and rows[3]["load_q0.1"] <= rows[3]["load"] == rows[3]["load_q0.5"], rows[0]'
run eval power --draw test.png --column load --threads 1
holds test_part_as_png python3 png.py test.png c4500a 5a6472
expect unknown_column 2 "--column: no column 'sun' is forecast; there are: load, wind" eval power --draw test.png --column sun
expect column_without_draw 2 "--column says what --draw draws" predict power power.csv --column load
run train forecast --data power.csv --model last --out drawn --draw valid.svg --column load --threads 1
holds column_of_train grep -q "<title>load: forecast" valid.svg
python3 -c '
import math
print("when,", "temperature " * 9, "\u6e29\u5ea6" * 9, sep="")
for t in range(60): print(2020 + t // 12, f"-{1 + t % 12:02},", 1234567890 + 100 * math.sin(t), sep="")' >far.csv
run train forecast --data far.csv --model last --seq-len 6 --horizon 1 --out far --draw far.svg --threads 1
holds ticks_differ_and_names_fit python3 -c '
import re
from xml.dom import minidom
text = [t.firstChild.data for t in minidom.parse("far.svg").getElementsByTagName("text")]
ticks = re.findall(r"tick y[^>]*>([^<]*)", open("far.svg").read())
assert len(ticks) > 3 and len(set(ticks)) == len(ticks) and max(len(t) for t in text) < 70, text
assert any(t.startswith("temperature tempe...: forecast of 1 row") for t in text), text'
run predict far far.csv --draw far.png --quiet
holds a_point_alone_is_a_dot python3 -c '
import sys
sys.argv = ["", "far.png"]
exec(open("png.py").read())
assert used[:len(used) * 9 // 10].count("c4500a") > 50  # above the legend'
run predict sales sales.csv --draw nowhere/x.png --quiet
holds picture_not_writable test "$code" = 4
cp power.csv kept.csv
expect picture_over_a_predicted_table 2 "--draw power.csv is also an input; give another name" predict power power.csv --draw power.csv
expect picture_over_evaluated_data 2 "--draw power.csv is also an input; give another name" eval power --draw power.csv
expect picture_over_data 2 "--draw power.csv is also an input; give another name" train forecast --data power.csv --out never --draw power.csv
expect forecast_over_its_table 2 "--out power.csv is also an input; give another name" predict power power.csv --out power.csv
holds tables_are_kept cmp power.csv kept.csv
run predict power power.csv --out /dev/full
[ "$code $(wc -l <err)" = "4 1" ] && passed rows_that_are_not_written_are_not_counted || failed rows_that_are_not_written_are_not_counted "$code $(cat err)"

# Several series: a column names them, or each file is one. predict forecasts all of them.
python3 - <<'P'
import datetime
rows = [(t, shop) for t in range(90) for shop in ("north", "south")]
day = lambda t: datetime.date(2020, 1, 1) + datetime.timedelta(t)
open("shops.csv", "w").write("date,shop,sales\n" + "".join(f"{day(t)},{s},{(100 if s == 'north' else 5000) + t % 7}\n" for t, s in rows))
import os
os.mkdir("folder")
for name, base, first in (("north", 100, 0), ("south", 5000, 3)):
    open(f"folder/{name}.csv", "w").write("date,sales\n" + "".join(f"{day(t)},{base + t % 7}\n" for t in range(first, 90)))
P
few="--seq-len 14 --horizon 7 --model seasonal --threads 1"
run train forecast --data shops.csv --series-column shop --out shops $few
holds series_are_counted grep -qF "180 rows of 2 series, every D" err
run predict shops shops.csv --quiet
holds series_are_forecast sh -c '[ "$(wc -l <out)" = 15 ] && head -n 1 out | grep -qx series,date,sales &&
    sed -n 2p out | grep -qx north,2020-03-31,106 && sed -n 9p out | grep -qx south,2020-03-31,5006'
run train forecast --data folder --out folder-run $few
run predict folder-run folder --quiet
holds files_are_series sh -c '[ "$(wc -l <out)" = 15 ] && sed -n 9p out | grep -qx south,2020-03-31,5006'
run predict folder-run folder/south.csv --quiet
holds one_of_the_series sh -c '[ "$(wc -l <out)" = 8 ] && sed -n 2p out | grep -qx south,2020-03-31,5006'
cp folder/south.csv east.csv
expect unknown_series 3 "the run has not read a series 'east'; it has: north, south" predict folder-run east.csv
run eval shops --json --threads 1
holds series_are_evaluated json out 'd["mse"] < 1e-9 and d["examples"] == 2 * 12'
run eval shops --against folder-run --threads 1
holds parts_of_series_differ test "$code" != 0

# No dates, and dates that are put into periods.
python3 -c 'print("x,y"); [print(f"{t % 5},{t}") for t in range(200)]' >plain.csv
run train forecast --data plain.csv --seq-len 10 --horizon 3 --model last --out plain --threads 1
holds rows_are_numbered grep -qF "200 rows, numbered, 1 to 200, 2 columns" err
run predict plain plain.csv --quiet
holds numbers_go_on sh -c 'head -n 1 out | grep -qx row,x,y && sed -n 2p out | grep -qx 201,4,199'
python3 - <<'P'
import datetime
begin = datetime.datetime(2020, 1, 1)
open("jitter.csv", "w").write("time,x\n" + "".join(f"{begin + datetime.timedelta(minutes=15 * t, seconds=t * 37 % 800)},{t}\n" for t in range(200)))
P
expect irregular_rows 3 "set --freq to put rows into periods" train forecast --data jitter.csv --out no $few
run train forecast --data jitter.csv --freq 15min --seq-len 10 --horizon 3 --model last --out jitter --threads 1
holds rows_are_moved grep -qF "200 rows, every 15min, 2020-01-01 00:00:00 to 2020-01-03 01:45:00, 1 column; 199 rows moved to the beginning of their period" err
expect unknown_period 2 "--freq is 'fortnight'; a period is needed" train forecast --data jitter.csv --freq fortnight --out no $few
expect unknown_delimiter 2 "delimiter is 'ab', one character or tab is needed" train forecast --data plain.csv --delimiter ab --out no $few

# A table without a header, columns by name and by number, names of months, years of two digits.
python3 -c '
import datetime
months = [datetime.date(2010 + t // 12, 1 + t % 12, 1) for t in range(72)]
days = [datetime.date(2019, 1, 1) + datetime.timedelta(t) for t in range(72)]
def write(name, header, rows): open(name, "w").write(header + "".join(",".join(map(str, row)) + "\n" for row in rows))
write("bare.csv", "", [(f"{d:%d/%m/%Y}", "shop", t % 7, t * 0.5) for t, d in enumerate(days)])
write("named.csv", "day,place,count,sum\n", [(f"{d:%d/%m/%Y}", "shop", t % 7, t * 0.5) for t, d in enumerate(days)])
write("month.csv", "Month,Sales\n", [(f"{d:%b %Y}", t) for t, d in enumerate(months)])
write("whole.csv", "Month,Sales\n", [(f"{d:%B %Y}", t) for t, d in enumerate(months)])
write("oracle.csv", "When,Sales\n", [(f"{d.day}-{d:%b-%y}".upper(), t) for t, d in enumerate(days)])
write("comma.csv", "When,Sales\n", [("\"%s %d, %d\"" % (d.strftime("%b"), d.day, d.year), t) for t, d in enumerate(days)])
write("short.csv", "When,Sales\n", [(f"{d:%d/%m/%y}", t) for t, d in enumerate(days)])
write("rows.csv", "", [(t * 0.5, t % 7 + 0.25) for t in range(72)])'
last="--model last --seq-len 12 --horizon 1 --threads 1"
expect a_row_is_no_header 3 "bare.csv: line 1: '01/01/2019' is no name of a column; if the first line is a row, --no-header reads it" train forecast --data bare.csv --columns 3 --out no $last
expect numbers_are_no_header 3 "rows.csv: line 1: '0.0' is no name of a column" train forecast --data rows.csv --out no $last
run train forecast --data rows.csv --no-header --out rows $last
run predict rows rows.csv --quiet
holds rows_without_dates sh -c '[ "$(tr "\n" " " <out)" = "row,1,2 73,35.5,1.25 " ] || { cat out; exit 1; }'
expect words_are_no_numbers 3 "bare.csv: line 1, row 1: column '2' is 'shop', a finite number is needed; set --columns to read only some, or --series-column if it names series" train forecast --data bare.csv --no-header --out no $last
run train forecast --data bare.csv --no-header --columns 3,4 --out bare $last
run predict bare bare.csv --quiet
cp out bare.out
holds columns_by_number sh -c '[ "$(tr "\n" " " <bare.out)" = "1,3,4 14/03/2019,1,35.5 " ] || { cat bare.out; exit 1; }'
run train forecast --data named.csv --columns sum,3 --target 4 --date-column day --out named $last
run predict named named.csv --quiet
holds columns_by_name sh -c '[ "$(tr "\n" " " <out)" = "day,count,sum 14/03/2019,1,35.5 " ] || { cat out; exit 1; }'
run train forecast --data named.csv --features S --target count --columns count,sum --out single $last
run predict single named.csv --quiet
holds only_the_target sh -c '[ "$(tr "\n" " " <out)" = "day,count 14/03/2019,1 " ] || { cat out; exit 1; }'
run train forecast --data named.csv --series-column 2 --columns sum --out grouped $last
run predict grouped named.csv --quiet
holds series_by_number grep -q "shop" out
expect no_such_column 3 "named.csv: line 1: no column 'price' (--columns); there are: day, place, count, sum" train forecast --data named.csv --columns price --out no $last
expect no_such_number 3 "no column '9' (--target)" train forecast --data named.csv --target 9 --out no $last
expect target_is_listed 3 "the target 'count' is none of the columns 'sum'" train forecast --data named.csv --columns sum --target count --out no $last
expect dates_are_no_numbers 3 "'1' of the columns is the column of dates" train forecast --data named.csv --columns 1,sum --out no $last
python3 -c 'print("ts,x"); [print(f"{1514764800 + 600 * t},{t}") for t in range(72)]' >stamps.csv
run train forecast --data stamps.csv --out stamps $last
holds stamps_are_dates grep -qF "72 rows, every 10min" err
python3 -c 'print("date,x"); [print(f"2020-01-{1 + t:02},\"1,{t:03}\"") for t in range(31)]' >thousands.csv
expect thousands_are_told 3 "set --decimal to the mark before fractions, point or comma" train forecast --data thousands.csv --out no --model last --seq-len 5 --horizon 1
run train forecast --data thousands.csv --decimal point --out thousands --model last --seq-len 5 --horizon 1
run predict thousands thousands.csv --quiet
holds thousands_are_read sh -c 'grep -qx "2020-02-01,1030" out'
for file in month whole oracle comma short; do
    case $file in
    month) want="Month,Sales Jan 2016,71" ;;
    whole) want="Month,Sales January 2016,71" ;;
    oracle) want="When,Sales 14-MAR-19,71" ;;
    comma) want='When,Sales "Mar 14, 2019",71' ;;
    short) want="When,Sales 14/03/19,71" ;;
    esac
    run train forecast --data $file.csv --out $file $last
    run predict $file $file.csv --quiet
    holds dates_of_$file test "$(tr '\n' ' ' <out)" = "$want "
done
expect a_month_is_no_date 3 "'January'" train forecast --data "$(printf 'month,x\nJanuary,1\nFebruary,2\nMarch,3\n' >year.csv; echo year.csv)" --out no $last

finish
