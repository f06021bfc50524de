"""A tiny treebank and pairs of sentences, written for tests of probes."""

from pathlib import Path

SENTENCES = (  # words, parts of speech, heads, relations
    ("the old sailor sings", "DET ADJ NOUN VERB", "3 3 4 0", "det amod nsubj root"),
    ("she reads books", "PRON VERB NOUN", "2 0 2", "nsubj root obj"),
    ("the storm came", "DET NOUN VERB", "2 3 0", "det nsubj root"),
    ("boats sing", "NOUN VERB", "2 0", "nsubj root"),
)
PAIRS = (
    ("bank\tN\t1-2\tthe bank lends\tan old bank\tT", "F"),
    ("bank\tN\t1-3\tthe bank lends\ton the river bank\tF", "T"),
    ("play\tV\t0-1\tplay it\twe play\tT", "T"),
)


def write_treebank(path: Path, times: int = 1) -> Path:
    """Write the sentences as CoNLL-U, with a multiword token in the first."""
    lines = []
    for number, (words, tags, heads, relations) in enumerate(SENTENCES * times):
        lines += [f"# sent_id = {number}"]
        lines += ["1-2\ttheold" + "\t_" * 8] if number == 0 else []
        rows = zip(words.split(), tags.split(), heads.split(), relations.split(), strict=True)
        for at, (word, tag, head, relation) in enumerate(rows, start=1):
            cells = (str(at), word, word, tag, tag.lower(), "_", head, relation, "_", "_")
            lines.append("\t".join(cells))
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return path


def write_pairs(path: Path, gold: Path | None = None) -> Path:
    """Write the pairs with their labels in the last column, or in the lines of another file."""
    rows = [row if gold is None else row.rpartition("\t")[0] for row, _ in PAIRS]
    path.write_text("\n".join(rows) + "\n")
    if gold is not None:
        gold.write_text("".join(f"{label}\n" for _, label in PAIRS))
    return path
