"""A store of each released format version, as that version's program wrote it, and what is in it.

A new version gets a file of its own, written by its own program: `python -m tests.store.released.write FILE`.
"""
