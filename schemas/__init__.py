"""Whatever must be identical when an index is built and when a question is asked.

Pure: opens no file, socket or database. Everything else in the house may import it.
"""
