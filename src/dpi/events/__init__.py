"""Columns of events: how rows are read, who a user is, and which slot a time lies in."""
