#!/usr/bin/env python3
"""TF-IDF of words and pairs of words with logistic regression (scikit-learn), on the data set of `train text`: the bar for
a text classifier. Reads a directory of folders as aclImdb: DIR/train/LABEL/NAME.txt and DIR/test/LABEL/NAME.txt.

  bench/tfidf.py --setup ENV           installs scikit-learn into the virtual environment ENV
  ENV/bin/python bench/tfidf.py DIR    prints the accuracy on DIR/test, and the seconds

The strength of the regularisation is chosen as our models are: on a tenth of the training documents."""
import argparse
import pathlib
import subprocess
import sys
import time
import venv

PACKAGE = "scikit-learn==1.9.1"
STRENGTHS = (1, 3, 10, 30, 100)


def read(folder):
    """Texts and labels, in order of label and name, as `train text` reads them."""
    texts, labels = [], []
    for label in sorted(path for path in folder.iterdir() if path.is_dir() and path.name != "unsup"):
        for path in sorted(label.glob("*.txt")):
            texts.append(path.read_text(encoding="utf-8"))
            labels.append(label.name)
    return texts, labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", metavar="ENV")
    parser.add_argument("data", nargs="?", metavar="DIR")
    given = parser.parse_args()
    if given.setup:
        venv.create(given.setup, with_pip=True)
        sys.exit(subprocess.run([f"{given.setup}/bin/pip", "install", "--quiet", PACKAGE]).returncode)
    if not given.data:
        parser.error("DIR is missing")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    directory = pathlib.Path(given.data)
    texts, labels = read(directory / "train")
    test_texts, test_labels = read(directory / "test")
    begun = time.monotonic()
    vectors = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    rows = vectors.fit_transform(texts)
    fit, held = train_test_split(range(len(labels)), test_size=0.1, random_state=1)
    scores = {}
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=1000)
        model.fit(rows[fit], [labels[i] for i in fit])
        scores[strength] = model.score(rows[held], [labels[i] for i in held])
    best = max(scores, key=scores.get)
    model = LogisticRegression(C=best, max_iter=1000).fit(rows, labels)
    seconds = time.monotonic() - begun
    accuracy = model.score(vectors.transform(test_texts), test_labels)
    print(f"features {rows.shape[1]}, C {best} ({', '.join(f'{c}: {s:.4f}' for c, s in scores.items())})")
    print(f"test accuracy {accuracy:.4f} on {len(test_labels)} documents, {seconds:.1f} s to train")


main()
