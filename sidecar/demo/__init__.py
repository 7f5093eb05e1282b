"""The demo: a long coding session, made from a seed, and a run of it through a real sidecar."""
