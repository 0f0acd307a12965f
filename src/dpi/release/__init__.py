"""What leaves the curator, and the questions that can be asked of it."""

from dpi.release.quality import Quality
from dpi.release.release import Release, content_digest, from_frame, to_frame

__all__ = ["Quality", "Release", "content_digest", "from_frame", "to_frame"]
