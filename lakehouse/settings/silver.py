"""How much of Bronze a load of Silver takes."""

from pydantic import Field

from lakehouse.settings.base import Model, Whole


class Silver(Model):
    """The size of a load."""

    max_records_per_load: Whole | None = Field(
        default=20_000_000,
        description="the records above which a load is cut into several, between commits of Bronze; null for any number",
        examples=["5000000"],
    )
