// Package jobs is the example of docs/jobs.md: a job queue in PostgreSQL whose workers may die or freeze at any moment. A
// worker holds the lock of a slot; what it claims and completes passes the proxy under that lock's token. So a worker that was
// frozen, and whose slot another one has taken over, completes nothing any more.
package jobs
