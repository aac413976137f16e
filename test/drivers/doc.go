// Package drivers runs real drivers through the proxy. Each directory below it holds one program in the driver's own
// language that does what applications do: it connects, presents a token, writes in every way that the driver has, is
// overtaken by another holder, and goes on. A program only reports, one line `check: result` per check, where the result is a
// SQLSTATE or a value; what the result must be stands in one table here, and what was written is read from the table in
// the database.
//
// The programs take the address from PGHOST, PGPORT, PGDATABASE and PGUSER. docs/drivers.md shows the same calls.
package drivers
