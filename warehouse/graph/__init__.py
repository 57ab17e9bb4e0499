"""Arrays of a version on disk, opened memory-mapped."""
