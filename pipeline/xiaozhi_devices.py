"""Where devices are kept."""

from __future__ import annotations

from pipeline.access import data_folder
from pipeline.config_schema import Config
from services.xiaozhi.device_file import DeviceFile


def device_file(config: Config) -> DeviceFile:
    """What `run.py devices` manages."""
    path = config.xiaozhi.devices_file
    return DeviceFile(path.expanduser() if path else data_folder() / "devices.json")
