"""Word vectors, static and in context: their neighbours, and tests of them."""
