"""Asking strangers: the only room of the library that opens a socket to one."""
