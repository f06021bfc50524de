"""C++ code, compiled for this machine at first use, if there is a compiler."""
