"""The HTTP server: its engine batches the requests of all APIs (lists of routes)."""
