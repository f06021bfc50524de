"""Parts of ``tests/net.py``: what each of them captures."""
