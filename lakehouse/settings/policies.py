"""The policies: how records are decided that are not simply new, for all topics and for single ones."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from lakehouse.settings.base import Flag, Model, Whole, setting

Late = Literal["quarantine", "accept", "drop"]
LateOutcome = Literal["held", "kept", "discarded"]
LATE_OUTCOMES: dict[Late, LateOutcome] = {"quarantine": "held", "accept": "kept", "drop": "discarded"}
Numbering = Literal["per_topic", "per_partition"]


class TopicPolicies(Model):
    """The policies of one topic. Under `policies.topics`, missing keys are inherited from `policies`."""

    late: Late = setting("quarantine", "what a late record gets", "quarantine")
    max_jump: Whole | None = setting(None, "the largest believed step above a watermark; null for any", "1000000")
    max_quarantined_share: Annotated[float, Field(strict=True, ge=0, le=1)] = setting(
        0.5, "the share of a load above which the breaker opens, 0 to 1", "0.5"
    )
    max_new_streams: Whole | None = setting(10_000, "the most new streams of a topic in a load; null for any", "1000")
    contiguous: Flag = setting(False, "whether sequences have no gaps, so that missing ones are followed up", "true")
    numbering: Numbering | None = setting(None, "where a number names one record", "per_topic")


class Policies(TopicPolicies):
    """The policies of all topics, and of single topics that have their own."""

    topics: dict[str, TopicPolicies] = setting({}, "policies of single topics", "{incidents: {late: accept}}")

    @field_validator("topics")
    @classmethod
    def _inherit(cls, topics: dict[str, TopicPolicies], info: ValidationInfo) -> dict[str, TopicPolicies]:
        # By key, not by value: an explicit null lifts an inherited max_jump. `model_fields_set` still names only the own keys.
        keys = {topic: {**info.data, **own.model_dump(exclude_unset=True)} for topic, own in topics.items()}
        return {topic: TopicPolicies.model_construct(own.model_fields_set, **keys[topic]) for topic, own in topics.items()}

    def own_values(self, policy: str) -> dict[str, Any]:
        """Return the value of a policy for each topic that sets its own."""
        return {topic: getattr(own, policy) for topic, own in self.topics.items() if policy in own.model_fields_set}
