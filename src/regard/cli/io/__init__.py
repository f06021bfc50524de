"""Input and output of verbs: lines, images, tables, files of results."""
