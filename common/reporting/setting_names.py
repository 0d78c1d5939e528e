"""Names of settings, which tell algorithms apart in the CSV files."""

from collections.abc import Collection, Mapping
import dataclasses
from typing import Any


def suffixes(
    config: Any, default: Any, formats: Mapping[str, str], silent: Collection[str] = ()
) -> str:
    """What of a configuration differs from the default, for its name: "_beta0_sigma0.1", or "".

    Args:
      config, default: of one dataclass, in the order of whose fields the suffixes come.
      formats: the fields that make another algorithm, and how a name says their value:
        {"noise_sigma": "sigma{:g}"}. Sizes, speeds and capacities are not part of a name: they are
        in the run's config.json.
      silent: fields that are left out, because the name says it already.
    """
    return "".join(
        "_" + formats[field.name].format(getattr(config, field.name))
        for field in dataclasses.fields(config)
        if field.name in formats
        and field.name not in silent
        and getattr(config, field.name) != getattr(default, field.name)
    )
