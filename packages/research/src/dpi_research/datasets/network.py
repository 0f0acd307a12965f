"""Network traffic: attacks on a honeypot, and packets of any capture. **The user is the source address.**

An address is who is protected, so it is never a value of the domain: values are ports, or lengths.

Captures are read from a table that tshark writes (`TSHARK`), because it reads every kind of capture and the readers for
Python that we looked at are either not kept up (dpkt: last release in 2022) or far more than a reader (scapy, GPL).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpi.errors import OptionError
from dpi_research.datasets.dataset import Dataset

if TYPE_CHECKING:
    import polars as pl

TSHARK = (
    "tshark -r capture.pcap -T fields -E header=y -E separator=, -E quote=d -E occurrence=f "
    "-e frame.time_epoch -e ip.src -e ip.len -e ip.dst -e ip.proto "
    "-e tcp.srcport -e tcp.dstport -e udp.srcport -e udp.dstport > packets.csv"
)
"""Writes the table that `parse_packets` reads."""

_TIMES = ("%Y-%m-%d %H:%M:%S", "%m/%d/%y %H:%M", "%m/%d/%Y %H:%M")
"""How copies of the honeypot file write a time."""


def parse_honeypot(path: Path) -> pl.DataFrame:
    """The "marx" file: a row for each packet, with `srcstr` the source address and `dpt` the destination port."""
    import polars as pl

    rows = pl.read_csv(path, infer_schema=False, truncate_ragged_lines=True)
    return rows.select(
        pl.coalesce(pl.col("datetime").str.to_datetime(form, strict=False) for form in _TIMES).alias("timestamp"),
        "host",
        "proto",
        user="srcstr",
        value=pl.col("dpt").cast(pl.Int32, strict=False),
        type=pl.col("type").cast(pl.Int16, strict=False),
        spt=pl.col("spt").cast(pl.Int32, strict=False),
    )


def parse_packets(path: Path) -> pl.DataFrame:
    """The table of `TSHARK`; a packet in a packet counts as the outer one."""
    import polars as pl

    if path.suffix in (".pcap", ".pcapng", ".cap"):
        raise OptionError(f"a capture is read from the table that tshark writes: {TSHARK}")
    rows = pl.read_csv(path, infer_schema=False)

    def number(*names: str) -> pl.Expr:
        return pl.coalesce(pl.col(name).cast(pl.Int32, strict=False) for name in names)

    return rows.select(
        user="ip.src",
        timestamp=(pl.col("frame.time_epoch").cast(pl.Float64, strict=False) * 1e6).round().cast(pl.Datetime("us")),
        value=number("ip.len"),
        dst="ip.dst",
        proto=number("ip.proto").cast(pl.Int16, strict=False),
        spt=number("tcp.srcport", "udp.srcport"),
        dpt=number("tcp.dstport", "udp.dstport"),
    )


HONEYPOT = Dataset(
    name="honeypot",
    publisher="the AWS honeypot of dataset 'marx'",
    licence="none stated",
    unit="a source address",
    value="destination port; missing for ICMP",
    columns=("user", "timestamp", "value", "host", "proto", "type", "spt"),
    file="marx-geo.csv",
    parse=parse_honeypot,
    stored="network_aws_honeypot.parquet",
    stored_sha256="c5a35d82652fd29a683af260116479840a1b41fec1f85ba64973e3f9bcbf0f3d",
)

PACKETS = Dataset(
    name="packets",
    publisher="any packet capture; stored are StopDDoS captures",
    licence="stored captures: free for building DDoS protection",
    unit="a source address",
    value="length of the IP packet",
    columns=("user", "timestamp", "value", "dst", "proto", "spt", "dpt"),
    file="a table of tshark (see dpi_research.datasets.network)",
    parse=parse_packets,
    stored="network_ddos_captures.parquet",
    stored_sha256="a6708923e5453d5b1a1ba2c3d6ab4df33b6a6b61d0289824bf922a044c54200d",
)
