// Package verifiers finds the SCRAM verifiers of users, in a file, by a query, or in the file and then by the query. It
// remembers what the query has said for a short time, and never logs a verifier.
package verifiers
