"""Evaluation on several devices at once: stations that compile or measure, and a fleet that hands out the work.

The caller alone decides and writes. A station that is lost, slow or broken is told of in a note, and what it was at is
evaluated again elsewhere; only a variant's own doing is ever a status.
"""

from evo.search.cluster.fleet import Fleet
from evo.search.cluster.open import open_site
from evo.search.cluster.protocol import Link, Site, StationLost
from evo.search.cluster.slots import KnownCode, Limits
from evo.search.cluster.spec import Cluster, parse_cluster

__all__ = ["Cluster", "Fleet", "KnownCode", "Limits", "Link", "Site", "StationLost", "open_site", "parse_cluster"]
