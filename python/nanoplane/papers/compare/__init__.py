"""Systems of several papers beside one another: figures of their own, and what papers expect."""

from nanoplane.papers.compare import key_value, key_value_cargo, notification

FIGURES = (*notification.FIGURES, *key_value.FIGURES, *key_value_cargo.FIGURES)
CLAIMS = notification.CLAIMS
