"""Settings: defaults < user file < project file < environment < flags, each value knowing where it came from."""

from redrive.config.loading import load
from redrive.config.settings import SETTINGS, Config, Log, Retention, RetryTables, Setting, WorkerSettings

__all__ = ["SETTINGS", "Config", "Log", "Retention", "RetryTables", "Setting", "WorkerSettings", "load"]
