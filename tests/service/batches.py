"""Bodies of batches, and what is kept of them."""

import io

import pyarrow as pa

import dpi
from dpi.events.slots import Slots, Window
from dpi.service import _batch_reader as ingest
from dpi.sources import Admission

LETTERS = dpi.Categories(["a", "b", "1"])
ALL = Window(-(1 << 40), 1 << 60)


def kept(body, kind, domain=LETTERS, unit="s"):
    """What is kept of a batch, as sorted (account, slot, bin, number)."""
    admission = Admission(Slots("1h"), domain, bytes(32), -(1 << 40))
    found = admission.keep(ingest.read_batch(body, kind, unit, ingest.parts_of(domain)), ALL)
    rows = zip(found.names.tolist(), found.slots.tolist(), found.bins.tolist(), found.counts.tolist(), strict=True)
    return sorted((tuple(name), *row) for name, *row in rows)


def arrow(columns, **options):
    """A table as an Arrow IPC stream."""
    sink, table = io.BytesIO(), pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue()
