"""Recurrent layers, and what a recurrent decoder needs beside them."""
