"""Kernels that this project writes in the language of another library, in a file of the library's name."""
