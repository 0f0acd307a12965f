"""PipelineDP on its local backend: counts of public partitions, one contribution of a privacy id."""

from __future__ import annotations

from collections.abc import Iterable

import pydp_stand_in

NOTE = pydp_stand_in.install()  # before PipelineDP is imported

import pipeline_dp  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from turns import EPSILON, VALUES, serve  # noqa: E402

Rows = list[tuple[int, int]]
EXTRACTORS = pipeline_dp.DataExtractors(
    privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1], value_extractor=lambda row: 0
)
PARAMETERS = pipeline_dp.AggregateParams(
    metrics=[pipeline_dp.Metrics.COUNT],
    noise_kind=pipeline_dp.NoiseKind.LAPLACE,
    max_partitions_contributed=1,
    max_contributions_per_partition=1,
)


def load(path: str) -> Rows:
    table = pq.read_table(path)
    return list(zip(table["user"].to_pylist(), table["value"].to_pylist(), strict=True))


def release(rows: Rows) -> Iterable[float]:
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=0)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    result = engine.aggregate(rows, PARAMETERS, EXTRACTORS, public_partitions=list(range(VALUES)))
    accountant.compute_budgets()
    return [metrics.count for _, metrics in result]


if __name__ == "__main__":
    serve(load, release, ["pipeline-dp", "pyarrow"], NOTE)
