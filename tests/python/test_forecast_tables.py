"""Tables of forecasts as pandas reads them, and naive forecasts and their errors as Darts computes them.

Planted and caught: the month before the day; gaps filled with the value before them instead of a line.
SPDX-License-Identifier: Apache-2.0
"""

import json

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")

import hashattn  # noqa: E402

from conftest import run_tool  # noqa: E402

SEASON, ROWS = 5, 80


def frame(freq, seed=0):
    """A series with a season and noise."""
    dates = pandas.date_range("2019-01-31" if freq == "ME" else "2019-01-01", periods=ROWS, freq=freq)
    noise = np.random.default_rng(seed).normal(size=ROWS)
    return pandas.DataFrame({"when": dates, "x": np.round(50 + 9 * np.sin(np.arange(ROWS) * 2 * np.pi / SEASON) + noise, 3)})


def text(table, style, header=True, separator=",", comma=False):
    """The table as a file."""
    rows = [f"{'when' + separator + 'x'}"] if header else []
    for date, value in zip(table["when"], table["x"]):
        number = "" if np.isnan(value) else f"{value:.3f}".replace(".", "," if comma else ".")
        day = date.strftime(style)
        rows.append((f'"{day}"' if separator in day else day) + separator + number)
    return "\n".join(rows) + "\n"


def some(table):
    """Without some rows, and without some values."""
    table = table.drop(index=[7, 8, 41]).reset_index(drop=True)
    table.loc[[20, 50, 51], "x"] = np.nan
    return table


#: File, how pandas reads it, the options of hashattn, and what becomes of gaps.
CASES = {
    "iso": (text(frame("D"), "%Y-%m-%d"), {}, {}, None),
    "time": (text(frame("h"), "%Y-%m-%dT%H:%M:%SZ"), {}, {}, None),
    "fraction": (text(frame("250ms"), "%Y-%m-%d %H:%M:%S.%f"), {}, {}, None),
    "day_first": (text(frame("D"), "%d/%m/%Y"), {"date_format": "%d/%m/%Y"}, {}, None),
    "month_first": (text(frame("D"), "%m/%d/%y"), {"date_format": "%m/%d/%y"}, {}, None),
    "german": (text(frame("D"), "%d.%m.%Y", separator=";", comma=True),
               {"sep": ";", "decimal": ",", "date_format": "%d.%m.%Y"}, {}, None),
    "named": (text(frame("D"), "%d-%b-%y"), {"date_format": "%d-%b-%y"}, {}, None),
    "american": (text(frame("D"), "%b %d, %Y"), {"date_format": "%b %d, %Y"}, {}, None),
    "months": (text(frame("MS"), "%b %Y"), {"date_format": "%b %Y"}, {}, None),
    "whole_months": (text(frame("MS"), "%B %Y"), {"date_format": "%B %Y"}, {}, None),
    "month_ends": (text(frame("ME"), "%Y-%m-%d"), {}, {}, None),
    "year_month": (text(frame("MS"), "%Y-%m"), {}, {}, None),
    "years": (text(frame("YS"), "%Y"), {"date_format": "%Y"}, {"date_column": "when"}, None),
    "bare": (text(frame("D"), "%Y-%m-%d", header=False), {"header": None, "names": ["when", "x"]}, {"header": False}, None),
    "business": (text(frame("B"), "%Y-%m-%d"), {}, {}, None),
    "interpolated": (text(some(frame("D")), "%Y-%m-%d"), {}, {"missing": "interpolate"}, "interpolate"),
    "last": (text(some(frame("D")), "%Y-%m-%d"), {}, {"missing": "last"}, "ffill"),
    "business_gaps": (text(some(frame("B")), "%Y-%m-%d"), {}, {"missing": "last"}, "ffill"),
}
FREQS = {"time": "h", "fraction": "250ms", "months": "MS", "whole_months": "MS", "month_ends": "ME", "year_month": "MS",
         "years": "YS", "business": "B", "business_gaps": "B"}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_read_as_pandas_does(tmp_path, name):
    content, reading, options, filled = CASES[name]
    path = tmp_path / "table.csv"
    path.write_text(content)
    freq = FREQS.get(name, "D")
    table = pandas.read_csv(path, parse_dates=["when"], **reading).set_index("when")["x"].asfreq(freq)
    table = table if filled is None else getattr(table, filled)()
    assert len(table) == ROWS and not table.isna().any()
    run = hashattn.train("forecast", path, tmp_path / "run", model="seasonal", season=SEASON, seq_len=SEASON, horizon=1,
                         progress=False, **options)
    forecast = run.forecast(path, progress=False)
    assert forecast.values[0, 0] == pytest.approx(table.iloc[-SEASON], abs=1e-5)
    style = reading.get("date_format")
    following = pandas.to_datetime(forecast.dates[0], format=style, utc=True).tz_localize(None)
    assert following == table.index.tz_localize(None)[-1] + pandas.tseries.frequencies.to_offset(freq)
    test = table.iloc[ROWS - int(0.2 * ROWS) - SEASON:]
    errors = (test - test.shift(SEASON)).dropna()
    scale = table.iloc[: int(0.7 * ROWS + 1e-6)].diff(SEASON).abs().mean()
    found = next(iter(json.loads(run_tool("eval", tmp_path / "run", "--json", "--quiet"))["columns"].values()))
    assert found["mae"] == pytest.approx(errors.abs().mean(), rel=1e-5)
    assert found["mse"] == pytest.approx((errors**2).mean(), rel=1e-5)
    assert found["mase"] == pytest.approx(errors.abs().mean() / scale, rel=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_naive_forecasts_and_errors_are_those_of_darts(tmp_path):
    pytest.importorskip("darts")
    from darts import TimeSeries
    from darts.metrics import mae, mse, smape
    from darts.models import NaiveSeasonal

    horizon = SEASON + 2
    path = tmp_path / "table.csv"
    path.write_text(text(frame("D", 3), "%Y-%m-%d"))
    series = TimeSeries.from_values(pandas.read_csv(path)["x"].to_numpy())
    run = hashattn.train("forecast", path, tmp_path / "run", model="seasonal", season=SEASON, seq_len=SEASON,
                         horizon=horizon, progress=False)
    ours = run.forecast(progress=False)
    theirs = NaiveSeasonal(K=SEASON).fit(series).predict(horizon)
    assert ours.values[:, 0] == pytest.approx(theirs.values()[:, 0], abs=1e-5)
    begins = range(ROWS - int(0.2 * ROWS), ROWS - horizon + 1)
    every = [NaiveSeasonal(K=SEASON).fit(series[:begin]).predict(horizon) for begin in begins]
    found = json.loads(run_tool("eval", tmp_path / "run", "--json", "--quiet"))["columns"]["x"]
    for name, metric in (("mae", mae), ("mse", mse), ("smape", smape)):
        assert found[name] == pytest.approx(np.mean([metric(series, one) for one in every]), rel=1e-5), name
