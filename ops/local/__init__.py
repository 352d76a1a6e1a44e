"""What `backscroll up` starts and stops on this machine: servers, workers, the HTTP API, the demo."""
