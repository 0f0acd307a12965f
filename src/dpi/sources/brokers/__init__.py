"""Brokers and tables of others as inputs that grow: one small file for each, behind `dpi.sources.live.LiveInput`."""

from dpi.sources.brokers._events import BrokerEvents, broker

__all__ = ["BrokerEvents", "broker"]
