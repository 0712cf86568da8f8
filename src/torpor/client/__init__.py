"""What a program or a person asks of torpor from outside. `client.client` says how."""

from __future__ import annotations

from torpor.client.client import Client as Client
from torpor.client.hearing import EventLine as EventLine
from torpor.client.places import blobs_address as blobs_address
from torpor.client.places import without_password as without_password
from torpor.client.starting import Started as Started
from torpor.client.streaming import Part as Part
from torpor.core.stream import Kept as Kept
