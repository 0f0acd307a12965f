"""Options of a stream as they are written: on a command line, in `dpi.toml`, in the body of a request."""
