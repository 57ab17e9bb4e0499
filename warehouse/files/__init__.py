"""Files on disk: corpus and question readers, published versions and the pointer to the current one."""
