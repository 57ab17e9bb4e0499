-- Statements of extraction: its parts to the ledger and to a checksum, and what was extracted back to rows.

-- name: fresh_passages
-- Passages of which no row was extracted in the version before, or by another recipe, or from another title and text.
SELECT passage_id FROM passages AS p ANTI JOIN (
    SELECT passage_id, content_hash FROM read_parquet($extracted) WHERE recipe = $recipe
) AS e ON e.passage_id = p.passage_id AND e.content_hash = p.content_hash;

-- name: known_passages
-- All others, with what their rows were extracted from.
SELECT p.passage_id, p.title, p.text FROM passages AS p SEMI JOIN (
    SELECT passage_id, content_hash FROM read_parquet($extracted) WHERE recipe = $recipe
) AS e ON e.passage_id = p.passage_id AND e.content_hash = p.content_hash;

-- name: gone_passages
-- Passages of the version before that are not in the corpus any more.
SELECT passage_id FROM read_parquet($extracted) ANTI JOIN passages USING (passage_id);

-- name: titles_gone
-- Titles that names were looked for by in the version before, and are no more.
SELECT title FROM read_parquet($extracted) EXCEPT SELECT title FROM passages;

-- name: titles_come
-- Titles that it did not have.
SELECT title FROM passages EXCEPT SELECT title FROM read_parquet($extracted);

-- name: passages_of_ids
-- Some passages, ascending.
SELECT passage_id, record_id, document_id, ordinal, title, text, start_offset, end_offset
FROM passages WHERE passage_id IN (SELECT unnest($ids)) ORDER BY passage_id;

-- name: extracted_passages
-- What the rows of this version are extracted from, and by which recipe.
SELECT passage_id, title, content_hash, $recipe AS recipe FROM passages ORDER BY passage_id;

-- name: fill_ledger
-- The ledger from the parts of all batches.
INSERT INTO extraction_ledger
SELECT step, unit_id, state, stand_in, model, attempts, rung, error_class, error, prompt_tokens, completion_tokens,
    cost_usd, kept, dropped, items
FROM read_parquet($ledger) ORDER BY step, unit_id;

-- name: sum_counts
-- What the batches counted, by name.
SELECT name, sum(number)::BIGINT FROM read_parquet($counts) GROUP BY name ORDER BY name;

-- name: content_of_parts
-- Sizes and checksums of everything extracted, whatever the batches were.
SELECT
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(m::VARCHAR))), '') FROM read_parquet($mentions) AS m),
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(r::VARCHAR))), '') FROM read_parquet($relations) AS r),
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(p::VARCHAR))), '')
        FROM read_parquet($propositions) AS p),
    (SELECT count(*) || ' ' || coalesce(hex(bit_xor(md5_number(t::VARCHAR))), '') FROM read_parquet($triples) AS t);

-- name: record_pieces
-- All passages of some records, in order.
SELECT passage_id, record_id, document_id, ordinal, title, text, start_offset, end_offset
FROM passages WHERE list_contains($ids, record_id) ORDER BY record_id, start_offset;

-- name: record_texts
-- Id, title and whole text of every record, for rows that name their passage by its text.
SELECT record_id, min(title), string_agg(text, ' ' ORDER BY start_offset)
FROM passages GROUP BY record_id ORDER BY record_id;

-- name: passage_ids
-- Ids of all passages and of their records.
SELECT passage_id, record_id FROM passages ORDER BY passage_id;

-- name: passage_extractions
-- Entities, triples and propositions of each passage (of `ids`, null for all), spelled as in it where it spells them.
WITH named AS (
    SELECT m.unit_id AS passage_id, e.entity_id, min(m.surface) AS name, any_value(e.type) AS type
    FROM mentions AS m JOIN entities AS e USING (entity_id) WHERE m.level = 'passage' GROUP BY 1, 2
),
listed AS (
    SELECT passage_id, list({'name': name, 'type': type} ORDER BY name, entity_id) AS entities FROM named GROUP BY 1
),
stated AS (
    SELECT s.passage_id, list([coalesce(a.name, x.name), r.relation, coalesce(b.name, y.name)] ORDER BY r.relation_id)
        AS triples
    FROM relation_sources AS s
    JOIN relations AS r USING (relation_id)
    JOIN entities AS x ON x.entity_id = r.source_id
    JOIN entities AS y ON y.entity_id = r.target_id
    LEFT JOIN named AS a ON a.passage_id = s.passage_id AND a.entity_id = r.source_id
    LEFT JOIN named AS b ON b.passage_id = s.passage_id AND b.entity_id = r.target_id
    GROUP BY s.passage_id
),
claimed AS (
    SELECT passage_id, list({'text': text, 'entities': names} ORDER BY ordinal, proposition_id) AS propositions
    FROM (
        SELECT s.passage_id, s.ordinal, p.proposition_id, p.text,
            coalesce(list(coalesce(a.name, e.name) ORDER BY k.ordinal) FILTER (e.name IS NOT NULL), []) AS names
        FROM proposition_passages AS s
        JOIN propositions AS p USING (proposition_id)
        LEFT JOIN proposition_entities AS k USING (proposition_id)
        LEFT JOIN entities AS e ON e.entity_id = k.entity_id
        LEFT JOIN named AS a ON a.passage_id = s.passage_id AND a.entity_id = k.entity_id
        GROUP BY ALL
    )
    GROUP BY passage_id
)
SELECT p.passage_id, coalesce(l.entities, []), coalesce(s.triples, []), coalesce(c.propositions, [])
FROM passages AS p
LEFT JOIN listed AS l USING (passage_id)
LEFT JOIN stated AS s USING (passage_id)
LEFT JOIN claimed AS c USING (passage_id)
WHERE $ids::VARCHAR[] IS NULL OR p.passage_id IN (SELECT unnest($ids::VARCHAR[]))
ORDER BY p.passage_id;
