"""Start and stop everything of `backscroll up` on this machine: servers, workers, the HTTP API, the demo."""
