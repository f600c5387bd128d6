"""What a sample of topics has, topic by topic and over all of them, and what is chosen of it as the sequence. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jobs.first import candidates, findings
from lakehouse.errors import UsageError
from lakehouse.escape import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bronze.kafka.sample import Sample, Sampled
    from jobs.first.candidates import Candidate, Found
    from jobs.first.findings import Finding, Option
    from jobs.first.init import Asked
    from jobs.first.registered import Registered
    from lakehouse.extract.sources import Source

_MOST_SHOWN = 30


@dataclass(frozen=True)
class Topic:
    """What was found in one topic, or in several topics together. `name` is the first of them.

    Attributes:
        options: What fits as the sequence, with what was named on the command line; the best first.
    """

    name: str
    sample: Sample
    found: Found
    findings: Sequence[Finding]
    options: Sequence[Option]

    @classmethod
    def of(cls, sample: Sample, names: Sequence[str], given: Mapping[str, Source], registered: Registered) -> Topic:
        """Look at the records of topics.

        Raises:
            UsageError: Something is named on the command line that none of them has.
        """
        part = replace(sample, records=[each for each in sample.records if each.topic in names])
        found = candidates.find(part.records, registered)
        judged = findings.judge(part, found)
        named = {role: _named(part, source, role, found, registered) for role, source in given.items()}
        return cls(names[0], part, found, judged, findings.options(part, judged, named))

    @property
    def labels(self) -> list[str]:
        """The options in the command line's words."""
        return [each.label for each in self.options]


def _named(sample: Sample, source: Source, role: str, found: Found, registered: Registered) -> Candidate:
    """What an option of the command line names, over the sample; an error if the sample has records without it."""
    if source.form == "json" and "json" in registered.formats.values():
        source = replace(source, form="prefixed_json")
    each = candidates.candidate(source, [registered.record(record) for record in sample.records])
    is_name = bool(each.different_names) and not (source.form == "field" and each.names_nobody)
    is_read = is_name if role == "producer" else each.known and not each.is_little_endian
    if is_read or not sample.records or source.form == "custom":
        return each
    known = ", ".join(printable(other.label) for other in found.candidates[:_MOST_SHOWN])
    records = f"{len(sample.records):,} records of {sample.records[0].topic}"
    there = f"it is {each.kind}, such as {each.example}, in {each.present:,} of {records}"
    next_step = "Correct the name; lower and upper case differ. Without the option, init says what fits."
    if source.form == "field" and not registered.ids:
        next_step = "Name the registry of the values: --registry http://localhost:8081."
    elif each.is_little_endian:
        next_step = "Have the producer write big-endian numbers, or digits."
    raise UsageError(
        f"No record of the sample has a {role} where --{role} names it; nothing was written.",
        where=f"--{role} {each.label}",
        observed=there if each.present else f"{records} with {known or 'no headers and no JSON'}",
        next_step=next_step,
    )


@dataclass(frozen=True)
class Look:
    """What was found in a sample.

    Attributes:
        asked: Where it comes from, and what the command line names.
        registered: What the registry says.
        topics: Each topic that has records; the first of the config's where none has.
        overall: All of them together.
        options: What fits all topics as the sequence, the best first.
    """

    asked: Asked
    registered: Registered
    topics: Sequence[Topic]
    overall: Topic
    options: Sequence[Option]

    @classmethod
    def at(cls, sample: Sample, asked: Asked, registered: Registered) -> Look:
        """Look at a sample.

        Raises:
            UsageError: Something is named on the command line that a topic does not have.
        """
        names = [*dict.fromkeys(each.topic for each in sample.records)] or asked.topics[:1]
        topics = [Topic.of(sample, [name], asked.given, registered) for name in names]
        overall = topics[0] if len(topics) == 1 else Topic.of(sample, names, asked.given, registered)
        options = [each for each in overall.options if all(each.label in topic.labels for topic in topics)]
        return cls(asked, registered, topics, overall, options)

    @property
    def records(self) -> Sequence[Sampled]:
        """The records of all topics."""
        return self.overall.sample.records

    def of_most(self) -> Option | None:
        """What fits the most topics, where each has something that fits."""
        if not all(each.options for each in self.topics):
            return None
        labels = Counter(each.labels[0] for each in self.topics)
        return max((each.options[0] for each in self.topics), key=lambda each: labels[each.label])

    def own(self, chosen: Option) -> dict[str, Option]:
        """What single topics have instead of what was chosen."""
        is_common = chosen in self.options
        return {} if is_common else {each.name: each.options[0] for each in self.topics if each.labels[0] != chosen.label}
