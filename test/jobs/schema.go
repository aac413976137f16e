package jobs

import (
	"fmt"
	"strings"
)

// Schema makes the queue for a number of slots. Producers write to inbox, which is not fenced, for they hold no lock. What
// is claimed lives in the partition of the worker's slot, which the fence of the same number protects: jobs/1=jobs_1.
// Nobody writes by way of the parent.
func Schema(slots int) string {
	var b strings.Builder
	b.WriteString(`
CREATE TABLE inbox (
  id        bigserial PRIMARY KEY,
  payload   text NOT NULL,
  queued_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE jobs (
  id          bigint NOT NULL,
  payload     text NOT NULL,
  queued_at   timestamptz NOT NULL,
  slot        int NOT NULL,
  attempts    int NOT NULL DEFAULT 1,
  claimed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  done_at     timestamptz,
  answer      text,
  completions int NOT NULL DEFAULT 0
) PARTITION BY LIST (slot);
`)
	for i := 1; i <= slots; i++ {
		fmt.Fprintf(&b, "CREATE TABLE jobs_%d PARTITION OF jobs FOR VALUES IN (%d);\n", i, i)
		fmt.Fprintf(&b, "CREATE UNIQUE INDEX ON jobs_%d (id);\nCREATE INDEX ON jobs_%d (id) WHERE done_at IS NULL;\n", i, i)
	}
	return b.String()
}

// Fences are the flags for fenceproxy serve.
func Fences(slots int) (flags []string) {
	for i := 1; i <= slots; i++ {
		flags = append(flags, "--fence", fmt.Sprintf("jobs/%d=jobs_%d", i, i))
	}
	return flags
}

// queries of one slot: the table's name is part of the text, so that the proxy sees which fence it is.
type queries struct{ claim, resume, complete string }

func queriesOf(slot int) queries {
	table := fmt.Sprintf("jobs_%d", slot)
	return queries{
		// Moves a job from the inbox to the slot. Rows that others are about to take are skipped, so workers do not wait for
		// each other. All of it happens, or, if the token is stale, nothing.
		claim: `WITH next AS (DELETE FROM inbox WHERE id = (SELECT id FROM inbox ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING id, payload, queued_at)
INSERT INTO ` + table + ` (id, payload, queued_at, slot) SELECT id, payload, queued_at, ` + fmt.Sprint(slot) + ` FROM next RETURNING id, payload`,

		// Takes what an earlier holder of the slot has left.
		resume: `UPDATE ` + table + ` SET attempts = attempts + 1, claimed_at = clock_timestamp()
WHERE id = (SELECT id FROM ` + table + ` WHERE done_at IS NULL ORDER BY id LIMIT 1) RETURNING id, payload`,

		// There is no check whether another has completed it: that is what the fence is for.
		complete: `UPDATE ` + table + ` SET answer = $2, done_at = clock_timestamp(), completions = completions + 1 WHERE id = $1`,
	}
}
