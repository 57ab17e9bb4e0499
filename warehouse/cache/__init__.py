"""Caches of expensive results, keyed by the hash of their inputs."""
