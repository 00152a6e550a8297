"""Systems of several papers beside one another: figures of their own, and what papers expect."""

from nanoplane.papers.compare import notification

FIGURES = notification.FIGURES
CLAIMS = notification.CLAIMS
