"""C++ code, compiled for the machine at first use, where there is a compiler."""
