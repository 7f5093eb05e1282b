"""Programs that run: each is tested, and the README shows them as they are."""
