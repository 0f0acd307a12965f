"""Where a stream lives: in memory, in a file, in PostgreSQL."""

from dpi.store._memory import MemoryStore
from dpi.store.base import Store
from dpi.store.opening import open_store, store_exists

__all__ = ["MemoryStore", "Store", "open_store", "store_exists"]
