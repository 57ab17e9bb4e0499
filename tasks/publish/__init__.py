"""A staged version to a published one."""
