"""Floor 7: the HTTP server. The engine batches the requests of all doors (lists of routes)."""
