-- name: report
-- A worker starts, now holds other versions, or waits for a model or no longer does.
INSERT INTO workers (worker_id, host, process_id, queues_json, versions_json, started_at, seen_at, outage, outage_since)
VALUES (:worker_id, :host, :process_id, :queues_json, :versions_json, :now, :now, :outage, :outage_since)
ON CONFLICT (worker_id) DO UPDATE
SET queues_json = excluded.queues_json, versions_json = excluded.versions_json, seen_at = excluded.seen_at,
    outage = excluded.outage,
    outage_since = CASE WHEN excluded.outage IS NULL THEN NULL ELSE coalesce(workers.outage_since, excluded.outage_since) END;

-- name: beat
-- A sign of life.
UPDATE workers SET seen_at = :now WHERE worker_id = :worker_id;

-- name: alive
-- Workers that gave a sign of life since a moment.
SELECT * FROM workers WHERE seen_at >= :since ORDER BY started_at, worker_id;

-- name: leave
-- A worker ends.
DELETE FROM workers WHERE worker_id = :worker_id;

-- name: forget
-- Workers not seen since a moment.
DELETE FROM workers WHERE seen_at < :before;
