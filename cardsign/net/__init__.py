"""Asking strangers: the only room of the library that opens a socket to one.

This version asks once and remembers nothing. Caches, discovery of keys and statements, and an
asynchronous twin are to come.
"""
