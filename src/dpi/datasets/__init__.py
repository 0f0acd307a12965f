"""Streams to try things on."""
