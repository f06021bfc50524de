"""Code for one machine: compiled when it is first needed, where there is a compiler."""
