"""Comparisons of several papers' systems: new figures, and the papers' expectations."""

from nanoplane.papers.compare import key_value, key_value_cargo, notification

FIGURES = (*notification.FIGURES, *key_value.FIGURES, *key_value_cargo.FIGURES)
CLAIMS = (*notification.CLAIMS, *key_value.CLAIMS)
