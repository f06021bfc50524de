"""Searches on the device, in fixed shapes: the decisions of those on the host."""
