"""Files of lines, tables and JSON lines: read as they arrive, their values checked."""
