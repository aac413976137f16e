// Package run tests the commands that hold a lock, as processes: fenceproxy run with children that do not want to end and
// wrappers that are killed or stopped, fenceproxy lock, elect and watch.
package run
