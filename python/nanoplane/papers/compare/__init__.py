"""Systems of several papers beside one another: figures of their own, and what papers expect."""

from nanoplane.papers.compare import key_value, notification

FIGURES = (*notification.FIGURES, *key_value.FIGURES)
CLAIMS = notification.CLAIMS
