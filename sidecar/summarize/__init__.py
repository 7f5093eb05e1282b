"""Summaries: the ledger that needs no model, what a model is asked, and whether its reply will do."""
