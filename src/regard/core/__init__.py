"""Floor 0: batches and their layout, the tape, files and errors. Imports only torch and numpy."""
