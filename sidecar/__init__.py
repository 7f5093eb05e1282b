"""The server: decisions in core, dialects in formats, the work in engine, the gRPC edge in rpc."""
