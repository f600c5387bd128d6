-- The numbers and tables of `page.md`, from a table `runs`: a row of the CSV for each run, and what Python says of it.

CREATE MACRO thousands(number) AS format('{:,}', coalesce(number, 0)::BIGINT);
CREATE MACRO jumps(djf, djb, jf, jb) AS concat_ws('/', sum(djf), sum(djb), sum(jf), sum(jb));
CREATE MACRO period(times) AS coalesce(min(times) || ' to ' || max(times), 'not run yet');
CREATE MACRO load_average(load) AS
    coalesce(format('{:.1f} in the median and {:.1f} at most', median(load)::DOUBLE, max(load)::DOUBLE), 'not known');

CREATE VIEW sittings AS SELECT
    count(*) AS kafka_runs,
    count_if(is_of_article AND Delay = 20) AS article_runs,
    period("At") AS kafka_when,
    load_average(Load) AS kafka_load
FROM runs;

CREATE VIEW totals AS SELECT
    thousands(sum(MsgsWithDups)) AS duplicates,
    coalesce(nullif(sum(SilverDups), 0)::VARCHAR, 'none') AS silver_duplicates,
    count_if(is_idempotent) AS idempotent_runs,
    coalesce(nullif(count_if(is_idempotent AND deviates), 0)::VARCHAR, 'none') AS idempotent_deviate
FROM (
    SELECT *, Idempotence = 'on' AND is_of_article AS is_idempotent,
        MsgsWithDups + DJF + DJB + JF + JB + NotReceived > 0 AS deviates
    FROM runs
);

-- The article's rows of Kafka, summed over its CSV, and ours, all without idempotence.
CREATE VIEW article AS
WITH lines AS (
    SELECT * FROM (VALUES
        ('leader_killed', 20, 'article', 50, 33, '26,999', '819', '0/33/99/167', 50, '0'),
        ('tcp_killed', 20, 'article', 50, 45, '248,896', '14,963', '0/298/303/304', 45, '0')
    )
    UNION ALL
    SELECT Fault, Delay, if(Delay = 0, 'ours, answers not delayed', 'ours'), count(*), count_if(MsgsWithDups > 0),
        thousands(sum(MsgsWithDups)), thousands(max(MsgsWithDups)), jumps(DJF, DJB, JF, JB), count_if(JB > 0),
        thousands(sum(NotReceived))
    FROM runs WHERE Idempotence = 'off' AND is_of_article GROUP BY Fault, Delay
)
SELECT replace(replace(fault, '_', ' '), 'tcp', 'TCP') AS test,
    whose AS " ", runs, deviating AS "with duplicates", duplicates, most AS "most in a run", jumps AS "DJF/DJB/JF/JB",
    backwards AS "runs with JB", lost
FROM lines AS _(fault, delay, whose, runs, deviating, duplicates, most, jumps, backwards, lost)
ORDER BY fault, delay DESC, whose;

CREATE MACRO with_fault(name) AS TABLE
SELECT Sender AS sender, Acks AS acks,
    Idempotence || ', ' || InFlight || if(Delay = 20, '', ', ' || Delay || ' ms') AS idempotence,
    sum(runs) AS runs, sum(deviating) AS "with duplicates", thousands(sum(duplicates)) AS duplicates,
    jumps(DJF, DJB, JF, JB) AS "DJF/DJB/JF/JB", thousands(sum(failed)) AS failed, thousands(sum(lost)) AS lost,
    thousands(max(held)) AS held, string_agg(says || ' in ' || runs, ', ' ORDER BY runs DESC) AS "order says"
FROM (
    SELECT Sender, Acks, Idempotence, InFlight, Delay,
        replace(replace(Findings, 'none', 'nothing'), ' ', ' and ') AS says, count(*) AS runs,
        count_if(MsgsWithDups > 0) AS deviating, sum(MsgsWithDups) AS duplicates, sum(DJF) AS DJF, sum(DJB) AS DJB,
        sum(JF) AS JF, sum(JB) AS JB, sum(NegAckCount) AS failed, sum(NotReceived) AS lost, max(Held) AS held
    FROM runs WHERE Fault = name GROUP BY ALL
) AS own
GROUP BY own.Sender, own.Acks, own.Idempotence, own.InFlight, own.Delay
HAVING sum(own.duplicates + own.DJF + own.DJB + own.JF + own.JB + own.failed + own.lost) > 0
ORDER BY array_position(['java', 'librdkafka', 'kit'], own.Sender), array_position(['all', '1', '0'], own.Acks),
    own.Idempotence, own.InFlight DESC, own.Delay DESC;

CREATE VIEW order_says AS
SELECT Idempotence AS idempotence, shows AS "topic shows", Findings AS "order says", count(*) AS runs,
    count_if(is_named) AS "right"
FROM runs GROUP BY ALL ORDER BY ALL;
