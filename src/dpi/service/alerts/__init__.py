"""Alerts that leave a service by themselves: public ones to analysts, private ones to curators, and never across.

`_public` knows releases and nothing else, `_private` what an operator knows; each has a type of its own, and a thread
that tells that type alone. What carries them (`_delivery`) knows texts.
"""
