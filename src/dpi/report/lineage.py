"""Releases as events of OpenLineage: catalogues learn where a table comes from, what it cost, and who vouches for it.

A release is a run of the job that its stream is. The run begins with the slot and completes when the slot closes, by
the public clock; its id follows from the certificate, so that an event that is sent twice is one run. Sees releases:
two stores with equal releases give equal events.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

from dpi._version import DISTRIBUTION, __version__, how_to_install
from dpi.errors import OptionError
from dpi.events.slots import Slots
from dpi.release import Release
from dpi.release.table import tidy

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent
    from openlineage.client.facet_v2 import DatasetFacet

NAMESPACE = "dpi"
PRODUCER = f"urn:{DISTRIBUTION}:{__version__}"
FACET = f"urn:{DISTRIBUTION}:facets:1-0-0:PrivacyDatasetFacet"
"""The name of the facet's schema, which lies in `docs/_static/PrivacyDatasetFacet.json`."""
_RUNS = uuid.uuid5(uuid.NAMESPACE_URL, f"urn:{DISTRIBUTION}:runs")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def run_id(release: Release) -> str:
    """Return the id of the run that a release is: a function of its certificate."""
    return str(uuid.uuid5(_RUNS, str(release.certificate.get("digest"))))


def make_events(release: Release, slots: Slots | None, namespace: str = NAMESPACE) -> tuple[RunEvent, RunEvent]:
    """Return the two events of a release, as the client of OpenLineage sends them: START and COMPLETE.

    The output has the columns of `Releases.table`, the certificate as its version, and the facet `dpi_privacy`.
    """
    try:
        from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
        from openlineage.client.facet_v2 import (
            dataset_version_dataset,
            documentation_dataset,
            job_type_job,
            nominal_time_run,
            processing_engine_run,
            schema_dataset,
        )
    except ImportError:
        raise OptionError(f"events of lineage need openlineage-python: {how_to_install('lineage')}.") from None
    if slots is None:
        raise OptionError("this stream has no clock: an event of lineage has a time.")
    start, end = (slots.start(number).isoformat() for number in (release.slot, release.slot + 1))
    closed = (_EPOCH + timedelta(microseconds=slots.closing(release.slot))).isoformat()
    name = str(release.certificate.get("stream") or "stream")  # a job has a name, and a stream need not
    run = Run(
        run_id(release),
        {
            "nominalTime": nominal_time_run.NominalTimeRunFacet(start, end, producer=PRODUCER),
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(__version__, "dpi", producer=PRODUCER),
        },
    )
    job = Job(namespace, name, {"jobType": job_type_job.JobTypeJobFacet("BATCH", "DPI", "RELEASE", producer=PRODUCER)})
    private = "Private: events of users. They are counted once, when their slot closes, and then erased."
    events = InputDataset(
        namespace,
        f"{name}.events",
        facets={"documentation": documentation_dataset.DocumentationDatasetFacet(private, producer=PRODUCER)},
    )
    columns = [
        schema_dataset.SchemaDatasetFacetFields(column, str(kind.base_type()))
        for column, kind in tidy([], slots).schema.items()
    ]
    table = OutputDataset(
        namespace,
        name,
        facets={
            "schema": schema_dataset.SchemaDatasetFacet(columns, producer=PRODUCER),
            "version": dataset_version_dataset.DatasetVersionDatasetFacet(
                str(release.certificate.get("digest")), producer=PRODUCER
            ),
            "dpi_privacy": _make_privacy(release),
        },
    )
    begun = RunEvent(eventTime=start, producer=PRODUCER, run=run, job=job, eventType=RunState.START, inputs=[events])
    done = RunEvent(
        eventTime=closed,
        producer=PRODUCER,
        run=run,
        job=job,
        eventType=RunState.COMPLETE,
        inputs=[events],
        outputs=[table],
    )
    return begun, done


def to_line(event: RunEvent) -> str:
    """Return an event as one line of JSON, as its client writes it."""
    from openlineage.client.serde import Serde

    return str(Serde.to_json(event))


def _make_privacy(release: Release) -> DatasetFacet:
    """Return what a release cost, what is promised, and its certificate."""
    certificate = release.certificate
    return _facet()(
        epsilon=release.epsilon,
        epsilonSpentAtMost=release.epsilon_spent,
        unit="all events of one user",
        guarantee=release.guarantee,
        carried=release.carried,
        certificate={"digest": certificate.get("digest"), "sequence": certificate.get("sequence")},
        producer=PRODUCER,
    )


@cache
def _facet() -> Callable[..., DatasetFacet]:
    """Return the facet's class; it is made when the client is there."""
    import attr
    from openlineage.client.facet_v2 import DatasetFacet

    @attr.define
    class PrivacyDatasetFacet(DatasetFacet):
        epsilon: float
        epsilonSpentAtMost: float  # noqa: N815 - as facets are written
        unit: str
        guarantee: str
        carried: float | None
        certificate: dict[str, object]

        @staticmethod
        def _get_schema() -> str:
            return FACET

    return PrivacyDatasetFacet
