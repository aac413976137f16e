// Package dbcheck compares a configuration with a database: are the fenced tables there, are their partitions named,
// is the fence schema the one this binary works with, and has the control role the rights it needs. It only reads.
package dbcheck
