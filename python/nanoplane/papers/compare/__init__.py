"""Comparisons of several papers' systems: new figures, and the papers' expectations."""

from nanoplane.papers.compare import (
    key_value_cargo,
    key_value_load,
    key_value_varied,
    notification,
)

FIGURES = (
    *notification.FIGURES,
    *key_value_load.FIGURES,
    *key_value_varied.FIGURES,
    *key_value_cargo.FIGURES,
)
CLAIMS = (*notification.CLAIMS, *key_value_load.CLAIMS)
