"""``shardlift plan``: what a recorded program would hold and move on more devices."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import click

from shardlift.capture.schema import Capture, Site
from shardlift.cli.captures import read_capture
from shardlift.cli.stop import stop
from shardlift.report.scaling import Link, Network, ScalingError, SitePlan, plan_site
from shardlift.report.scaling_text import as_text, as_tree


@click.command(
    short_help="Say what a recorded program would hold and move on more devices.",
    epilog="Example: shardlift plan run.json --devices 4096 --per-host 8 --link 50",
)
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--devices", type=click.IntRange(1), required=True, help="How many devices.")
@click.option("--per-host", type=click.IntRange(1), default=1, help="Devices of one host.")
@click.option(
    "--also",
    metavar="FILE2",
    type=click.Path(),
    help="A capture of the same program on another number of devices, to see what grows.",
)
@click.option("--axis", help="The axis that is made longer.  [default: the first of each site]")
@click.option(
    "--link", type=click.FloatRange(0, min_open=True), metavar="GB/S", help="Speed of a link."
)
@click.option(
    "--latency",
    type=click.FloatRange(0),
    default=5,
    metavar="US",
    help="With --link: microseconds from one device to the next.",
)
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text")
def plan(
    file: str,
    devices: int,
    per_host: int,
    also: str | None,
    axis: str | None,
    link: float | None,
    latency: float,
    style: str,
) -> None:
    """Compute from the capture FILE what its sites would do on another number of devices.

    No device is needed, and nothing is run. Each device goes on to work on a block of the
    recorded size, so a batch grows with the devices.
    """
    network = Network(devices, per_host)
    speed = None if link is None else Link(link * 1e9, latency / 1e6)
    second = {} if also is None else {site.key: site for site in read_capture(also).sites}
    plans = list(_plans(read_capture(file), devices, axis, second))
    if not plans:
        stop(f"{file} has no site that was called")
    if style == "json":
        click.echo(json.dumps(as_tree(plans, network, speed), indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(as_text(plans, network, speed)))
    sys.exit(0)


def _plans(
    capture: Capture, devices: int, axis: str | None, also: Mapping[tuple[str, int, str], Site]
) -> list[SitePlan]:
    plans = []
    for site in capture.sites:
        if not site.looked or not (site.mesh or site.axis_size):
            continue
        try:
            plans.append(plan_site(site, devices, axis, also.get(site.key)))
        except ScalingError as error:
            stop(f"{site.function} ({site.file}:{site.line}) cannot be planned: {error}")
    return plans
