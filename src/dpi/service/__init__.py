"""The service: events come in over HTTP, releases go out by the public clock, and nobody sees what they must not."""
