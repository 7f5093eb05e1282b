"""Replay: recorded bodies through a sidecar, step by step, as the agent sent them."""
