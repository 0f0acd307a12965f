"""What people do with releases: series of statistics, alerts, recommendations.

Everything here sees releases and nothing else, so it may be run by anybody, as often as they like: it costs no privacy.
"""

from dpi.apps.recommender import Recommendation, Recommender
from dpi.apps.statistics import Point, Statistic, frame
from dpi.apps.watch import Alert, Watch

__all__ = ["Alert", "Point", "Recommendation", "Recommender", "Statistic", "Watch", "frame"]
