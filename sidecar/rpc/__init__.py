"""The gRPC edge: requests in, answers and errors out. No decision is made here."""
