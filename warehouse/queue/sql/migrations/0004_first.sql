-- name: counters
-- Last number given out by kind; locking a row lines submitters up.
CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);

-- name: first_counters
-- Jobs and questions count from 1.
INSERT INTO counters (name, value) VALUES ('jobs', 0), ('questions', 0);

-- name: jobs
-- A batch of questions asked in one way; its questions have the numbers first_number and following.
-- min_confidence: answers by rules below it are left empty, NULL: as the worker's settings say; where_text: filter or NULL.
CREATE TABLE jobs (
    job_id BIGINT PRIMARY KEY,
    submission_key TEXT NOT NULL UNIQUE,
    content_hash TEXT NOT NULL,
    name TEXT NOT NULL,
    queue TEXT NOT NULL,
    index_name TEXT NOT NULL,
    strategy TEXT NOT NULL,
    parameters_json TEXT NOT NULL,
    passage_limit BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    max_attempts BIGINT NOT NULL,
    deadline_seconds DOUBLE PRECISION,
    deadline_at DOUBLE PRECISION,
    submitted_at DOUBLE PRECISION NOT NULL,
    changed_at DOUBLE PRECISION NOT NULL,
    first_number BIGINT NOT NULL,
    question_count BIGINT NOT NULL,
    min_confidence DOUBLE PRECISION,
    where_text TEXT
);

-- name: questions
-- A question and its state; effective_at orders waiting ones, a held lease_token is proof of the right to finish.
CREATE TABLE questions (
    number BIGINT PRIMARY KEY,
    job_id BIGINT NOT NULL REFERENCES jobs (job_id),
    ordinal BIGINT NOT NULL,
    question_id TEXT NOT NULL,
    question TEXT NOT NULL,
    topic TEXT,
    answers_json TEXT NOT NULL,
    supporting_json TEXT NOT NULL,
    metadata_json TEXT NOT NULL,
    queue TEXT NOT NULL,
    effective_at DOUBLE PRECISION NOT NULL,
    available_at DOUBLE PRECISION NOT NULL,
    deadline_at DOUBLE PRECISION,
    state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'done', 'dead', 'cancelled')),
    attempts BIGINT NOT NULL,
    max_attempts BIGINT NOT NULL,
    lost_leases BIGINT NOT NULL,
    worker_id TEXT,
    lease_token TEXT,
    lease_until DOUBLE PRECISION,
    error TEXT,
    error_class TEXT,
    finished_at DOUBLE PRECISION,
    UNIQUE (job_id, question_id)
);

-- name: results
-- The one answer of a question with its evidence.
CREATE TABLE results (
    job_id BIGINT NOT NULL,
    question_id TEXT NOT NULL,
    answer TEXT NOT NULL,
    version BIGINT NOT NULL,
    strategy TEXT NOT NULL,
    worker_id TEXT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    finished_at DOUBLE PRECISION NOT NULL,
    result_json TEXT NOT NULL,
    PRIMARY KEY (job_id, question_id),
    FOREIGN KEY (job_id, question_id) REFERENCES questions (job_id, question_id)
);

-- name: workers
-- Worker processes, the versions they hold, their last sign of life, and why and since when one waits for a model.
CREATE TABLE workers (
    worker_id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    process_id BIGINT NOT NULL,
    queues_json TEXT NOT NULL,
    versions_json TEXT NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    seen_at DOUBLE PRECISION NOT NULL,
    outage TEXT,
    outage_since DOUBLE PRECISION
);

-- name: questions_waiting
-- The order of claims.
CREATE INDEX questions_waiting ON questions (queue, effective_at, number, available_at) WHERE state = 'queued';

-- name: questions_leased
-- Leases by their end.
CREATE INDEX questions_leased ON questions (lease_until) WHERE state = 'leased';

-- name: questions_deadline
-- Waiting questions by deadline.
CREATE INDEX questions_deadline ON questions (deadline_at) WHERE state = 'queued' AND deadline_at IS NOT NULL;

-- name: questions_state
-- Counts by job and state.
CREATE INDEX questions_state ON questions (job_id, state);
