-- What each published load brought, by topic: gold_records load by load, each load once.
CREATE TABLE IF NOT EXISTS IDENTIFIER(:lakehouse || '.published_by_topic') (
  load_seq BIGINT COMMENT 'Number of the load',
  topic STRING COMMENT 'Kafka topic',
  records BIGINT COMMENT 'Records that the load published'
);

INSERT INTO IDENTIFIER(:lakehouse || '.published_by_topic')
SELECT load_seq, topic, count(*) AS records
FROM IDENTIFIER(:lakehouse || '.gold_records')
WHERE load_seq > (SELECT coalesce(max(load_seq), 0) FROM IDENTIFIER(:lakehouse || '.published_by_topic'))
  AND load_seq <= (SELECT max(load_seq) FROM IDENTIFIER(:lakehouse || '.gold_stream_health'))
GROUP BY load_seq, topic;
