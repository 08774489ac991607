"""Benchmarks: each prints a table with its peer beside us and writes its figures, `./dev bench NAME --json FILE`."""
