"""Ranking formulas as pure functions: arrays in, arrays out; they open nothing and read no clock."""
