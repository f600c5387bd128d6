"""What to do if a check of `tidemark verify` does not hold, by what is damaged."""

LOG_OUT = (
    "Put the file back from a backup. Without one: remove the folder of that table. Silver's are made anew from Bronze by "
    "`tidemark rebuild --apply`, Gold's by the next run once all gold_ tables are removed, Bronze from what Kafka still has."
)
BRONZE_OUT = "Bronze is the source of all else. Put the file or table back, from a backup or by RESTORE to the version before."
SILVER_OUT = (
    "Finish what is claimed: `tidemark run`. If it holds no better then: `tidemark restore --to LOAD` takes all tables to one "
    "load, `tidemark rebuild` shows what Bronze makes of them and puts it in place."
)
GOLD_OUT = (
    "Run once more: what was undone in Silver is undone here then. If it holds no better: remove the gold_ tables and run "
    "again; what Silver holds is audited and published anew."
)
