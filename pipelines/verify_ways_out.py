"""What to do where `tidemark verify` finds that something does not hold, by what is damaged."""

LOG_OUT = (
    "Put the file back from a backup. Without one: what is not Bronze's is made anew from Bronze, once all silver_, gate_ and "
    "gold_ tables are removed and the pipeline runs again. Bronze is read anew from Kafka, as far back as Kafka goes."
)
BRONZE_OUT = "Bronze is the source of all else. Put the file or table back, from a backup or by RESTORE to the version before."
SILVER_OUT = (
    "Put all silver_ tables back to the same load, or remove all silver_, gate_ and gold_ tables, keep Bronze, and run again: "
    "everything is decided anew from Bronze."
)
GOLD_OUT = "Remove the gold_ tables and run again: what Silver holds is audited and published anew."
