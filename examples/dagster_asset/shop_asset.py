"""A day of a shop is a slot of a stream and a partition of a Dagster asset, with ε and certificate as its metadata.

    python examples/dagster_asset/shop_asset.py [FOLDER]

`dagster dev -f examples/dagster_asset/shop_asset.py` shows the same in a browser. A partition that is materialised
again is read from the store: a slot is released once, and nobody pays twice.
"""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import polars as pl

import dpi
from dpi import demo
from dpi.verification import verify

DAYS = 3
START = demo.START.replace(tzinfo=UTC)
days = dg.DailyPartitionsDefinition(start_date=START, end_offset=0)


def find_folder() -> Path:
    """Where visits, store and tables are."""
    return Path(os.environ.get("DPI_SHOP", "out/dagster_asset"))


def make(folder: Path) -> None:
    """Write made-up visits of some days."""
    folder.mkdir(parents=True, exist_ok=True)
    pl.concat(demo.hourly(24 * DAYS)).write_parquet(folder / "visits.parquet")


def release(folder: Path, end: datetime) -> None:
    """Release every day that ends by a time and is not in the store yet. Slots are released in their order."""
    events = dpi.read(folder / "visits.parquet", user="user", time="at", value="page")
    domain = dpi.Categories(demo.PAGES)
    with dpi.Stream(domain=domain, epsilon=1, slot="1d", start=START, store=folder / "shop.db") as stream:
        assert stream.slots is not None  # noqa: S101 - it has a clock
        begin = stream.slots.start(stream.next_slot)
        if begin < end:
            for made in stream.replay(events, start=begin, end=end):
                print("released", made.start_text)


@dg.asset(partitions_def=days, pool="shop.db")  # one run at a time writes to a store
def page_shares(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """The shares of a shop's pages in one day, with 95 % intervals."""
    folder, window = find_folder(), context.partition_time_window
    release(folder, window.end)
    with dpi.open(folder / "shop.db") as stored:
        slot = stored.at(window.start)
        table = stored.between(slot.slot, slot.slot + 1).table()
    path = folder / "page_shares" / f"{context.partition_key}.parquet"
    path.parent.mkdir(exist_ok=True)
    table.write_parquet(path)
    return dg.MaterializeResult(
        metadata={
            "epsilon": slot.epsilon,
            "epsilon_spent_at_most": slot.epsilon_spent,
            "certificate": str(slot.certificate["digest"]),
            "guarantee": slot.guarantee,
            "measured": slot.measured,
            "shares": dg.MetadataValue.json(table.select("value", "share", "lower", "upper").to_dicts()),
        }
    )


@dg.asset_check(asset=page_shares)
def chain_is_whole() -> dg.AssetCheckResult:
    """The chain of certificates is what its entries say, and within ε."""
    with dpi.open(find_folder() / "shop.db") as stored:
        found = verify(stored.store)
    spent = found.spent_by_all if found.spent_by_all is not None else 0.0
    return dg.AssetCheckResult(passed=found.whole, metadata={"head": found.head, "epsilon_spent_at_most": spent})


defs = dg.Definitions(assets=[page_shares], asset_checks=[chain_is_whole])


def main(folder: Path) -> list[dict[str, object]]:
    """Materialise every day, the last one twice; return the metadata of each run."""
    os.environ["DPI_SHOP"] = str(folder)
    make(folder)
    keys = days.get_partition_keys()[:DAYS]
    said: list[dict[str, object]] = []
    for key in (*keys, keys[-1]):
        result = dg.materialize([page_shares, chain_is_whole], partition_key=key)
        (materialised,) = result.asset_materializations_for_node("page_shares")
        said.append({name: value.value for name, value in materialised.metadata.items()})
        assert all(each.passed for each in result.get_asset_check_evaluations())  # noqa: S101 - the chain is whole
        print(key, said[-1]["epsilon_spent_at_most"], str(said[-1]["certificate"])[:16])
    return said


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/dagster_asset"))
