"""What the endpoints of the web process work with, handed to them by the application."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from taskqueue import AsyncClient
from taskqueue.web.live.channels import Channels
from taskqueue.web.live.daemon_samples import DaemonSamples
from taskqueue.web.live.flow_readings import FlowReadings
from taskqueue.web.live.meters import Meters
from taskqueue.web.live.project_table import ProjectTable
from taskqueue.web.live.recent import Recent
from taskqueue.web.metrics.scrape import Scrape
from taskqueue.web.options import WebOptions
from taskqueue.web.page_templates import Templates


@dataclass(frozen=True, slots=True)
class Services:
    """One set for each web process.

    Attributes:
        client: the connection to the daemon, shared by all browsers.
        channels: what browsers see change.
        projects: as they were a moment ago.
        templates: of the pages.
        scrape: the metrics, and whether the daemon is ready.
        meters: of fetchers.
        recent: answers that are kept for a while.
        flows: that browsers look at.
        samples: of what the daemon told of itself.
    """

    options: WebOptions
    client: AsyncClient
    channels: Channels
    projects: ProjectTable
    templates: Templates
    scrape: Scrape
    meters: Meters = field(default_factory=Meters)
    recent: Recent = field(default_factory=Recent)
    flows: FlowReadings = field(default_factory=FlowReadings)
    samples: DaemonSamples = field(default_factory=DaemonSamples)


def services_of(request: HTTPConnection) -> Services:
    """What the application has given its endpoints."""
    found: Services = request.app.state.services
    return found
