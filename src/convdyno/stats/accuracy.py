"""A share of right answers, with its interval."""

from __future__ import annotations

import math

from convdyno.stats import t_distribution


def wilson(right: int, of: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a binomial share: it stays within 0 and 1, also near the ends."""
    if not 0 <= right <= of or not of:
        raise ValueError(f"{right} of {of} is no share")
    z = t_distribution.normal_quantile((1 + level) / 2)
    share, spread = right / of, z * z / of
    centre = (share + spread / 2) / (1 + spread)
    reach = z * math.sqrt(share * (1 - share) / of + spread / (4 * of)) / (1 + spread)
    return max(0.0, centre - reach), min(1.0, centre + reach)
