"""What verbs read and write: lines, images, tables, files of results."""
