#!/usr/bin/env bash
# Three users, each from an empty folder, with the commands of the pages in docs/: one teaches, one
# trains on own data, one compares models. Inputs are written here; runs are shortened by $short.
#
#   tests/docs/newcomer.sh [COMMAND ...]      the command line, by default: regard
set -euo pipefail

command=("${@:-regard}")
desk=$(mktemp -d)
trap 'rm -rf "$desk"' EXIT
short="--set train.steps=6 --set train.precision=fp32 --device cpu"

regard() {
  echo "\$ regard $*" >&2
  "${command[@]}" "$@"
}

holds() { # FILE PATTERN: the file has a line that matches
  grep -qE -- "$2" "$1" || {
    echo "newcomer: no line of $1 matches: $2" >&2
    head -20 "$1" >&2
    exit 1
  }
}

write_reviews() { # reviews/train.csv and reviews/test.csv, with commas inside of quotes
  mkdir reviews
  for set in train test; do
    for thing in film book play song; do
      for word in gripping:good lovely:good clever:good dull:bad slow:bad noisy:bad; do
        for who in "my sister" "the old man" "a friend of $set"; do
          echo "\"a ${word%:*} $thing, said $who\",${word#*:}"
        done
      done
    done | { echo "text,label" && cat; } > "reviews/$set.csv"
  done
}

write_pairs() { # pairs.tsv: source and target
  printf 'source\ttarget\n'
  for who in "the man:der Mann" "the child:das Kind" "a teacher:ein Lehrer" "the dog:der Hund"; do
    for does in sees:sieht likes:mag finds:findet; do
      for what in "a book:ein Buch" "the house:das Haus" "an apple:einen Apfel"; do
        printf '%s %s %s .\t%s %s %s .\n' \
          "${who%:*}" "${does%:*}" "${what%:*}" "${who#*:}" "${does#*:}" "${what#*:}"
      done
    done
  done
}

write_stories() { # two sentences for each document, and an empty line after it
  for who in "The old man" "A young woman" "My sister" "The dog" "$1"; do
    for does in reads sees finds likes takes; do
      printf '%s %s a book.\nThen %s sleeps, and the sea is quiet.\n\n' "$who" "$does" "$who"
    done
  done
}

write_photos() { # photos/SET/CLASS/NN.png: bright and dark noise of 32 x 32 pixels
  python3 - << 'PYTHON'
import random, struct, zlib
from pathlib import Path

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

draw = random.Random(1)
for part, count in (("train", 12), ("test", 4)):
    for label, shade in (("day", 200), ("night", 40)):
        folder = Path("photos", part, label)
        folder.mkdir(parents=True)
        for number in range(count):
            rows = (b"\0" + bytes(shade + draw.randrange(40) for _ in range(96)) for _ in range(32))
            parts = (b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b"")
            image = b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)
            (folder / f"{number:02}.png").write_bytes(image)
PYTHON
}

teacher() {
  regard tour --quick > tour.txt
  holds tour.txt "alignment error rate"
  holds runs/tour/look.html "<html"
  regard look runs/tour/model "The old man reads a book." --html look.html --svg look.svg > look.txt
  holds look.txt "cross, mean of all layers"
  holds look.svg "<svg"
  regard tree runs/tour/model "The old man reads a book." --html tree.html --svg tree.svg > tree.txt
  holds tree.html "<html"
  regard align runs/tour/model runs/tour/corpus/test.en runs/tour/corpus/test.de --gold runs/tour/corpus/test.links --kinds > links.txt 2> error-rate.txt
  holds links.txt "[0-9]-[0-9]"
  holds error-rate.txt "^aer 0"
  regard papers BERT RoBERTa > papers.txt
  holds papers.txt "trunk.embed.vocab"
  regard cite BERT runs/tour/model > references.bib
  holds references.bib "devlin2018bert"
  holds references.bib "vaswani2017attention"
}

own_table() {
  regard new reviews/train.csv --out reviews.toml > saw.txt
  holds saw.txt "'good' 36 \(50.0%\)"
  regard train reviews.toml --dry-run > dry.txt
  holds dry.txt "nothing was written"
  test ! -e runs
  regard train reviews.toml --out runs/reviews --device cpu > trained.txt # as it is: 20 epochs
  holds runs/reviews/metrics.jsonl '"event": "dev"'
  regard evaluate runs/reviews/model reviews.toml --labels > scores.txt
  holds scores.txt "^accuracy (100|9[0-9])\."
  regard predict runs/reviews/model reviews/test.csv --column text --out predicted.csv
  holds predicted.csv "^text,label,predicted_label,probability$"
  holds predicted.csv '^"a dull film, said my sister",bad,bad,0\.'
  test "$(wc -l < predicted.csv)" -eq "$(wc -l < reviews/test.csv)"
}

own_pairs() {
  regard new pairs.tsv > saw.txt
  holds pairs.toml 'task = "translate"'
  regard train pairs.toml --out runs/pairs $short
  regard translate runs/pairs/model pairs.tsv --out translated.tsv
  holds translated.tsv "^source	target	translation	score$"
}

own_images() {
  regard new photos > saw.txt
  holds saw.txt "train: 'day' 12 .*'night' 12 "
  regard train photos.toml --out runs/photos $short
  regard evaluate runs/photos/model photos.toml --confusion --svg confusion.svg > scores.txt
  holds scores.txt "accuracy"
  holds confusion.svg "night"
  regard predict runs/photos/model photos/test --json --out photos.jsonl
  holds photos.jsonl '"image": "photos/test/night/03.png"'
}

own_text() {
  regard new stories.txt > saw.txt
  holds saw.txt "documents   train 25"
  regard train stories.toml --out runs/stories $short
  echo "The old man" | regard generate runs/stories/model --max-new-tokens 10 > generated.txt
  test -s generated.txt
  regard score runs/stories/model other.txt --whole 2> perplexity.txt
  holds perplexity.txt "bits per byte"
}

comparer() {
  regard new reviews/train.csv --out reviews.toml > saw.txt
  regard train reviews.toml --out runs/seeds --seeds 2 $short > seeds.txt
  holds seeds.txt "accuracy"
  regard curves runs/seeds --svg curves.svg --html curves.html > curves.txt
  holds curves.txt "seed-2"
  holds curves.svg "<svg"
  regard compare runs/seeds/seed-1/model runs/seeds/seed-2/model --recipe reviews.toml --format markdown > compared.md
  holds compared.md "^\| accuracy \|"
  regard tune reviews.toml --set optimiser.rate=1e-3,3e-3 --out runs/search $short > trials.txt
  holds trials.txt "trial-002"
  holds runs/search/trials.json "optimiser.rate"
}

mkdir "$desk"/{teacher,owner,comparer}
(cd "$desk/teacher" && teacher)
(cd "$desk/owner" && write_reviews && own_table)
(cd "$desk/owner" && write_pairs > pairs.tsv && own_pairs)
(cd "$desk/owner" && write_photos && own_images)
(cd "$desk/owner" && write_stories "Our teacher" > stories.txt && write_stories "The owl" > other.txt && own_text)
(cd "$desk/comparer" && write_reviews && comparer)
echo "newcomer: all three paths work"
