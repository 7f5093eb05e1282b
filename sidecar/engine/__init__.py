"""The imperative shell between the edges and the core: sessions, and what their calls do to a store. No gRPC, no LMDB."""
