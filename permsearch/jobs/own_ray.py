"""A Ray of this machine's own, for one run: no more of its processes than tasks need."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# What Ray does several times a second, or for reports that nobody reads here. Names are those of
# Ray's `ray_config_def.h`; a version that does not know one ignores it. Values set already stay.
_SWITCHES = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nobody asked to tell Ray's makers
    "RAY_enable_metrics_collection": "0",
    "RAY_enable_timeline": "0",
    "RAY_event_stats": "0",
    "RAY_task_events_report_interval_ms": "0",  # 0: never
    "RAY_raylet_report_resources_period_milliseconds": "1000",  # to other machines: there are none
    "RAY_gcs_pull_resource_loads_period_milliseconds": "10000",  # for the autoscaler
    "RAY_raylet_check_gc_period_milliseconds": "1000",
    "RAY_memory_monitor_refresh_ms": "1000",  # four looks a second otherwise
}


@contextmanager
def own_ray(cores: int) -> Iterator[None]:
    """Hold a Ray of this machine with that many cores, and be connected to it.

    `ray.init` starts a dashboard's server (even without a dashboard), an autoscaler's monitor and a
    monitor of log files, which serve nothing here. Ray has no public switch for them, so its node
    is started by its inner interface; where a version's is another, by `ray.init`.

    Raises
    ------
    ConnectionError, ValueError, RuntimeError, OSError
        Ray did not start.
    """
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    logging.getLogger("ray").setLevel(logging.ERROR)
    with _switched():
        try:
            node = _node(cores)
        except (ImportError, AttributeError, TypeError):  # not this version's inner interface
            node = None
        if node is None:
            ray.init(num_cpus=cores, include_dashboard=False, **quiet)
        else:
            ray.init(address=node.gcs_address, **quiet)
    try:
        yield
    finally:
        ray.shutdown()
        if node is not None:
            node.kill_all_processes(check_alive=False, allow_graceful=True)


def _node(cores: int) -> Any:
    """Start Ray's store of names, its scheduler and its workers, and nothing else.

    They end with this process, however it ends, where the system can see to that (Linux).
    """
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    base: Any = Node

    class Bare(base):  # type: ignore[misc] # what it inherits has no types
        """A node without the dashboard's server."""

        def start_api_server(self, **_: Any) -> None:
            """Start nothing."""

    params = RayParams(
        num_cpus=cores, include_dashboard=False, no_monitor=True, include_log_monitor=False
    )
    return Bare(params, head=True, shutdown_at_exit=False, spawn_reaper=True, ray_init_cluster=True)


@contextmanager
def _switched() -> Iterator[None]:
    """Set what is not set in the environment, for the processes that are started meanwhile."""
    added = [name for name in _SWITCHES if name not in os.environ]
    os.environ.update({name: _SWITCHES[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
