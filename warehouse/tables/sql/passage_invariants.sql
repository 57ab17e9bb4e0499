-- Laws of passages and documents, which publishing checks.
-- Each statement returns the offending rows' count and one example.

-- name: passage_without_document
-- Passages of documents that do not exist.
SELECT count(*), min(p.passage_id)
FROM (FROM passages WHERE is_touched(document_id)) AS p ANTI JOIN documents AS d USING (document_id);
